//! What a policy may say and probably does not mean. Looked for only in a policy without errors.

use super::{
    Limit, Mode, Policy,
    cost::Cost,
    findings::{Findings, Path},
    key::Missing,
    limit::WHOLE,
    terms::Terms,
    when::cover,
};

/// Reports what looks unmeant.
pub fn report(policy: &Policy, has_hash_key: bool, findings: &mut Findings) {
    let place = |i: usize| Path::default().field("limits").index(i);
    for (i, limit) in policy.limits.iter().enumerate() {
        let path = place(i);
        one(limit, &path, findings);
        if let Some(first) = shadowing(policy, i) {
            findings.warning(
                &path,
                format!("never reached: limits[{first}] of its group applies to all its requests"),
            );
        }
        if !policy.exempt.is_empty() && cover(&policy.exempt, &limit.when) {
            findings.warning(&path, "never reached: the policy exempts all its requests");
        }
    }
    let asked = policy
        .limits
        .iter()
        .flat_map(|limit| &limit.key)
        .any(|part| part.secret_asked);
    if asked && !has_hash_key {
        findings.warning(
            &Path::default().field("hash_key"),
            "left out: secret values are hashed under a known key, so short ones can be guessed",
        );
    }
}

fn one(limit: &Limit, path: &Path, findings: &mut Findings) {
    if limit.mode != Mode::Enforce && limit.enforced_share < WHOLE {
        findings.warning(
            &path.field("enforce_percent"),
            "has no effect unless the mode is enforce",
        );
    }
    if limit.when.iter().any(super::when::When::contradicts_itself) {
        findings.warning(
            &path.field("when"),
            "can never hold: it excludes what it asks for",
        );
    }
    if !limit.exempt.is_empty() && cover(&limit.exempt, &limit.when) {
        findings.warning(&path.field("exempt"), "exempts all requests of this limit");
    }
    let all: Vec<&Terms> = std::iter::once(&limit.terms)
        .chain(limit.plans.iter().flat_map(|plans| plans.named.values()))
        .chain(&limit.overrides.terms)
        .collect();
    if all.iter().all(|terms| **terms == Terms::Unlimited) {
        findings.warning(
            &path.field("rate"),
            "limits nobody: every client is unlimited",
        );
    }
    if let Cost::Fixed(cost) = limit.cost {
        let least = all.iter().filter_map(|terms| match terms {
            Terms::Limited(tier) => Some(tier.algorithm.max_cost()),
            _ => None,
        });
        if let Some(quota) = least.min().filter(|quota| *quota < cost) {
            findings.warning(
                &path.field("cost"),
                format!(
                    "{cost} never fits where one request can take {quota}: always refused there"
                ),
            );
        }
    }
}

/// The earlier member of the limit's group that takes all its requests, if one does.
fn shadowing(policy: &Policy, index: usize) -> Option<usize> {
    let limit = policy.limits.get(index)?;
    let group = limit.group?;
    let takes_all = |earlier: &Limit| {
        earlier.group == Some(group)
            && earlier.mode == Mode::Enforce
            && earlier.enforced_share == WHOLE
            && earlier.exempt.is_empty()
            && earlier.missing != Missing::Skip
            && cover(&earlier.when, &limit.when)
    };
    policy.limits.iter().take(index).position(takes_all)
}
