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
        let (mut used, mut mends) = (0, false);
        if let Some(&State::Bucket {
            used: kept,
            at,
            pace,
            token,
        }) = old
        {
            let same = (pace, token) == (bucket.pace, bucket.token);
            let kept = if same { kept.min(bucket.full()) } else { kept };
            used = kept.saturating_sub(now.since(at).0.saturating_mul(pace));
            mends = at > now || !same;
            if !same {
                used = bucket.convert(used, token).min(bucket.full());
            }
        }
        let judged = bucket.judge(used, act);
        let (pace, token) = (bucket.pace, bucket.token);
        let state = State::Bucket {
            used: judged.used,
            at: now,
            pace,
            token,
        };
        Look {
            room: judged.room,
            wait: judged.wait,
            reset: judged.reset,
            later: judged.later,
            next: Next::Is(state),
            ttl_ms: ttl_ms(judged.later),
            mends,
        }
    }
}

/// A relative life in whole milliseconds that is surely long enough: Redis counts it from the
/// millisecond it is in, and that of a script may be the one before.
pub(super) const fn ttl_ms(later: Micros) -> u64 {
    later.millis_up().saturating_add(1)
}
