//! `gcra`: the moment when the whole burst is there again. Twin of `lua/gcra.lua`.

use super::{
    BadParameter, EXACT, Parameters,
    bucket::{Bucket, over},
    token_bucket::ttl_ms,
    twin::{Act, Look, Next, State},
};
use crate::units::{Micros, Moment};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Gcra(pub Bucket);

impl Gcra {
    pub fn new(parameters: &Parameters) -> Result<Self, BadParameter> {
        Bucket::new(parameters).map(Self)
    }

    pub fn look(&self, old: Option<&State>, act: Act, now: Moment) -> Look {
        let bucket = &self.0;
        let (mut used, mut mends) = (0, false);
        if let Some(&State::Gcra {
            at,
            part,
            pace,
            token,
        }) = old
        {
            let units = at.since(now).0.saturating_mul(pace).saturating_add(part);
            used = units.saturating_sub(now.since(at).0.saturating_mul(pace));
            if (pace, token) != (bucket.pace, bucket.token) {
                mends = true;
                used = bucket.convert(used.min(EXACT), token);
            }
            mends |= used > bucket.full();
            used = used.min(bucket.full());
        }
        let judged = bucket.judge(used, act);
        let whole = over(judged.used, bucket.pace);
        let part = judged
            .used
            .saturating_sub(whole.saturating_mul(bucket.pace));
        let at = now.plus(Micros(whole));
        let state = State::Gcra {
            at,
            part,
            pace: bucket.pace,
            token: bucket.token,
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
