//! Why each limit applies to a request or does not: what `select` does, told.

use super::{
    Selection,
    apply::{self, Groups, Outcome},
    looked_at,
    matching::{self, Doubt, Unmet},
};
use crate::{
    policy::{Limit, Policy, path::Pattern},
    request::{Facts, Request},
};

/// What the policy says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Explanation<'a> {
    /// The policy exempts the request: no limit was looked at.
    pub exempt: bool,
    /// What each limit says, in the policy's order.
    pub limits: Vec<Said<'a>>,
}

/// What one limit says.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Said<'a> {
    /// Its mode is `off`.
    Off,
    /// It is not about this request; the condition that each of its alternatives lacks.
    NotAbout(Vec<Unmet<'a>>),
    /// It is about this request.
    About {
        /// The path pattern that matched, if it names paths.
        pattern: Option<&'a str>,
        /// What came of it.
        outcome: Outcome<'a>,
    },
    /// An earlier limit refused the request.
    AfterRefusal,
    /// The policy exempts the request.
    PolicyExempts,
}

/// Tells what the policy says of a request.
#[must_use]
pub fn explain<'a>(policy: &'a Policy, facts: &'a dyn Facts) -> Explanation<'a> {
    let request = Request::new(facts, policy.any_case);
    let exempt = matching::any_holds(&policy.exempt, &request, Doubt::Fails);
    let mut groups = Groups::default();
    let mut refused = false;
    let limits = policy.limits.iter().enumerate().map(|(index, limit)| {
        if exempt {
            return Said::PolicyExempts;
        }
        if !looked_at(limit.mode) {
            return Said::Off;
        }
        if refused {
            return Said::AfterRefusal;
        }
        match about(limit, &request) {
            Err(unmet) => Said::NotAbout(unmet),
            Ok(matched) => {
                let outcome = apply::apply(policy, index, limit, matched, &request, &mut groups);
                refused = matches!(outcome, Outcome::Deny { enforced: true, .. });
                Said::About {
                    pattern: matched.map(|pattern| pattern.text.as_str()),
                    outcome,
                }
            }
        }
    });
    Explanation {
        exempt,
        limits: limits.collect(),
    }
}

impl Explanation<'_> {
    /// The selection that follows.
    #[must_use]
    pub fn selection(&self) -> Selection {
        let mut claims = Vec::new();
        for (limit, said) in self.limits.iter().enumerate() {
            let Said::About { outcome, .. } = said else {
                continue;
            };
            match outcome {
                Outcome::Deny {
                    why,
                    enforced: true,
                } => {
                    return Selection::Deny { limit, why: *why };
                }
                Outcome::Claim { claim, .. } => claims.push(claim.clone()),
                _ => {}
            }
        }
        if claims.is_empty() {
            Selection::Nothing
        } else {
            Selection::Claims(claims)
        }
    }
}

/// The path pattern that matched, or what each alternative lacks.
fn about<'a>(
    limit: &'a Limit,
    request: &Request<'a>,
) -> Result<Option<&'a Pattern>, Vec<Unmet<'a>>> {
    let mut unmet = Vec::new();
    for when in &limit.when {
        let path = matching::path_holds(when, request, Doubt::Meets);
        let rest = matching::rest_holds(when, request, Doubt::Meets);
        match (path, rest) {
            (Ok(pattern), Ok(())) => return Ok(pattern),
            (Err(lack), _) | (_, Err(lack)) => unmet.push(lack),
        }
    }
    if limit.when.is_empty() {
        Ok(None)
    } else {
        Err(unmet)
    }
}
