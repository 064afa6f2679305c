//! The same decisions in memory: the oracle of the tests, and the limiter of one worker while Redis
//! does not answer. It counts only what this memory has seen, by the clock it is given.

use std::{
    collections::{BTreeSet, HashMap},
    sync::Arc,
};

use crate::{
    algorithm::twin::{Act, Look, Next, State},
    claim::Claim,
    redis::script::Member,
    units::{Micros, Moment},
    verdict::{Reading, Wait},
};

/// Limits kept in memory, for a bounded number of keys.
///
/// At the bound, keys whose state no longer matters go first. Then those matter least that have
/// taken less than half of their quota, then those that still have some, and last those that have
/// none left: a flood of new keys does not free a client who is refused. Among equals the one goes
/// that would be whole again soonest. What goes starts clean.
#[derive(Clone, Debug)]
pub struct Local {
    most: usize,
    keys: HashMap<Arc<str>, Kept>,
    /// The keys in the order in which they would go.
    order: BTreeSet<Rank>,
    /// Entries of all logs together.
    entries: usize,
}

#[derive(Clone, Debug)]
struct Kept {
    state: State,
    level: Level,
    /// From this moment on the state does not matter.
    until: Moment,
}

type Rank = (Level, Moment, Arc<str>);

/// How much of its quota a key has taken.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
enum Level {
    Some,
    Half,
    All,
}

/// Entries that all logs may have together, for each key that is kept. A log that is being written
/// may have more, up to its own quota.
const ENTRIES_PER_KEY: usize = 16;

impl Local {
    /// Keeps at most so many keys, and one if zero.
    #[must_use]
    pub fn new(keys: usize) -> Self {
        Self {
            most: keys.max(1),
            keys: HashMap::new(),
            order: BTreeSet::new(),
            entries: 0,
        }
    }

    /// Decides like the script: all or nothing, one reading a claim. The claims' keys must be
    /// different.
    pub fn decide(&mut self, claims: &[Claim], now: Moment, member: Member) -> Vec<Reading> {
        let looks: Vec<_> = claims.iter().map(|claim| self.look(claim, now)).collect();
        let go = claims
            .iter()
            .zip(&looks)
            .all(|(claim, look)| look.admits() || !claim.enforced);
        let mut readings = Vec::with_capacity(claims.len());
        for (claim, look) in claims.iter().zip(looks) {
            let takes = go && look.admits() && claim.cost > 0;
            let left = if takes {
                look.room.saturating_sub(claim.cost)
            } else {
                look.room
            };
            readings.push(Reading {
                admitted: look.admits(),
                remaining: left,
                wait: look.wait,
                reset: if takes { look.later } else { look.reset },
            });
            if takes {
                let old = self.remove(&claim.key).map(|kept| kept.state);
                let state = claim
                    .algorithm
                    .take(old, look.next, claim.cost, member, now);
                self.insert(claim, state, left, until(now, look.ttl_ms));
            } else if !look.admits() && look.mends {
                self.mend(claim, look, now);
            }
        }
        self.make_room(claims, now);
        readings
    }

    /// Gives back what [`Local::decide`] took for these claims and this member, like the script's
    /// `give`. The readings say what is there now.
    pub fn give(&mut self, claims: &[Claim], now: Moment, member: Member) -> Vec<Reading> {
        let mut readings = Vec::with_capacity(claims.len());
        for claim in claims {
            let mut old = self.remove(&claim.key).filter(|kept| now < kept.until);
            if let Some(Kept {
                state: State::Log(log),
                ..
            }) = &mut old
            {
                log.give(claim.cost, member);
            }
            let state = old.as_ref().map(|kept| &kept.state);
            let look = claim.algorithm.look(state, Act::Give(claim.cost), now);
            let (remaining, reset) = (look.room, look.reset);
            readings.push(Reading {
                admitted: true,
                remaining,
                wait: Wait::For(Micros::ZERO),
                reset,
            });
            let kept = old.map(|kept| match look.next {
                Next::Is(state) => (state, until(now, look.ttl_ms)),
                Next::Entries => (kept.state, kept.until),
            });
            if let Some((state, until)) = kept
                && (reset > Micros::ZERO || state.entries() > 0)
            {
                self.insert(claim, state, remaining, until);
            }
        }
        readings
    }

    /// Looks at what a claim's key holds, and drops what has expired.
    fn look(&mut self, claim: &Claim, now: Moment) -> Look {
        if self
            .keys
            .get(claim.key.as_str())
            .is_some_and(|kept| kept.until <= now)
        {
            self.remove(&claim.key);
        }
        let kept = self.keys.get(claim.key.as_str());
        claim
            .algorithm
            .look(kept.map(|kept| &kept.state), Act::Take(claim.cost), now)
    }

    /// Pulls state from the future back to now.
    fn mend(&mut self, claim: &Claim, look: Look, now: Moment) {
        let state = match (look.next, self.remove(&claim.key).map(|kept| kept.state)) {
            (Next::Is(_), _) if look.later == Micros::ZERO => return,
            (Next::Is(state), _) => state,
            (Next::Entries, Some(State::Log(mut log))) => {
                log.mend(now);
                State::Log(log)
            }
            (Next::Entries, _) => return,
        };
        self.insert(claim, state, look.room, until(now, look.ttl_ms));
    }

