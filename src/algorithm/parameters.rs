//! What a policy says of a limit's numbers, and the checks that every algorithm shares.

use super::{DEFAULT_LEASE, MAX_LEASE, MAX_WINDOW, MIN_LEASE, MIN_WINDOW};
use crate::units::Micros;

/// The algorithms by name.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Exact: never more than N in any window.
    SlidingLog,
    /// Two counters, weighted.
    SlidingWindow,
    /// A counter a window.
    FixedWindow,
    /// A burst, then a steady rate.
    TokenBucket,
    /// A burst, then a steady rate, kept as one moment.
    Gcra,
    /// At most N in flight.
    Concurrency,
}

impl Kind {
    /// All of them, in the order of the documentation.
    pub const ALL: [Self; 6] = [
        Self::SlidingLog,
        Self::SlidingWindow,
        Self::FixedWindow,
        Self::TokenBucket,
        Self::Gcra,
        Self::Concurrency,
    ];

    /// The name a policy uses.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::SlidingLog => "sliding-log",
            Self::SlidingWindow => "sliding-window",
            Self::FixedWindow => "fixed-window",
            Self::TokenBucket => "token-bucket",
            Self::Gcra => "gcra",
            Self::Concurrency => "concurrency",
        }
    }

    /// The algorithm of that name; `None` when there is none.
    #[must_use]
    pub fn from_name(name: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|kind| kind.name() == name)
    }
}

/// How windows of `fixed-window` are laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To multiples of the span since the Unix epoch, shifted by a UTC offset in minutes,
    /// `-720..=840`. A span of a minute, an hour or a day gives calendar minutes, hours and days.
    Clock(i16),
    /// To the first hit.
    FirstHit,
}

/// The window of a rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Window {
    /// A span of time.
    Span(Micros),
    /// The calendar month, `fixed-window` only.
    Month,
}

/// What the policy says of one limit's numbers, before they are checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parameters {
    /// Which algorithm.
    pub kind: Kind,
    /// Units a window, or units in flight.
    pub count: u64,
    /// The window of the rate; `None` for `concurrency`.
    pub window: Option<Window>,
    /// Units at once, for the bucket algorithms; `None`: the count.
    pub burst: Option<u64>,
    /// How windows are laid, for `fixed-window`; `None`: to the clock, UTC.
    pub align: Option<Align>,
    /// How long a lease lives when nobody gives it back, for `concurrency`; `None`: one minute.
    pub lease: Option<Micros>,
}

/// Why parameters were refused. The policy turns it into an error with the limit's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadParameter {
    /// The policy's field: `rate`, `burst`, `align`, `lease`.
    pub field: &'static str,
    /// What was found.
    pub found: String,
    /// What is accepted.
    pub accepted: String,
}

impl BadParameter {
    pub(super) fn new(field: &'static str, found: impl ToString, accepted: impl ToString) -> Self {
        Self {
            field,
            found: found.to_string(),
            accepted: accepted.to_string(),
        }
    }
}

impl Parameters {
    /// Refuses what this algorithm does not have, so that no field is ignored in silence.
    pub(super) fn only_what_the_kind_has(&self) -> Result<(), BadParameter> {
        let name = self.kind.name();
        let bucket = matches!(self.kind, Kind::TokenBucket | Kind::Gcra);
        if let (Some(burst), false) = (self.burst, bucket) {
            let accepted = format!("none: {name} has no burst; token-bucket and gcra have");
            return Err(BadParameter::new("burst", burst, accepted));
        }
        if let (Some(align), false) = (self.align, self.kind == Kind::FixedWindow) {
            let accepted = format!("none: {name} has no alignment; fixed-window has");
            return Err(BadParameter::new("align", format!("{align:?}"), accepted));
        }
        if let (Some(lease), false) = (self.lease, self.kind == Kind::Concurrency) {
            let accepted = format!("none: {name} has no leases; concurrency has");
            return Err(BadParameter::new("lease", lease, accepted));
        }
        Ok(())
    }

    /// The units of the rate, `1..=most`.
    pub(super) fn count(&self, most: u64) -> Result<u64, BadParameter> {
        in_range("rate", self.count, most)
    }

    /// The units at once, `1..=most`.
    pub(super) fn burst(&self, most: u64) -> Result<u64, BadParameter> {
        self.burst
            .map_or_else(|| self.count(most), |burst| in_range("burst", burst, most))
    }

    /// The window as a span of time within the bounds.
    pub(super) fn span(&self) -> Result<Micros, BadParameter> {
        let accepted = || {
            format!(
                "a window of {MIN_WINDOW}..{MAX_WINDOW} for {}",
                self.kind.name()
            )
        };
        match self.window {
            Some(Window::Span(span)) if (MIN_WINDOW..=MAX_WINDOW).contains(&span) => Ok(span),
            Some(Window::Span(span)) => Err(BadParameter::new("rate", span, accepted())),
            Some(Window::Month) => {
                let accepted = format!("{}; only fixed-window has calendar months", accepted());
                Err(BadParameter::new("rate", "month", accepted))
            }
            None => Err(BadParameter::new("rate", "no window", accepted())),
        }
    }

    /// The life of a lease within the bounds.
    pub(super) fn lease(&self) -> Result<Micros, BadParameter> {
        if self.window.is_some() {
            let accepted = "a number of requests in flight, without a window";
            return Err(BadParameter::new("rate", "a window", accepted));
        }
        let lease = self.lease.unwrap_or(DEFAULT_LEASE);
        if (MIN_LEASE..=MAX_LEASE).contains(&lease) {
            return Ok(lease);
        }
        Err(BadParameter::new(
            "lease",
            lease,
            format!("{MIN_LEASE}..{MAX_LEASE}"),
        ))
    }
}

fn in_range(field: &'static str, found: u64, most: u64) -> Result<u64, BadParameter> {
    match found {
        0 => {
            let accepted = format!("1..={most}; to refuse every request use the plan `deny`");
            Err(BadParameter::new(field, 0, accepted))
        }
        _ if found > most => Err(BadParameter::new(field, found, format!("1..={most}"))),
        _ => Ok(found),
    }
}
