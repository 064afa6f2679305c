//! `token-bucket`: what of the burst is used, at a moment. Twin of `lua/token_bucket.lua`.

use super::{
    BadParameter, Parameters,
    bucket::Bucket,
    twin::{Act, Look, Next, State},
};
use crate::units::{Micros, Moment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct TokenBucket(pub Bucket);

impl TokenBucket {
    pub fn new(parameters: &Parameters) -> Result<Self, BadParameter> {
        Bucket::new(parameters).map(Self)
    }

    pub fn look(&self, old: Option<&State>, act: Act, now: Moment) -> Look {
        let bucket = &self.0;
        let (mut used, mut ahead) = (0, false);
        if let Some(&State::Bucket {
            used: kept,
            at,
            token,
        }) = old
        {
            used = if token == bucket.token {
                kept
            } else {
                bucket.convert(kept, token)
            };
            used = used.min(bucket.full());
            ahead = at > now;
            used = used.saturating_sub(now.since(at).0.saturating_mul(bucket.pace));
        }
        let judged = bucket.judge(used, act);
        let state = State::Bucket {
            used: judged.used,
            at: now,
            token: bucket.token,
        };
        Look {
            room: judged.room,
            wait: judged.wait,
            reset: judged.reset,
            later: judged.later,
            next: Next::Is(state),
            ttl_ms: ttl_ms(judged.later),
            ahead,
        }
    }
}

/// A relative life in whole milliseconds that is surely long enough: Redis counts it from the
/// millisecond it is in, and that of a script may be the one before.
pub(super) const fn ttl_ms(later: Micros) -> u64 {
    later.millis_up().saturating_add(1)
}
