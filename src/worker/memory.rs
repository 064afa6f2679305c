//! What this worker remembers of refusals, so that a client far above its limit does not cost Redis a
//! call for each of its requests.
//!
//! A refusal comes with the moment until which it holds: nothing but a give-back, a raised limit or a
//! Redis that lost its data can end it earlier, and those are heeded after the policy's
//! `remember_refusals` at the latest. What is admitted is never remembered: that Redis alone knows.

use crate::{
    algorithm::Algorithm,
    claim::Claim,
    units::{Micros, Moment},
    verdict::{Judged, Reading, Source, Verdict, Wait},
};
use std::collections::HashMap;

/// Most refusals that are remembered; at the bound no more are until some have ended.
const MOST: usize = 10_000;

/// See the module.
pub struct Memory {
    longest: Micros,
    refusals: HashMap<String, Refusal>,
}

struct Refusal {
    algorithm: Algorithm,
    cost: u64,
    reading: Reading,
    at: Moment,
    /// From this moment on Redis is asked again.
    until: Moment,
}

impl Memory {
    /// Remembers nothing longer than this; nothing at all for zero.
    pub fn new(longest: Micros) -> Self {
        Self {
            longest,
            refusals: HashMap::new(),
        }
    }

    /// Takes note of a verdict of Redis.
    pub fn note(&mut self, verdict: &Verdict, now: Moment) {
        if self.longest == Micros::ZERO || verdict.allowed {
            return;
        }
        for Judged { claim, reading } in &verdict.judged {
            let (false, true, false) = (reading.admitted, claim.enforced, claim.is_lease()) else {
                continue;
            };
            let Wait::For(wait) = reading.wait else {
                continue;
            };
            let refusal = Refusal {
                algorithm: claim.algorithm,
                cost: claim.cost,
                reading: *reading,
                at: now,
                until: now.plus(wait.min(self.longest)),
            };
            if self.refusals.len() < MOST || self.refusals.contains_key(&claim.key) {
                self.refusals.insert(claim.key.clone(), refusal);
            } else {
                self.refusals.retain(|_, refusal| refusal.until > now);
            }
        }
    }

    /// The verdict that is known without asking: one of these claims was refused, asks for no less
    /// now, and its time has not come.
    pub fn recall(&mut self, claims: &[Claim], now: Moment) -> Option<Verdict> {
        if self.refusals.is_empty() {
            return None;
        }
        let mut judged = Vec::new();
        for claim in claims.iter().filter(|claim| claim.enforced) {
            let Some(refusal) = self.refusals.get(&claim.key) else {
                continue;
            };
            if refusal.until <= now {
                self.refusals.remove(&claim.key);
            } else if refusal.algorithm == claim.algorithm && claim.cost >= refusal.cost {
                judged.push(Judged {
                    claim: claim.clone(),
                    reading: refusal.reading_at(now),
                });
            }
        }
        (!judged.is_empty()).then_some(Verdict {
            allowed: false,
            judged,
            source: Source::Cache,
        })
    }

    /// Forgets everything: another policy is in force.
    pub fn clear(&mut self) {
        self.refusals.clear();
    }

    /// How many refusals are remembered.
    pub fn len(&self) -> usize {
        self.refusals.len()
    }
}

impl Refusal {
    /// What Redis would say by now.
    fn reading_at(&self, now: Moment) -> Reading {
        let gone = now.since(self.at);
        let less = |span: Micros| Micros(span.0.saturating_sub(gone.0).max(1));
        Reading {
            wait: match self.reading.wait {
                Wait::For(wait) => Wait::For(less(wait)),
                Wait::Never => Wait::Never,
            },
            reset: less(self.reading.reset),
            ..self.reading
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::algorithm::{Kind, Parameters, Window};

    const SECOND: Micros = Micros::from_secs(1);

    fn claim(key: &str, count: u64, cost: u64) -> Claim {
        let parameters = Parameters {
            kind: Kind::SlidingLog,
            count,
            window: Some(Window::Span(Micros::from_secs(60))),
            burst: None,
            align: None,
            lease: None,
        };
        Claim {
            limit: 0,
            key: key.to_owned(),
            algorithm: Algorithm::new(parameters).unwrap(),
            cost,
            enforced: true,
        }
    }

    fn refused(claim: Claim, wait: Micros) -> Verdict {
        let reading = Reading {
            admitted: false,
            remaining: 0,
            wait: Wait::For(wait),
            reset: Micros::from_secs(60),
        };
        Verdict {
            allowed: false,
            judged: vec![Judged { claim, reading }],
            source: Source::Redis,
        }
    }

    #[test]
    fn a_refusal_holds_until_its_wait_is_over_or_the_policy_says_ask_again() {
        for (wait, ends) in [(Micros(300), 300), (Micros::from_secs(9), 1_000_000)] {
            let mut memory = Memory::new(SECOND);
            memory.note(&refused(claim("k", 10, 1), wait), Moment(1_000));
            let known = memory.recall(&[claim("k", 10, 1)], Moment(1_000 + ends - 1));
            let known = known.expect("still refused");
            let left = Wait::For(Micros(wait.0 - (ends - 1)));
            assert_eq!(
                (known.source, known.judged[0].reading.wait),
                (Source::Cache, left)
            );
            assert_eq!(
                memory.recall(&[claim("k", 10, 1)], Moment(1_000 + ends)),
                None
            );
            assert_eq!(memory.len(), 0);
        }
    }

    #[test]
    fn another_key_a_smaller_cost_or_another_limit_is_asked() {
        let mut memory = Memory::new(SECOND);
        memory.note(&refused(claim("k", 10, 5), SECOND), Moment(0));
        for other in [claim("j", 10, 5), claim("k", 10, 4), claim("k", 20, 5)] {
            assert_eq!(memory.recall(&[other], Moment(1)), None);
        }
        assert!(memory.recall(&[claim("k", 10, 6)], Moment(1)).is_some());
        let mut shadow = claim("k", 10, 5);
        shadow.enforced = false;
        assert_eq!(memory.recall(&[shadow], Moment(1)), None);
    }

    #[test]
    fn it_is_off_unless_asked_for_and_bounded() {
        let mut memory = Memory::new(Micros::ZERO);
        memory.note(&refused(claim("k", 10, 1), SECOND), Moment(0));
        assert_eq!(memory.len(), 0);
        let mut memory = Memory::new(SECOND);
        for n in 0..2 * MOST {
            memory.note(
                &refused(claim(&n.to_string(), 10, 1), SECOND),
                Moment(n as u64),
            );
        }
        assert_eq!(memory.len(), MOST);
        memory.note(&refused(claim("x", 10, 1), SECOND), Moment(2_000_000));
        assert_eq!(memory.len(), 0, "those that ended made room");
    }
}
