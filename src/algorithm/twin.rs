//! What the Rust twins share: the state they keep, and what they say when they look at it.

use super::{Algorithm, Numbers, sliding_log::Log};
use crate::{
    redis::script::Member,
    units::{Micros, Moment},
    verdict::Wait,
};

/// What one key holds, field by field what Redis holds.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) enum State {
    /// `sliding-log`, `concurrency`.
    Log(Log),
    /// `sliding-window`: when this window starts, the units in it and in the one before.
    Windows { start: Moment, cur: u64, prev: u64 },
    /// `fixed-window`.
    Window { ends: Moment, count: u64 },
    /// `token-bucket`.
    Bucket {
        used: u64,
        at: Moment,
        pace: u64,
        token: u64,
    },
    /// `gcra`: when the burst is whole: `at`, and `part` units after it.
    Gcra {
        at: Moment,
        part: u64,
        pace: u64,
        token: u64,
    },
}

impl State {
    /// Entries of a log; zero for what has a fixed size.
    pub fn entries(&self) -> usize {
        match self {
            Self::Log(log) => log.len(),
            _ => 0,
        }
    }
}

/// What a request does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Act {
    /// Takes so many units if they fit.
    Take(u64),
    /// Gives so many units back.
    Give(u64),
}

/// What an algorithm says before anything is taken.
pub(crate) struct Look {
    /// Units one burst could take now.
    pub room: u64,
    /// When the request fits; zero when it does now.
    pub wait: Wait,
    /// Until the whole quota is there, before the take.
    pub reset: Micros,
    /// Until the whole quota is there, after the take.
    pub later: Micros,
    /// What to keep after the take, the giving back or the mending.
    pub next: Next,
    /// How long that matters, in milliseconds.
    pub ttl_ms: u64,
    /// The state comes from the future or is in another measure, and a refusal mends it.
    pub mends: bool,
}

/// What to keep.
pub(crate) enum Next {
    /// This instead of what there was.
    Is(State),
    /// What there was, with an entry more.
    Entries,
}

impl Look {
    /// Whether the request fits.
    pub fn admits(&self) -> bool {
        self.wait == Wait::For(Micros::ZERO)
    }
}

impl Algorithm {
    /// Looks at what a key holds.
    pub(crate) fn look(&self, old: Option<&State>, act: Act, now: Moment) -> Look {
        match (&self.0, act) {
            (Numbers::SlidingLog(it) | Numbers::Concurrency(it), Act::Take(cost)) => {
                it.look(old, cost, now)
            }
            (Numbers::SlidingLog(it) | Numbers::Concurrency(it), Act::Give(_)) => {
                it.look(old, 0, now)
            }
            (Numbers::SlidingWindow(it), _) => it.look(old, act, now),
            (Numbers::FixedWindow(it), _) => it.look(old, act, now),
            (Numbers::TokenBucket(it), _) => it.look(old, act, now),
            (Numbers::Gcra(it), _) => it.look(old, act, now),
        }
    }

    /// What a key holds after a take that fits.
    pub(crate) fn take(
        &self,
        old: Option<State>,
        next: Next,
        cost: u64,
        member: Member,
        now: Moment,
    ) -> State {
        match (&self.0, next) {
            (_, Next::Is(state)) => state,
            (Numbers::SlidingLog(it) | Numbers::Concurrency(it), Next::Entries) => {
                let mut log = match old {
                    Some(State::Log(log)) => log,
                    _ => Log::default(),
                };
                it.take(&mut log, cost, member, now);
                State::Log(log)
            }
            (_, Next::Entries) => State::Log(Log::default()),
        }
    }
}
