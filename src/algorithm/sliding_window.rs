//! `sliding-window`: the units of this window and, weighted, of the one before. Twin of
//! `lua/sliding_window.lua`.

use super::{
    BadParameter, EXACT, MAX_COUNT, Parameters,
    bucket::over,
    fixed_window::ttl_until_ms,
    twin::{Act, Look, Next, State},
};
use crate::{
    units::{Micros, Moment},
    verdict::Wait,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlidingWindow {
    pub quota: u64,
    pub span: Micros,
    /// Microseconds in which the weight of the window before moves: 1, or as many as keep
    /// `quota * steps` within [`EXACT`].
    pub grain: u64,
}

impl SlidingWindow {
    pub fn new(parameters: &Parameters) -> Result<Self, BadParameter> {
        let (quota, span) = (parameters.count(MAX_COUNT)?, parameters.span()?);
        let grain = span.0.div_ceil(over(EXACT, quota).max(1));
        Ok(Self { quota, span, grain })
    }

    /// Steps of the weight in one window.
    pub fn steps(&self) -> u64 {
        self.span.0.div_ceil(self.grain.max(1))
    }

    pub fn look(&self, old: Option<&State>, act: Act, now: Moment) -> Look {
        let Self { quota, span, grain } = *self;
        let start = Moment(now.0.saturating_sub(now.0.checked_rem(span.0).unwrap_or(0)));
        let (mut cur, mut prev, mut mends) = (0, 0, false);
        if let Some(&State::Windows {
            start: s,
            cur: c,
            prev: p,
        }) = old
        {
            if s >= start {
                (cur, prev, mends) = (c, p, s > start);
            } else if s.plus(span) == start {
                prev = c;
            }
        }
        let cost = match act {
            Act::Take(cost) => cost,
            Act::Give(cost) => {
                prev = prev.saturating_sub(cost.saturating_sub(cur));
                cur = cur.saturating_sub(cost);
                0
            }
        };
        let (c, p) = (cur.min(quota), prev.min(quota));
        let steps = self.steps();
        let left = steps.saturating_sub(over(now.since(start).0, grain));
        let weighed = p.saturating_mul(left).div_ceil(steps.max(1));
        let room = quota.saturating_sub(c).saturating_sub(weighed);
        let from = |window: Moment, free: u64, sliding: u64| {
            let slid = over(free.saturating_mul(steps), sliding);
            let step = steps.saturating_sub(slid).saturating_mul(grain);
            Wait::For(window.plus(Micros(step.min(span.0))).since(now))
        };
        let wait = if cost <= room {
            Wait::For(Micros::ZERO)
        } else if cost > quota {
            Wait::Never
        } else if let Some(free) = quota.checked_sub(c.saturating_add(cost)) {
            from(start, free, p)
        } else {
            from(start.plus(span), quota.saturating_sub(cost), c)
        };
        let (end, after) = (start.plus(span), start.plus(span).plus(span));
        let whole = |cur: u64, prev: u64| match (cur, prev) {
            (0, 0) => Micros::ZERO,
            (0, _) => end.since(now),
            _ => after.since(now),
        };
        let reset = whole(c, p);
        if cost <= room {
            cur = cur.saturating_add(cost);
        }
        let later = if cost == 0 { reset } else { whole(cur, prev) };
        Look {
            room,
            wait,
            reset,
            later,
            next: Next::Is(State::Windows { start, cur, prev }),
            ttl_ms: ttl_until_ms(now.plus(later), now),
            mends,
        }
    }
}
