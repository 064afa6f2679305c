//! One element of `limits`: whom it counts, how much it admits.

use super::{
    cost::{self, Cost},
    field::{Field, Table},
    findings::Findings,
    key::{self, Context, Missing, Part, Source},
    local,
    node::Node,
    outage::{self, Outage},
    overrides::{self, Overrides},
    plans::{self, Plans},
    terms::{Base, Terms},
    when::{self, Reading, When},
};
use crate::algorithm::{Algorithm, Kind};

/// The fields of a limit.
pub const FIELDS: &[&str] = &[
    "name",
    "when",
    "exempt",
    "group",
    "key",
    "ipv6_prefix",
    "secret",
    "missing",
    "algorithm",
    "rate",
    "burst",
    "align",
    "lease",
    "plans",
    "overrides",
    "cost",
    "mode",
    "enforce_percent",
    "outage",
    "local",
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
    /// What one worker admits while Redis does not answer, in place of a share of the limit.
    pub local: Option<Algorithm>,
    /// Units a request takes.
    pub cost: Cost,
    /// Which requests it is about: one of these; empty: every request.
    pub when: Vec<When>,
    /// Which of them it leaves out.
    pub exempt: Vec<When>,
    /// Of a group, only the first member that applies is asked; a number below 64.
    pub group: Option<u8>,
    /// What identifies a client; empty: one bucket for all.
    pub key: Vec<Part>,
    /// What stands in for an absent part.
    pub missing: Missing,
    /// What a client without plan and override is admitted.
    pub terms: Terms,
    /// What clients of a plan are admitted.
    pub plans: Option<Plans>,
    /// What named clients are admitted.
    pub overrides: Overrides,
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

/// What the policy says for all its limits.
#[derive(Clone, Copy, Debug)]
pub struct Around<'a> {
    /// For all conditions and keys.
    pub reading: Reading<'a>,
    /// The policy's groups by name, in the order of their numbers.
    pub groups: &'a [&'a str],
}

/// Reads one limit.
pub fn read(field: &Field<'_>, around: Around<'_>, findings: &mut Findings) -> Option<Limit> {
    let table = field.table(FIELDS, findings)?;
    let name = table
        .require("name", findings)
        .and_then(|field| field.name(findings));
    let context = Context {
        ipv6_prefix: read_ipv6_prefix(&table, findings)
            .unwrap_or(around.reading.context.ipv6_prefix),
        secret: table
            .get("secret")
            .and_then(|field| field.boolean(findings)),
        ..around.reading.context
    };
    let when = when::read(table.get("when"), around.reading, findings);
    let exempt = when::read_exempt(table.get("exempt"), around.reading, findings);
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
    let admitted = read_admitted(&table, name, kind, key.as_deref(), context, findings);
    let mode = table
        .get("mode")
        .and_then(|field| read_mode(&field, findings));
    let outage = table
        .get("outage")
        .and_then(|field| outage::read(&field, findings));
    let cost = cost::read(table.get("cost"), kind, findings);
    let enforced_share = read_share(&table, findings);
    let (terms, plans, overrides, local) = admitted?;
    Some(Limit {
        name: name?.to_owned(),
        mode: mode.unwrap_or_default(),
        enforced_share,
        outage,
        local,
        cost,
        when: when?,
        exempt: exempt?,
        group: read_group(&table, around.groups),
        key: key?,
        missing: missing?,
        terms,
        plans,
        overrides,
    })
}

/// Reads what clients are admitted: the limit's own terms, its plans, its overrides.
fn read_admitted(
    table: &Table<'_>,
    name: Option<&str>,
    kind: Option<Kind>,
    key: Option<&[Part]>,
    context: Context<'_>,
    findings: &mut Findings,
) -> Option<(Terms, Option<Plans>, Overrides, Option<Algorithm>)> {
    let base = Base::read(table, name.unwrap_or_default(), kind?, findings)?;
    let terms = base.terms_beside(table, findings);
    let plans = match table.get("plans") {
        Some(field) => plans::read(&field, &base, context, findings).map(Some),
        None => Some(None),
    };
    let overrides = match table.get("overrides") {
        Some(field) => overrides::read(&field, &base, key?, context, findings),
        None => Some(Overrides::default()),
    };
    let local = match table.get("local") {
        Some(field) => local::read_own(&field, &base, findings).map(Some),
        None => Some(None),
    };
    Some((terms?, plans?, overrides?, local?))
}

/// The number of the limit's group; the names were read before.
fn read_group(table: &Table<'_>, groups: &[&str]) -> Option<u8> {
    let Node::Text(name) = table.get("group")?.node else {
        return None;
    };
    groups
        .iter()
        .position(|known| known == name)
        .and_then(|i| u8::try_from(i).ok())
}

/// `off` without quotes is `false` to YAML 1.1, which Kubernetes speaks.
fn read_mode(field: &Field<'_>, findings: &mut Findings) -> Option<Mode> {
    match field.node {
        Node::Bool(false) => Some(Mode::Off),
        _ => field.choice(&MODES, findings),
    }
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