    fn insert(&mut self, claim: &Claim, state: State, left: u64, until: Moment) {
        let level = match claim.algorithm.quota().checked_div(2) {
            _ if left == 0 => Level::All,
            Some(half) if left > half => Level::Some,
            _ => Level::Half,
        };
        let key: Arc<str> = Arc::from(claim.key.as_str());
        self.entries = self.entries.saturating_add(state.entries());
        self.order.insert((level, until, Arc::clone(&key)));
        self.keys.insert(
            key,
            Kept {
                state,
                level,
                until,
            },
        );
    }

    fn remove(&mut self, key: &str) -> Option<Kept> {
        let (key, kept) = self.keys.remove_entry(key)?;
        self.entries = self.entries.saturating_sub(kept.state.entries());
        self.order.remove(&(kept.level, kept.until, key));
        Some(kept)
    }

    /// Back within the bounds, without touching what has just been decided.
    fn make_room(&mut self, claims: &[Claim], now: Moment) {
        let full = |local: &Self| {
            local.keys.len() > local.most
                || local.entries > local.most.saturating_mul(ENTRIES_PER_KEY)
        };
        if !full(self) {
            return;
        }
        for level in [Level::Some, Level::Half, Level::All] {
            let after = now.plus(Micros(1));
            let gone = (level, Moment::default(), Arc::from(""))..(level, after, Arc::from(""));
            let gone: Vec<_> = self
                .order
                .range(gone)
                .map(|(.., key)| Arc::clone(key))
                .collect();
            gone.iter().for_each(|key| drop(self.remove(key)));
        }
        while full(self) {
            let fresh = |key: &str| claims.iter().any(|claim| claim.key == key);
            let least = self.order.iter().find(|(.., key)| !fresh(key));
            let Some(key) = least.map(|(.., key)| Arc::clone(key)) else {
                return;
            };
            self.remove(&key);
        }
    }
}

/// What an outage leaves behind.
impl Local {
    /// How many keys are kept.
    #[must_use]
    pub fn len(&self) -> usize {
        self.keys.len()
    }

    /// Whether nothing is kept.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.keys.is_empty()
    }

    /// Units that were taken of this claim's limit and still count.
    #[must_use]
    pub fn used(&self, claim: &Claim, now: Moment) -> u64 {
        let kept = self.keys.get(claim.key.as_str());
        let kept = kept.filter(|kept| kept.until > now);
        kept.map_or(0, |kept| {
            let look = claim.algorithm.look(Some(&kept.state), Act::Take(0), now);
            claim.algorithm.quota().saturating_sub(look.room)
        })
    }

    /// Forgets this key.
    pub fn forget(&mut self, key: &str) {
        self.remove(key);
    }
}

/// The first moment at which Redis might have dropped a key of that life; its state matters no more.
fn until(now: Moment, ttl_ms: u64) -> Moment {
    now.plus(Micros::from_millis(ttl_ms.saturating_sub(1)))
        .plus(Micros(1))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Algorithm, Kind, Parameters, Window};

    fn claim(key: &str, kind: Kind, count: u64) -> Claim {
        let window = Some(Window::Span(Micros::from_secs(60)));
        let parameters = Parameters {
            kind,
            count,
            window,
            burst: None,
            align: None,
            lease: None,
        };
        let algorithm = Algorithm::new(parameters).unwrap();
        Claim {
            limit: 0,
            key: key.to_owned(),
            algorithm,
            cost: 1,
            enforced: true,
        }
    }

    fn member(n: usize) -> Member {
        Member::new(u128::try_from(n * 0x0102_0304).unwrap().to_be_bytes())
    }

    #[test]
    fn b65_a_flood_of_keys_frees_no_client_who_is_refused() {
        let mut local = Local::new(100);
        let alice = [claim("alice", Kind::Gcra, 1)];
        assert!(local.decide(&alice, Moment(1), member(0))[0].admitted);
        for n in 0..10_000 {
            local.decide(
                &[claim(&n.to_string(), Kind::SlidingLog, 10)],
                Moment(2),
                member(n),
            );
            assert!(local.len() <= 100);
        }
        assert!(!local.decide(&alice, Moment(3), member(1))[0].admitted);
    }

    #[test]
    fn state_that_no_longer_matters_goes_before_any_other() {
        let mut local = Local::new(10);
        for n in 0..10 {
            local.decide(
                &[claim(&n.to_string(), Kind::SlidingLog, 1)],
                Moment(1),
                member(n),
            );
        }
        let later = Moment(1).plus(Micros::from_secs(61));
        let two = [
            claim("a", Kind::SlidingLog, 9),
            claim("b", Kind::SlidingLog, 9),
        ];
        local.decide(&two, later, member(11));
        assert_eq!(local.len(), 2);
    }

    #[test]
    fn logs_are_bounded_together() {
        let mut local = Local::new(10);
        for n in 0..10_000 {
            let key = (n % 7).to_string();
            local.decide(
                &[claim(&key, Kind::SlidingLog, 1_000)],
                Moment(1),
                member(n),
            );
            assert!(local.entries <= 1_000 + 10 * ENTRIES_PER_KEY);
        }
        let counted: usize = local.keys.values().map(|kept| kept.state.entries()).sum();
        assert_eq!(
            (counted, local.order.len()),
            (local.entries, local.keys.len())
        );
    }
}
