//! The measure that `token-bucket` and `gcra` share: a token is so many units, and so many units
//! come back each microsecond, both whole numbers. So 700001 a second is as exact as 1 a month.

use super::{BadParameter, EXACT, MAX_COUNT, MAX_FILL, Parameters, int, twin::Act};
use crate::{units::Micros, verdict::Wait};

/// Checked numbers of a bucket. `burst * token <= EXACT`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Bucket {
    /// Most tokens at once.
    pub burst: u64,
    /// Units that come back each microsecond.
    pub pace: u64,
    /// Units of one token.
    pub token: u64,
    /// The window of the rate, which names the key.
    pub span: Micros,
}

impl Bucket {
    pub fn new(parameters: &Parameters) -> Result<Self, BadParameter> {
        let span = parameters.span()?;
        let count = parameters.count(MAX_COUNT)?;
        let burst = parameters.burst(MAX_COUNT)?;
        let shared = gcd(count, span.0);
        let (pace, token) = (over(count, shared), over(span.0, shared));
        let most = largest_burst(pace, token);
        if burst > most {
            let accepted = format!("1..={most} at this rate");
            return Err(BadParameter::new("burst", burst, accepted));
        }
        let (pace, token) = measure(pace, token, burst);
        Ok(Self {
            burst,
            pace,
            token,
            span,
        })
    }

    /// One of so many equal parts: as long to fill, the burst rounded up to a whole token, and the
    /// rate never above its part.
    pub fn share(self, parts: u64) -> Self {
        let burst = self.burst.div_ceil(parts.max(1));
        let token = self.token.saturating_mul(parts.max(1));
        let (pace, token) = match measure(self.pace, token, burst) {
            // A rate of less than one in a century is held at that.
            (0, _) => (1, over(EXACT, burst)),
            fitting => fitting,
        };
        Self {
            burst,
            pace,
            token,
            span: self.span,
        }
    }

    /// How long an empty bucket takes to fill, rounded up.
    pub const fn fills_in(&self) -> Micros {
        Micros(self.full().div_ceil(nonzero(self.pace)))
    }

    /// Units of the whole burst.
    pub const fn full(&self) -> u64 {
        self.burst.saturating_mul(self.token)
    }

    /// The units that so many units of another token's measure are now, rounded up: what was used
    /// stays used. In floating point, step by step as the script does it.
    #[expect(
        clippy::cast_precision_loss,
        clippy::cast_possible_truncation,
        clippy::cast_sign_loss,
        reason = "the script's own arithmetic; below 2^53 exact, above it cut to the full bucket"
    )]
    pub fn convert(&self, used: u64, from: u64) -> u64 {
        let whole = over(used, from);
        let rest = used.saturating_sub(whole.saturating_mul(from)) as f64;
        let token = self.token as f64;
        (whole as f64 * token + (rest * token / from as f64).ceil()) as u64
    }

    /// What a request of this cost meets when so many units are used.
    pub fn judge(&self, used: u64, act: Act) -> Judgement {
        let full = self.full();
        let (used, cost) = match act {
            Act::Take(cost) => (used, cost),
            Act::Give(cost) => (used.saturating_sub(cost.saturating_mul(self.token)), 0),
        };
        let room = over(full.saturating_sub(used), self.token);
        let reset = self.until(used);
        let asked = used.saturating_add(cost.saturating_mul(self.token));
        if cost <= room {
            let later = self.until(asked);
            return Judgement {
                used: asked,
                room,
                wait: Wait::For(Micros::ZERO),
                reset,
                later,
            };
        }
        let wait = if cost > self.burst {
            Wait::Never
        } else {
            Wait::For(self.until(asked.saturating_sub(full)))
        };
        Judgement {
            used,
            room,
            wait,
            reset,
            later: reset,
        }
    }

    /// How long so many units take to come back, rounded up.
    const fn until(&self, units: u64) -> Micros {
        Micros(units.div_ceil(nonzero(self.pace)))
    }

    pub fn arguments(&self) -> [Option<i64>; 3] {
        [int(self.burst), int(self.pace), int(self.token)]
    }
}

/// What a bucket says.
pub(super) struct Judgement {
    /// Units used, after the take if it fits.
    pub used: u64,
    /// Whole tokens there before the take.
    pub room: u64,
    /// When it fits.
    pub wait: Wait,
    /// Until it is full, before the take.
    pub reset: Micros,
    /// Until it is full, after the take.
    pub later: Micros,
}

/// The finest measure in which a full bucket is at most [`EXACT`] units: the exact one, or one
/// whose rate is less than a millionth slower. For a burst of at most [`largest_burst`].
fn measure(pace: u64, token: u64, burst: u64) -> (u64, u64) {
    let most = over(EXACT, burst);
    if token <= most {
        return (pace, token);
    }
    // Rounded up, so that nobody gets more than the rate.
    let pace_of = scaled_down(most, pace, token);
    (pace_of, scaled(pace_of, token, pace))
}

/// The largest burst whose bucket fits into [`EXACT`] units with a rate that is less than a
/// millionth off, and fills within [`MAX_FILL`].
fn largest_burst(pace: u64, token: u64) -> u64 {
    // The smallest pace at which rounding a token up costs less than a millionth.
    let coarsest = scaled_down(1_000_000, pace, token).saturating_add(1);
    let least = scaled(coarsest, token, pace).min(token);
    over(EXACT, least)
        .min(scaled_down(MAX_FILL.0, pace, token))
        .min(MAX_COUNT)
}

/// `n * by / per`, rounded up.
fn scaled(n: u64, by: u64, per: u64) -> u64 {
    let product = u128::from(n).saturating_mul(u128::from(by));
    u64::try_from(product.div_ceil(u128::from(per.max(1)))).unwrap_or(u64::MAX)
}

/// `n * by / per`, rounded down.
fn scaled_down(n: u64, by: u64, per: u64) -> u64 {
    let product = u128::from(n).saturating_mul(u128::from(by));
    let quotient = product.checked_div(u128::from(per)).unwrap_or(0);
    u64::try_from(quotient).unwrap_or(u64::MAX)
}

fn gcd(a: u64, b: u64) -> u64 {
    let (mut a, mut b) = (a, b);
    while b != 0 {
        (a, b) = (b, a.checked_rem(b).unwrap_or(0));
    }
    a
}

/// `a / b` rounded down, for a `b` that is never zero.
pub(super) fn over(a: u64, b: u64) -> u64 {
    a.checked_div(b).unwrap_or(0)
}

const fn nonzero(n: u64) -> u64 {
    if n == 0 { 1 } else { n }
}
