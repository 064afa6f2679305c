//! The same decisions in memory: the oracle of the tests, and the limiter of one worker while Redis
//! does not answer.

use std::collections::HashMap;

use crate::{
    algorithm::twin::{Act, Next, State},
    claim::Claim,
    redis::script::Member,
    units::{Micros, Moment},
    verdict::{Reading, Wait},
};

/// Limits kept in memory, for a bounded number of keys.
#[derive(Debug)]
pub struct Local {
    keys: HashMap<String, Kept>,
}

#[derive(Debug)]
struct Kept {
    state: State,
    /// From this moment on the state does not matter.
    until: Moment,
}

impl Local {
    /// Keeps at most so many keys.
    #[must_use]
    pub fn new(_keys: usize) -> Self {
        Self {
            keys: HashMap::new(),
        }
    }

    /// Decides like the script: all or nothing, one reading a claim. The claims' keys must be
    /// different.
    pub fn decide(&mut self, claims: &[Claim], now: Moment, member: Member) -> Vec<Reading> {
        let looks: Vec<_> = claims
            .iter()
            .map(|claim| {
                self.drop_expired(claim, now);
                let old = self.keys.get(&claim.key).map(|kept| &kept.state);
                claim.algorithm.look(old, Act::Take(claim.cost), now)
            })
            .collect();
        let go = claims
            .iter()
            .zip(&looks)
            .all(|(claim, look)| look.admits() || !claim.enforced);
        let mut readings = Vec::new();
        for (claim, look) in claims.iter().zip(looks) {
            let admitted = look.admits();
            let takes = go && admitted && claim.cost > 0;
            let mends = !admitted && look.ahead;
            readings.push(Reading {
                admitted,
                remaining: if takes {
                    look.room.saturating_sub(claim.cost)
                } else {
                    look.room
                },
                wait: look.wait,
                reset: if takes || mends {
                    look.later
                } else {
                    look.reset
                },
            });
            if takes || mends {
                let until = until(now, look.ttl_ms);
                let old = self.keys.remove(&claim.key).map(|kept| kept.state);
                let state = match (look.next, old) {
                    (Next::Entries, Some(State::Log(mut log))) if mends => {
                        log.mend(now);
                        State::Log(log)
                    }
                    (next, old) => claim.algorithm.take(old, next, claim.cost, member, now),
                };
                self.keys.insert(claim.key.clone(), Kept { state, until });
            }
        }
        readings
    }

    /// Gives back what [`Local::decide`] took for these claims and this member.
    pub fn give(&mut self, claims: &[Claim], now: Moment, member: Member) -> Vec<Reading> {
        let mut readings = Vec::new();
        for claim in claims {
            self.drop_expired(claim, now);
            if let Some(State::Log(log)) = self.keys.get_mut(&claim.key).map(|kept| &mut kept.state)
            {
                log.give(claim.cost, member);
            }
            let old = self.keys.get(&claim.key).map(|kept| &kept.state);
            let look = claim.algorithm.look(old, Act::Give(claim.cost), now);
            readings.push(Reading {
                admitted: true,
                remaining: look.room,
                wait: Wait::For(Micros::ZERO),
                reset: look.reset,
            });
            match (look.next, self.keys.get_mut(&claim.key)) {
                (Next::Is(_), Some(_)) if look.reset == Micros::ZERO => {
                    self.keys.remove(&claim.key);
                }
                (Next::Is(state), Some(kept)) => {
                    let until = until(now, look.ttl_ms);
                    *kept = Kept { state, until };
                }
                (
                    Next::Entries,
                    Some(Kept {
                        state: State::Log(log),
                        ..
                    }),
                ) if log.is_empty() => {
                    self.keys.remove(&claim.key);
                }
                _ => {}
            }
        }
        readings
    }

    fn drop_expired(&mut self, claim: &Claim, now: Moment) {
        if self
            .keys
            .get(&claim.key)
            .is_some_and(|kept| kept.until <= now)
        {
            self.keys.remove(&claim.key);
        }
    }
}

/// What an outage leaves behind.
impl Local {
    /// Keys that are kept.
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
        let kept = self.keys.get(&claim.key);
        let kept = kept.filter(|kept| kept.until > now);
        kept.map_or(0, |kept| {
            let look = claim.algorithm.look(Some(&kept.state), Act::Take(0), now);
            claim.algorithm.quota().saturating_sub(look.room)
        })
    }

    /// Forgets this key.
    pub fn forget(&mut self, key: &str) {
        self.keys.remove(key);
    }
}

/// The first moment at which Redis might have dropped a key of that life; its state matters no more.
fn until(now: Moment, ttl_ms: u64) -> Moment {
    now.plus(Micros::from_millis(ttl_ms.saturating_sub(1)))
        .plus(Micros(1))
}
