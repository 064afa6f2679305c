//! The `local` section: the limiter of one worker while Redis does not answer, for limits with
//! `outage: local`.

use super::{
    field::Field,
    findings::Findings,
    node::Node,
    terms::{Base, Terms},
};
use crate::algorithm::Algorithm;

/// The fields of the section.
pub const FIELDS: &[&str] = &["share", "keys"];

/// Most parts a limit is divided into.
pub const MAX_PARTS: u64 = 1_000_000;
/// Most keys a worker may remember.
pub const MAX_KEYS: u64 = 1_000_000;

/// What a worker's own limiter may admit and remember.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Local {
    /// Into how many equal parts each limit is divided; this worker has one of them.
    pub parts: u64,
    /// Most keys it remembers.
    pub keys: usize,
}

impl Default for Local {
    /// The whole of each limit: with many workers that is many times the limit.
    fn default() -> Self {
        Self {
            parts: 1,
            keys: 10_000,
        }
    }
}

/// Reads the section; what is left out has its default.
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Local {
    let mut local = Local::default();
    let Some(table) = field.and_then(|field| field.table(FIELDS, findings)) else {
        return local;
    };
    if let Some(field) = table.get("share") {
        local.parts = read_share(&field, findings).unwrap_or(local.parts);
    }
    if let Some(field) = table.get("keys") {
        let keys = field.integer(1..=MAX_KEYS, findings);
        local.keys = keys
            .and_then(|keys| usize::try_from(keys).ok())
            .unwrap_or(local.keys);
    }
    local
}

/// `1/8`, or `1` for the whole.
fn read_share(field: &Field<'_>, findings: &mut Findings) -> Option<u64> {
    let parts = match field.node {
        Node::Text(text) => match text.split_once('/') {
            Some((one, parts)) if one.trim() == "1" => parts.trim().parse().ok(),
            None if text == "1" => Some(1),
            _ => None,
        },
        Node::Integer(1) => Some(1),
        _ => None,
    };
    let parts = parts.filter(|parts| (1..=MAX_PARTS).contains(parts));
    parts.or_else(|| {
        field.refuse(
            "a part of each limit, 1/1 to 1/1000000, such as 1/8",
            findings,
        )
    })
}

/// Reads a limit's `local`: a rate of its own, in place of a share of the limit.
pub fn read_own(field: &Field<'_>, base: &Base<'_>, findings: &mut Findings) -> Option<Algorithm> {
    match base.plan_terms(field, findings)? {
        Terms::Limited(tier) => Some(tier.algorithm),
        Terms::Unlimited | Terms::Deny => field.refuse(
            "a rate; for all or nothing there is outage: allow or deny",
            findings,
        ),
    }
}

#[cfg(test)]
mod tests {
    use crate::policy::{Policy, local::Local};

    fn load(local: &str, own: &str) -> Result<Policy, String> {
        let json = format!(
            r#"{{"outage": "local", "local": {local}, "limits": [{{"name": "a", "key": [],
                "algorithm": "gcra", "rate": "100/1s" {own}}}]}}"#
        );
        Policy::from_json(json.as_bytes())
            .map(|it| it.0)
            .map_err(|errors| errors.to_string())
    }

    #[test]
    fn a_share_is_one_part_of_each_limit_and_a_limit_may_have_a_rate_of_its_own() {
        let policy = load(r#"{"share": "1/8", "keys": 7}"#, "").unwrap();
        assert_eq!(policy.local, Local { parts: 8, keys: 7 });
        assert_eq!(policy.limits[0].local, None);
        assert_eq!(load("{}", "").unwrap().local, Local::default());
        let policy = load("{}", r#", "local": {"rate": "5/1s", "burst": 2}"#).unwrap();
        assert_eq!(policy.limits[0].local.unwrap().quota(), 2);
    }

    #[test]
    fn what_is_no_share_is_refused_with_its_place() {
        for (share, at) in [
            (r#"{"share": "2/8"}"#, "local.share"),
            (r#"{"share": "1/0"}"#, "local.share"),
            (r#"{"share": 0.5}"#, "local.share"),
            (r#"{"share": "1/1000001"}"#, "local.share"),
            (r#"{"keys": 0}"#, "local.keys"),
        ] {
            let errors = load(share, "").unwrap_err();
            assert!(errors.contains(at), "{share}: {errors}");
        }
        let errors = load("{}", r#", "local": "unlimited""#).unwrap_err();
        assert!(errors.contains("limits[0].local"), "{errors}");
    }
}
