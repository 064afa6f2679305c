//! The algorithms: checked parameters, what goes to the script, and the Rust twin of each.
//!
//! Each algorithm exists twice: as a Lua file under `src/lua`, which decides in Redis, and here, as
//! the oracle for tests and the limiter that stands in when Redis does not answer. The two are held
//! against each other on random histories.
//!
//! Every number has an upper bound, chosen so that no sum or product passes 2^53 in Lua or 64 bits
//! here: with both, `now` in microseconds until the year 2100 and any window or lease fit as well.

mod bucket;
mod calendar;
mod fixed_window;
mod gcra;
mod parameters;
#[cfg(test)]
mod promises;
mod sliding_log;
mod sliding_window;
#[cfg(test)]
mod tests;
mod token_bucket;
pub(crate) mod twin;

pub use parameters::{Align, BadParameter, Kind, Parameters, Window};

use crate::units::Micros;
use fixed_window::FixedWindow;
use gcra::Gcra;
use sliding_log::SlidingLog;
use sliding_window::SlidingWindow;
use token_bucket::TokenBucket;

/// Most units a window, a burst or a fleet of leases may have.
pub const MAX_COUNT: u64 = 1_000_000_000_000;

/// Most units of `sliding-log` and `concurrency`, which keep one member a unit: about 100 bytes of
/// Redis's memory each.
pub const MAX_LOG_COUNT: u64 = 100_000;

/// Shortest window.
pub const MIN_WINDOW: Micros = Micros::from_millis(1);

/// Longest window: a leap year.
pub const MAX_WINDOW: Micros = Micros::from_secs(366 * 86_400);

/// Longest time in which an empty bucket fills: about ten years.
pub const MAX_FILL: Micros = Micros(MAX_WINDOW.0 * 10);

/// Shortest lease of `concurrency`.
pub const MIN_LEASE: Micros = Micros::from_millis(100);

/// Longest lease of `concurrency`.
pub const MAX_LEASE: Micros = Micros::from_secs(86_400);

/// The lease of `concurrency` when the policy names none.
pub const DEFAULT_LEASE: Micros = Micros::from_secs(60);

/// Most units one request may take, whatever the limit.
pub const MAX_COST: u64 = 1_000_000;

/// Most units one request may take of `sliding-log` and `concurrency`, which write one member a unit.
pub const MAX_LOG_COST: u64 = 1_000;

/// The largest product that Lua's numbers may hold: half of what they hold exactly, so that a sum
/// of two is exact too.
pub(crate) const EXACT: u64 = 1 << 52;

/// One limit's algorithm with numbers that cannot overflow.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Algorithm(Numbers);

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Numbers {
    SlidingLog(SlidingLog),
    Concurrency(SlidingLog),
    SlidingWindow(SlidingWindow),
    FixedWindow(FixedWindow),
    TokenBucket(TokenBucket),
    Gcra(Gcra),
}

impl Algorithm {
    /// Checks the numbers.
    ///
    /// # Errors
    /// The first parameter that is out of range, or that this algorithm does not have.
    pub fn new(parameters: Parameters) -> Result<Self, BadParameter> {
        parameters.only_what_the_kind_has()?;
        Ok(Self(match parameters.kind {
            Kind::SlidingLog => Numbers::SlidingLog(SlidingLog::window(&parameters)?),
            Kind::Concurrency => Numbers::Concurrency(SlidingLog::leases(&parameters)?),
            Kind::SlidingWindow => Numbers::SlidingWindow(SlidingWindow::new(&parameters)?),
            Kind::FixedWindow => Numbers::FixedWindow(FixedWindow::new(&parameters)?),
            Kind::TokenBucket => Numbers::TokenBucket(TokenBucket::new(&parameters)?),
            Kind::Gcra => Numbers::Gcra(Gcra::new(&parameters)?),
        }))
    }

    /// Which algorithm.
    #[must_use]
    pub const fn kind(&self) -> Kind {
        match self.0 {
            Numbers::SlidingLog(_) => Kind::SlidingLog,
            Numbers::Concurrency(_) => Kind::Concurrency,
            Numbers::SlidingWindow(_) => Kind::SlidingWindow,
            Numbers::FixedWindow(_) => Kind::FixedWindow,
            Numbers::TokenBucket(_) => Kind::TokenBucket,
            Numbers::Gcra(_) => Kind::Gcra,
        }
    }

