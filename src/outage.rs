//! What happens when Redis does not answer: why it does not ([`Silence`]), what its request then gets
//! ([`leave`]), and when requests stop waiting for it ([`breaker`]).
//!
//! ```text
//!  deadline, error, loss ──► Silence ──► leave ──► Forward | Local | Refuse
//!                               └──► breaker: opens after a few, then one request at a time tries
//! ```
//!
//! Nothing else in this program decides what a silence means for a request.

pub mod breaker;
pub mod shards;

use crate::{
    policy::Outage,
    redis::{error::ErrorKind, resp::Violation},
};

/// Why a decision got no answer from Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Silence {
    /// The decision's deadline passed.
    TimedOut,
    /// No connection could be opened, or the next attempt is not due yet.
    Unreachable,
    /// The connection was lost while the decision waited on it.
    Lost,
    /// As many decisions wait already as the link holds.
    Full,
    /// What came back is no RESP, or no answer of this script.
    Garbage,
    /// What came back answers somebody else's question: an HTTP gateway mixed them up.
    Foreign,
    /// Redis, or what stands in front of it, answered with an error.
    Refused(ErrorKind),
    /// The breaker is open: nobody was asked.
    Skipped,
}

impl Silence {
    /// A short name for metrics and logs: `[a-z_]+`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TimedOut => "timeout",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Full => "full",
            Self::Garbage => "garbage",
            Self::Foreign => "foreign",
            Self::Refused(kind) => kind.label(),
            Self::Skipped => "skipped",
        }
    }

    /// Whether it says that Redis cannot be used now, rather than that one call was at fault or that
    /// nobody asked.
    #[must_use]
    pub const fn is_of_redis(self) -> bool {
        match self {
            Self::Refused(kind) => !kind.is_of_one_call(),
            Self::Skipped => false,
            _ => true,
        }
    }

    /// For a fault that only a person can mend: what to look at.
    #[must_use]
    pub const fn configuration_fault(self) -> Option<&'static str> {
        match self {
            Self::Refused(kind) => kind.configuration_fault(),
            _ => None,
        }
    }
}

/// What a request gets in place of a verdict, from the mildest to the strictest.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
#[must_use]
pub enum Leave {
    /// It goes on, as if there were no limit.
    Forward,
    /// The limiter of this worker decides.
    Local,
    /// It is refused as unavailable, to be tried again.
    Refuse,
}

/// What a limit's request gets when Redis does not decide. The reason for the silence makes no
/// difference: whoever could choose it could choose the answer.
pub const fn leave(outage: Outage, why: Silence) -> Leave {
    match (outage, why) {
        (
            Outage::Allow,
            Silence::TimedOut
            | Silence::Unreachable
            | Silence::Lost
            | Silence::Full
            | Silence::Garbage
            | Silence::Foreign
            | Silence::Refused(_)
            | Silence::Skipped,
        ) => Leave::Forward,
        (Outage::Local, _) => Leave::Local,
        (Outage::Deny, _) => Leave::Refuse,
    }
}

/// What a request of several limits gets: the strictest that a limit wants. A limit in shadow mode
/// wants nothing. With `Local`, the local limiter judges the limits that want it, and no other.
pub fn leave_all(outages: impl IntoIterator<Item = Outage>, why: Silence) -> Leave {
    let each = outages.into_iter().map(|outage| leave(outage, why));
    each.max().unwrap_or(Leave::Forward)
}

impl From<Violation> for Silence {
    fn from(_: Violation) -> Self {
        Self::Garbage
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_kind_of_silence_follows_the_policy() {
        use {Leave::*, Silence::*};
        let errors = ErrorKind::ALL.map(|kind| (Refused(kind), Forward, Local, Refuse));
        let rows = [
            //             outage: allow    local  deny
            (TimedOut, Forward, Local, Refuse),
            (Unreachable, Forward, Local, Refuse),
            (Lost, Forward, Local, Refuse),
            (Full, Forward, Local, Refuse),
            (Garbage, Forward, Local, Refuse),
            (Skipped, Forward, Local, Refuse),
        ];
        for (silence, allow, local, deny) in rows.into_iter().chain(errors) {
            assert_eq!(
                leave(Outage::Allow, silence),
                allow,
                "allow, {}",
                silence.label()
            );
            assert_eq!(
                leave(Outage::Local, silence),
                local,
                "local, {}",
                silence.label()
            );
            assert_eq!(
                leave(Outage::Deny, silence),
                deny,
                "deny, {}",
                silence.label()
            );
        }
    }

    #[test]
    fn of_several_limits_the_strictest_wins() {
        use Outage::{Allow, Deny, Local};
        for (outages, expected) in [
            (vec![], Leave::Forward),
            (vec![Allow], Leave::Forward),
            (vec![Allow, Local, Allow], Leave::Local),
            (vec![Local, Deny, Allow], Leave::Refuse),
        ] {
            assert_eq!(leave_all(outages, Silence::TimedOut), expected);
        }
    }

    #[test]
    fn silences_have_labels_of_their_own() {
        let mut labels: Vec<_> = [
            Silence::TimedOut,
            Silence::Unreachable,
            Silence::Lost,
            Silence::Full,
            Silence::Garbage,
            Silence::Skipped,
        ]
        .into_iter()
        .chain(ErrorKind::ALL.map(Silence::Refused))
        .map(Silence::label)
        .collect();
        let all = labels.len();
        labels.sort_unstable();
        labels.dedup();
        assert_eq!(labels.len(), all);
    }
}
