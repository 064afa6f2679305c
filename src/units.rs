//! Units with their meaning in the type, and arithmetic that cannot overflow.

use std::fmt;

/// A span of time in whole microseconds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Micros(pub u64);

impl Micros {
    /// No time at all.
    pub const ZERO: Self = Self(0);

    /// `n` milliseconds; saturates.
    #[must_use]
    pub const fn from_millis(n: u64) -> Self {
        Self(n.saturating_mul(1_000))
    }

    /// `n` seconds; saturates.
    #[must_use]
    pub const fn from_secs(n: u64) -> Self {
        Self(n.saturating_mul(1_000_000))
    }

    /// Whole milliseconds, rounded up: a wait of 1 µs is 1 ms.
    #[must_use]
    pub const fn millis_up(self) -> u64 {
        self.0.div_ceil(1_000)
    }

    /// Whole seconds, rounded up: a wait of 1 µs is 1 s.
    #[must_use]
    pub const fn secs_up(self) -> u64 {
        self.0.div_ceil(1_000_000)
    }
}

/// A moment in whole microseconds since an epoch, by the clock of whoever produced it. Moments of
/// different clocks must not be compared.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Moment(pub u64);

impl Moment {
    /// Time from `earlier` to `self`. Zero if the clock went backwards.
    #[must_use]
    pub const fn since(self, earlier: Self) -> Micros {
        Micros(self.0.saturating_sub(earlier.0))
    }

    /// `span` later; saturates.
    #[must_use]
    pub const fn plus(self, span: Micros) -> Self {
        Self(self.0.saturating_add(span.0))
    }
}

impl fmt::Display for Micros {
    /// The shortest exact form: `1m`, `20ms`, `250us`.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        const UNITS: [(u64, &str); 5] = [
            (86_400_000_000, "d"),
            (3_600_000_000, "h"),
            (60_000_000, "m"),
            (1_000_000, "s"),
            (1_000, "ms"),
        ];
        for (size, name) in UNITS {
            if self.0 != 0 && self.0.is_multiple_of(size) {
                return write!(f, "{}{name}", self.0.checked_div(size).unwrap_or(0));
            }
        }
        write!(f, "{}us", self.0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn waits_round_up_and_clocks_that_run_backwards_give_zero() {
        assert_eq!((Micros(1).secs_up(), Micros(1).millis_up()), (1, 1));
        assert_eq!(
            (Micros(1_000_001).secs_up(), Micros::ZERO.secs_up()),
            (2, 0)
        );
        assert_eq!(Moment(5).since(Moment(9)), Micros::ZERO);
        assert_eq!(Moment(u64::MAX).plus(Micros(1)), Moment(u64::MAX));
    }

    #[test]
    fn spans_print_in_the_largest_exact_unit() {
        for (span, text) in [
            (Micros::from_secs(60), "1m"),
            (Micros::from_secs(90), "90s"),
            (Micros::from_millis(20), "20ms"),
            (Micros(250), "250us"),
            (Micros::ZERO, "0us"),
            (Micros::from_secs(86_400), "1d"),
        ] {
            assert_eq!(span.to_string(), text);
        }
    }
}
