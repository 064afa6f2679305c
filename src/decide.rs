//! From what came of a request to what its client gets. The host carries it out and adds nothing.

use crate::{
    policy::{Outage, Policy},
    reply::{self, Circumstances, Edit, Fields, Refusal},
    units::Moment,
    verdict::Verdict,
    worker::Outcome,
};

/// What happens to a request.
#[must_use]
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Conclusion {
    /// It goes on; its response shows this verdict, if there is one.
    Forward(Option<Verdict>),
    /// It ends here.
    Refuse(Refusal),
}

/// A request that limits were asked about.
pub fn conclude(policy: &Policy, outcome: Outcome, circumstances: Circumstances) -> Conclusion {
    match outcome {
        Outcome::Verdict(verdict) if verdict.allowed => Conclusion::Forward(Some(verdict)),
        Outcome::Verdict(verdict) => {
            let names = |limit| policy.limit_name(limit);
            Conclusion::Refuse(reply::refusal(
                &policy.reply,
                &names,
                &verdict,
                circumstances,
            ))
        }
        Outcome::Silence(_) => match policy.outage {
            Outage::Allow | Outage::Local => Conclusion::Forward(None),
            Outage::Deny => Conclusion::Refuse(reply::outage_refusal(&policy.reply, circumstances)),
        },
    }
}

/// A request that a rule refuses without asking anybody.
pub fn deny(policy: &Policy, circumstances: Circumstances) -> Conclusion {
    Conclusion::Refuse(reply::denial(&policy.reply, circumstances))
}

/// What an allowed response shows, beside what the upstream says itself.
#[must_use]
pub fn shown(
    policy: &Policy,
    verdict: &Verdict,
    now: Moment,
    status: u32,
    theirs: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<Edit> {
    let names = |limit| policy.limit_name(limit);
    let ours: Fields = reply::state_headers(&policy.reply, &names, verdict, Some(now));
    reply::merge(&policy.reply, ours, status, theirs)
}
