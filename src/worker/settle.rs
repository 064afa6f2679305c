//! How a request leaves: with Redis's verdict, or without one. Each takes the request out of those that
//! wait, tells the breaker, and gives back what must not be kept.

use super::{
    Event, Lease, Outcome, Settled, Ticket, Waiting, Worker,
    part::{leases, taken},
};
use crate::{
    outage::{Leave, Silence, breaker::Change, shards::ShardPass},
    units::Moment,
    verdict::{Judged, Source, Verdict},
};

impl<R> Worker<R> {
    /// Every part was answered.
    pub(super) fn decided(&mut self, ticket: Ticket, now: Moment) {
        let Some(Waiting {
            request,
            claims,
            member,
            mut parts,
            since,
            ..
        }) = self.waiting.remove(&ticket)
        else {
            return;
        };
        for part in &mut parts {
            self.settle_pass(part.pass.take(), Ok(()), now);
        }
        // The switch may have been turned since this was asked.
        let allowed = self.shadow() || parts.iter().all(|part| part.admits(&claims));
        let mut readings = vec![None; claims.len()];
        let mut returned = Vec::new();
        for part in parts {
            let took = part.admits(&claims);
            let answers = part.readings.into_iter().flatten();
            for (index, mut reading) in part.claims.into_iter().zip(answers) {
                let Some(claim) = claims.get(index) else {
                    continue;
                };
                let goes_back = took && reading.admitted && (!allowed || claim.is_lease());
                if goes_back {
                    returned.push(claim.clone());
                }
                if goes_back && !allowed {
                    let left = reading.remaining.saturating_add(claim.cost);
                    reading.remaining = left.min(claim.algorithm.quota());
                }
                if let Some(place) = readings.get_mut(index) {
                    *place = Some(reading);
                }
            }
        }
        let mut lease = (!returned.is_empty()).then_some(Lease {
            claims: returned,
            member,
        });
        // Another part refused: what this one took goes back at once, not at the request's end.
        if !allowed && let Some(lease) = lease.take() {
            self.release(lease, now);
        }
        let judged = self.heed_switch(claims).into_iter().zip(readings);
        let judged = judged.filter_map(|(claim, reading)| {
            Some(Judged {
                claim,
                reading: reading?,
            })
        });
        let verdict = Verdict {
            allowed,
            judged: judged.collect(),
            source: Source::Redis,
        };
        self.memory.note(&verdict, now);
        let took = now.since(since);
        self.settled.push(Settled {
            request,
            outcome: Outcome::Verdict(verdict),
            lease,
            took,
        });
    }

    /// A request gets no verdict, because of this part when one was asked. Ignored when it is settled
    /// already.
    pub(super) fn silence(&mut self, ticket: Ticket, of: Option<usize>, why: Silence, now: Moment) {
        let Some(waiting) = self.waiting.remove(&ticket) else {
            return;
        };
        let Waiting {
            request,
            claims,
            member,
            mut parts,
            since,
            ..
        } = waiting;
        for (index, part) in parts.iter_mut().enumerate() {
            if of == Some(index) {
                self.settle_pass(part.pass.take(), Err(why), now);
            } else if part.readings.is_some() {
                self.settle_pass(part.pass.take(), Ok(()), now);
            }
        }
        self.take_back(&claims, member, &parts, now);
        let took = taken(&claims, parts);
        let claims = self.heed_switch(claims);
        let leave = self.fallbacks.leave(&claims, why);
        let (outcome, held) = match leave {
            Leave::Local => {
                let verdict = self.fallbacks.decide(&claims, member, now);
                let held = if verdict.allowed {
                    leases(&claims)
                } else {
                    Vec::new()
                };
                (Outcome::Local(why, verdict), held)
            }
            Leave::Forward | Leave::Refuse => (Outcome::Outage(why, leave), Vec::new()),
        };
        if refuses(&outcome) && !took.is_empty() {
            let claims = took;
            self.release(Lease { claims, member }, now);
        }
        self.settled.push(Settled {
            request,
            outcome,
            lease: (!held.is_empty()).then_some(Lease {
                claims: held,
                member,
            }),
            took: now.since(since),
        });
    }

    /// Tells the breaker what came of a request.
    fn settle_pass(&mut self, pass: Option<ShardPass>, end: Result<(), Silence>, now: Moment) {
        let change = pass.and_then(|pass| self.breakers.settle(pass, end, now));
        self.events.extend(change.map(|change| match change {
            Change::Opened(why) => Event::BreakerOpened(why),
            Change::Closed => Event::BreakerClosed,
        }));
    }
}

/// Whether a request is refused without a verdict of Redis.
const fn refuses(outcome: &Outcome) -> bool {
    match outcome {
        Outcome::Verdict(_) => false,
        Outcome::Local(_, verdict) => !verdict.allowed,
        Outcome::Outage(_, leave) => matches!(leave, Leave::Refuse),
    }
}
