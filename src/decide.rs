//! From what came of a request to what its client gets. The host carries it out and adds nothing.

use crate::{
    outage::Leave,
    policy::Policy,
    reply::{self, Circumstances, Edit, Fields, Refusal, Why},
    units::{Micros, Moment},
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
        Outcome::Local(_, verdict) => conclude(policy, Outcome::Verdict(verdict), circumstances),
        Outcome::Outage(_, Leave::Forward | Leave::Local) => Conclusion::Forward(None),
        Outcome::Outage(_, Leave::Refuse) => {
            Conclusion::Refuse(reply::outage_refusal(&policy.reply, circumstances))
        }
    }
}

/// A request that a rule refuses without asking anybody.
pub fn deny(policy: &Policy, circumstances: Circumstances) -> Conclusion {
    Conclusion::Refuse(reply::denial(&policy.reply, circumstances))
}

/// The line that says why a request got its answer, for access logs and the debug header.
#[must_use]
pub fn reason(policy: &Policy, outcome: &Outcome, took: Micros) -> String {
    let why = match outcome {
        Outcome::Verdict(verdict) => Why::Verdict(verdict),
        Outcome::Local(silence, verdict) => Why::Local {
            verdict,
            cause: silence.label(),
        },
        Outcome::Outage(silence, leave) => Why::Outage {
            cause: silence.label(),
            refused: *leave == Leave::Refuse,
        },
    };
    why.line(
        &|limit| policy.limit_name(limit),
        &|key| policy.hasher.short(key),
        took,
    )
}

/// The same for a request that a rule refused.
#[must_use]
pub fn denial_reason(policy: &Policy, limit: usize) -> String {
    let why = Why::Denied {
        limit: policy.limit_name(limit),
    };
    why.line(
        &|limit| policy.limit_name(limit),
        &|_| String::new(),
        Micros::ZERO,
    )
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
