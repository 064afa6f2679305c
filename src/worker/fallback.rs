//! This worker's own limiter, while Redis does not answer, and what it tells Redis afterwards.

use crate::{
    algorithm::Algorithm,
    claim::Claim,
    local::Local,
    outage::{self, Leave, Silence},
    policy::{Outage, Policy},
    redis::script::Member,
    units::Moment,
    verdict::{Judged, Source, Verdict},
};
use std::collections::HashSet;

/// What each limit wants when Redis does not answer, and the limiter for those that want one.
pub struct Fallbacks {
    limits: Vec<(Outage, Option<Algorithm>)>,
    parts: u64,
    local: Local,
    /// Keys whose debt is on its way.
    paying: HashSet<String>,
}

impl Fallbacks {
    /// As the policy says.
    pub fn new(policy: &Policy) -> Self {
        let wants = policy.limits.iter();
        let wants = wants.map(|limit| (limit.outage.unwrap_or(policy.outage), limit.local));
        Self {
            limits: wants.collect(),
            parts: policy.local.parts,
            local: Local::new(policy.local.keys),
            paying: HashSet::new(),
        }
    }

    /// What a request with these claims gets.
    pub fn leave(&self, claims: &[Claim], why: Silence) -> Leave {
        let enforced = claims.iter().filter(|claim| claim.enforced);
        let outages = enforced.filter_map(|claim| self.limits.get(claim.limit));
        outage::leave_all(outages.map(|(outage, _)| *outage), why)
    }

    /// Decides for the limits that want it here.
    pub fn decide(&mut self, claims: &[Claim], member: Member, now: Moment) -> Verdict {
        let own: Vec<Claim> = claims.iter().filter_map(|claim| self.own(claim)).collect();
        let readings = self.local.decide(&own, now, member);
        let judged: Vec<Judged> = own
            .into_iter()
            .zip(readings)
            .map(|(claim, reading)| Judged { claim, reading })
            .collect();
        Verdict {
            allowed: judged
                .iter()
                .all(|it| it.reading.admitted || !it.claim.enforced),
            judged,
            source: Source::Local,
        }
    }

    /// Gives back leases that were taken here.
    pub fn give(&mut self, claims: &[Claim], member: Member, now: Moment) {
        if !self.local.is_empty() {
            let own: Vec<Claim> = claims.iter().filter_map(|claim| self.own(claim)).collect();
            let _readings = self.local.give(&own, now, member);
        }
    }

    /// What was admitted here for these claims, still counts, and is not being told to Redis already:
    /// as claims to be taken there whatever comes of it. Leases are not among them, since their
    /// requests may have ended by now.
    pub fn debts(&mut self, claims: &[Claim], now: Moment) -> Vec<Claim> {
        let mut debts = Vec::new();
        if self.local.is_empty() {
            return debts;
        }
        for claim in claims.iter().filter(|claim| !claim.is_lease()) {
            let Some(own) = self.own(claim) else { continue };
            let used = self.local.used(&own, now);
            let cost = used.min(claim.algorithm.max_cost());
            if cost > 0 && self.paying.insert(claim.key.clone()) {
                debts.push(Claim {
                    cost,
                    enforced: false,
                    ..claim.clone()
                });
            }
        }
        debts
    }

    /// Redis was told of a debt, or not: then it is still owed.
    pub fn paid(&mut self, key: &str, told: bool) {
        self.paying.remove(key);
        if told {
            self.local.forget(key);
        }
    }

    /// Keys that are remembered.
    pub fn keys(&self) -> usize {
        self.local.len()
    }

    /// The claim as it stands before this worker's limiter; `None` when its limit does not want one.
    fn own(&self, claim: &Claim) -> Option<Claim> {
        let (outage, own) = self.limits.get(claim.limit)?;
        (*outage == Outage::Local).then(|| Claim {
            algorithm: own.unwrap_or_else(|| claim.algorithm.share(self.parts)),
            ..claim.clone()
        })
    }
}
