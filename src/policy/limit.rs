//! One element of `limits`: whom it counts, how much it admits.

use super::{
    cost::{self, Cost},
    field::{Field, Table},
    findings::Findings,
    key::{self, Context, Missing, Part, Source},
    outage::{self, Outage},
    terms::{self, Terms},
};
use crate::algorithm::Kind;

/// The fields of a limit.
pub const FIELDS: &[&str] = &[
    "name",
    "key",
    "ipv6_prefix",
    "secret",
    "missing",
    "algorithm",
    "rate",
    "burst",
    "align",
    "lease",
    "cost",
    "mode",
    "enforce_percent",
    "outage",
];

/// One limit.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Limit {
    /// Its name: in keys, metrics, headers. Unique in the policy.
    pub name: String,
    /// Whether a refusal refuses.
    pub mode: Mode,
    /// Of the keys, how many are enforced, in hundredths of a percent, `0..=10_000`.
    pub enforced_share: u16,
    /// Its own answer to an outage, when it has one.
    pub outage: Option<Outage>,
    /// Units a request takes.
    pub cost: Cost,
    /// What identifies a client; empty: one bucket for all.
    pub key: Vec<Part>,
    /// What stands in for an absent part.
    pub missing: Missing,
    /// What a client without plan and override is admitted.
    pub terms: Terms,
}

/// Whether a limit's refusal refuses the request.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Mode {
    /// It does.
    #[default]
    Enforce,
    /// It is asked and counted, and refuses nothing.
    Shadow,
    /// It is not asked.
    Off,
}

/// The names of the modes.
pub const MODES: [(&str, Mode); 3] = [
    ("enforce", Mode::Enforce),
    ("shadow", Mode::Shadow),
    ("off", Mode::Off),
];

/// The names of the algorithms.
pub const ALGORITHMS: [(&str, Kind); 6] = [
    ("sliding-log", Kind::SlidingLog),
    ("sliding-window", Kind::SlidingWindow),
    ("fixed-window", Kind::FixedWindow),
    ("token-bucket", Kind::TokenBucket),
    ("gcra", Kind::Gcra),
    ("concurrency", Kind::Concurrency),
];

/// All of a client's requests in hundredths of a percent.
pub const WHOLE: u16 = 10_000;

/// Reads one limit. `around` is what the policy says for all its keys.
pub fn read(field: &Field<'_>, around: Context<'_>, findings: &mut Findings) -> Option<Limit> {
    let table = field.table(FIELDS, findings)?;
    let name = table
        .require("name", findings)
        .and_then(|field| field.name(findings));
    let context = Context {
        ipv6_prefix: read_ipv6_prefix(&table, findings).unwrap_or(around.ipv6_prefix),
        jwt_payload: around.jwt_payload,
        secret: table
            .get("secret")
            .and_then(|field| field.boolean(findings)),
    };
    let key = table
        .require("key", findings)
        .and_then(|field| key::read(&field, context, findings));
    let missing = match table.get("missing") {
        Some(field) => key::read_missing(&field, context, findings),
        None => Some(default_missing(key.as_deref().unwrap_or_default(), context)),
    };
    let kind = table
        .require("algorithm", findings)
        .and_then(|field| field.choice(&ALGORITHMS, findings));
    let terms = terms::read(&table, name.unwrap_or_default(), kind, findings);
    let mode = table
        .get("mode")
        .and_then(|field| field.choice(&MODES, findings));
    let outage = table
        .get("outage")
        .and_then(|field| outage::read(&field, findings));
    let cost = cost::read(table.get("cost"), findings);
    Some(Limit {
        name: name?.to_owned(),
        mode: mode.unwrap_or_default(),
        enforced_share: read_share(&table, findings),
        outage,
        cost,
        key: key?,
        missing: missing?,
        terms: terms?,
    })
}

/// Reads `ipv6_prefix` of the policy or of a limit.
pub fn read_ipv6_prefix(table: &Table<'_>, findings: &mut Findings) -> Option<u8> {
    let bits = table.get("ipv6_prefix")?.integer(1..=128, findings)?;
    u8::try_from(bits).ok()
}

/// Never a bypass: whoever sends no key is told apart by address.
fn default_missing(key: &[Part], context: Context<'_>) -> Missing {
    if key
        .iter()
        .any(|part| matches!(part.source, Source::Ip { .. }))
    {
        return Missing::Shared;
    }
    Missing::Key(vec![key::address(context)])
}

fn read_share(table: &Table<'_>, findings: &mut Findings) -> u16 {
    use super::node::Node;
    let Some(field) = table.get("enforce_percent") else {
        return WHOLE;
    };
    let percent = match field.node {
        Node::Integer(whole) => u16::try_from(*whole).ok().map(f64::from),
        Node::Number(number) => Some(*number),
        _ => None,
    };
    match percent.filter(|percent| (0.0..=100.0).contains(percent)) {
        #[expect(
            clippy::cast_possible_truncation,
            clippy::cast_sign_loss,
            reason = "0 to 100, so 0 to 10_000"
        )]
        Some(percent) => (percent * 100.0).round() as u16,
        None => field
            .refuse("a number, 0 to 100", findings)
            .unwrap_or(WHOLE),
    }
}
