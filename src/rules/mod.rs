//! Which limits apply to a request, and the key, plan and cost of each.
//!
//! [`select`] is the whole of it: a policy and a request in, the claims out, in the policy's order. It
//! asks the host only for what the rules need, each fact once. [`explain()`] tells of every limit why
//! it applies or not; it finds the limits without the index, and says the same.

pub mod apply;
pub mod explain;
pub mod identity;
pub mod index;
pub mod matching;

use crate::{
    claim::Claim,
    policy::{Mode, Policy},
    request::{Facts, Request},
};

use apply::{Groups, Outcome};
use matching::Doubt;

pub use explain::{Explanation, explain};

/// What the policy says of a request, before anything is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// No limit applies: it goes on.
    Nothing,
    /// These limits are to be asked, in the policy's order; at least one.
    Claims(Vec<Claim>),
    /// It is refused without asking.
    Deny {
        /// Index into the policy's `limits`.
        limit: usize,
        /// Why.
        why: Why,
    },
}

/// Why a request is refused without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A part of the key is absent, and the limit has `missing: deny`.
    KeyMissing,
    /// The client's terms are `deny`: the limit's own, its plan's or its override's.
    TermsDeny,
}

/// Applies the policy to a request.
#[must_use]
pub fn select(policy: &Policy, facts: &dyn Facts) -> Selection {
    select_and_tell(policy, facts, &mut |_| {})
}

/// The same, and tells of each limit that would refuse the request without asking, were it enforced for
/// this client: index into the policy's `limits`.
#[must_use]
pub fn select_and_tell(
    policy: &Policy,
    facts: &dyn Facts,
    would_deny: &mut dyn FnMut(usize),
) -> Selection {
    let request = Request::new(facts, policy.any_case);
    if matching::any_holds(&policy.exempt, &request, Doubt::Fails) {
        return Selection::Nothing;
    }
    let mut entries = Vec::with_capacity(16);
    let path = if policy.index.asks_for_path() {
        request.path()
    } else {
        None
    };
    policy
        .index
        .candidates(path.map(|path| path.text.as_str()), &mut entries);
    let mut groups = Groups::default();
    let mut claims = Vec::new();
    for ways in entries.chunk_by(|a, b| a.limit == b.limit) {
        let Some(first) = ways.first() else { continue };
        let index = first.limit as usize;
        let Some(limit) = policy.limits.get(index) else {
            continue;
        };
        let matched = ways
            .iter()
            .find_map(|way| apply::way_holds(limit, *way, &request));
        let Some(matched) = matched else { continue };
        match apply::apply(policy, index, limit, matched, &request, &mut groups) {
            Outcome::Claim { claim, .. } => claims.push(claim),
            Outcome::Deny {
                why,
                enforced: true,
            } => return Selection::Deny { limit: index, why },
            Outcome::Deny {
                enforced: false, ..
            } => would_deny(index),
            _ => {}
        }
    }
    if claims.is_empty() {
        Selection::Nothing
    } else {
        Selection::Claims(claims)
    }
}

/// Whether a limit of this mode is looked at.
const fn looked_at(mode: Mode) -> bool {
    !matches!(mode, Mode::Off)
}