    /// Most units at once: the N of a window, the burst of a bucket, the leases in flight.
    #[must_use]
    pub const fn quota(&self) -> u64 {
        match &self.0 {
            Numbers::SlidingLog(it) | Numbers::Concurrency(it) => it.quota,
            Numbers::SlidingWindow(it) => it.quota,
            Numbers::FixedWindow(it) => it.quota,
            Numbers::TokenBucket(it) => it.0.burst,
            Numbers::Gcra(it) => it.0.burst,
        }
    }

    /// The time a quota is for: the window, or the time in which an empty bucket fills; the longest
    /// month for a calendar month; zero for `concurrency`.
    #[must_use]
    pub fn window(&self) -> Micros {
        match &self.0 {
            Numbers::SlidingLog(it) => it.span,
            Numbers::Concurrency(_) => Micros::ZERO,
            Numbers::SlidingWindow(it) => it.span,
            Numbers::FixedWindow(it) => it.longest(),
            Numbers::TokenBucket(it) => it.0.fills_in(),
            Numbers::Gcra(it) => it.0.fills_in(),
        }
    }

    /// Most units that one request can take: one that costs more is refused for ever. At most
    /// [`MAX_COST`].
    #[must_use]
    pub fn max_cost(&self) -> u64 {
        let most = match self.0 {
            Numbers::SlidingLog(_) | Numbers::Concurrency(_) => MAX_LOG_COST,
            _ => MAX_COST,
        };
        self.quota().min(most)
    }

    /// One of so many equal parts of this limit, for one of so many limiters that do not know of each
    /// other: the quota divided and rounded up, so never nothing, and a bucket's rate divided.
    #[must_use]
    pub fn share(self, parts: u64) -> Self {
        let part = |quota: u64| quota.div_ceil(parts.max(1));
        Self(match self.0 {
            Numbers::SlidingLog(mut it) => {
                it.quota = part(it.quota);
                Numbers::SlidingLog(it)
            }
            Numbers::Concurrency(mut it) => {
                it.quota = part(it.quota);
                Numbers::Concurrency(it)
            }
            Numbers::SlidingWindow(mut it) => {
                it.quota = part(it.quota);
                Numbers::SlidingWindow(it)
            }
            Numbers::FixedWindow(mut it) => {
                it.quota = part(it.quota);
                Numbers::FixedWindow(it)
            }
            Numbers::TokenBucket(it) => Numbers::TokenBucket(TokenBucket(it.0.share(parts))),
            Numbers::Gcra(it) => Numbers::Gcra(Gcra(it.0.share(parts))),
        })
    }

    /// The end of the Redis key: the algorithm and its window, so that a changed algorithm or window
    /// never meets another's state, while a changed number keeps it. `[a-z0-9+-]`, at most 24 bytes.
    #[must_use]
    pub fn key_part(&self) -> String {
        match &self.0 {
            Numbers::SlidingLog(it) => format!("sl-{}", it.span),
            Numbers::Concurrency(_) => "in-flight".to_owned(),
            Numbers::SlidingWindow(it) => format!("sw-{}", it.span),
            Numbers::FixedWindow(it) => it.key_part(),
            Numbers::TokenBucket(it) => format!("tb-{}", it.0.span),
            Numbers::Gcra(it) => format!("gcra-{}", it.0.span),
        }
    }

    /// The longest life of this limit's state in Redis after a take, in milliseconds; every key has
    /// a shorter one, and none less than 1 ms.
    #[must_use]
    pub fn longest_ttl_ms(&self) -> u64 {
        let span = match &self.0 {
            Numbers::SlidingLog(it) | Numbers::Concurrency(it) => it.span,
            Numbers::SlidingWindow(it) => Micros(it.span.0.saturating_mul(2)),
            _ => self.window(),
        };
        span.millis_up().saturating_add(2)
    }

    /// What the script takes: the algorithm's code and its numbers.
    pub(crate) fn arguments(&self) -> (i64, [Option<i64>; 3]) {
        match &self.0 {
            Numbers::SlidingLog(it) => (1, [int(it.quota), int(it.span.0), None]),
            Numbers::Concurrency(it) => (2, [int(it.quota), int(it.span.0), None]),
            Numbers::SlidingWindow(it) => (3, [int(it.quota), int(it.span.0), int(it.grain)]),
            Numbers::FixedWindow(it) => it.arguments(),
            Numbers::TokenBucket(it) => (7, it.0.arguments()),
            Numbers::Gcra(it) => (8, it.0.arguments()),
        }
    }
}

/// A checked number as an argument; all of them are far below 2^63.
fn int(n: u64) -> Option<i64> {
    Some(i64::try_from(n).unwrap_or(i64::MAX))
}
