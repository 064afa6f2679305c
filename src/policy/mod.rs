//! The policy: JSON, checked at one border into types that cannot be wrong.
//!
//! [`Policy::from_json`] reads the whole file, reports every error with its place, and gives a policy
//! only when there was none. Each section has its reader; all of them use [`field`] to read and
//! [`findings`] to report. Nothing here looks at a request: that is [`crate::rules`].

pub mod breaker;
pub mod control;
pub mod cost;
pub mod encoding;
pub mod field;
pub mod findings;
pub mod key;
pub mod limit;
pub mod local;
pub mod network;
pub mod node;
pub mod outage;
pub mod overrides;
pub mod path;
pub mod plans;
pub mod rate;
pub mod redis;
pub mod reply;
#[cfg(not(target_family = "wasm"))]
pub mod schema;
pub mod secret;
pub mod terms;
pub mod text;
mod warnings;
pub mod when;

pub use findings::{Error, Errors, Warning};
pub use limit::{Limit, Mode};
pub use outage::Outage;
pub use redis::{Link, Redis, Topology};
pub use secret::Secret;

use std::collections::HashMap;

use field::Field;
use findings::{Findings, Path};
use key::Context;
use limit::Around;
use node::Node;
use when::{Reading, When};

use crate::rules::{identity::Hasher, index::Index};

/// The fields of a policy.
pub const FIELDS: &[&str] = &[
    "domain",
    "redis",
    "control",
    "outage",
    "local",
    "reply",
    "hash_key",
    "ipv6_prefix",
    "jwt_payload",
    "path_case",
    "exempt",
    "limits",
];

/// Most bytes of a policy.
pub const MAX_BYTES: usize = 4 * 1024 * 1024;
/// Most limits of a policy.
pub const MAX_LIMITS: usize = 10_000;
/// Most groups of a policy.
pub const MAX_GROUPS: usize = 64;
/// The names of the ways to look at letter case, and whether it is looked over.
pub const PATH_CASES: [(&str, bool); 2] = [("sensitive", false), ("insensitive", true)];
/// Leading bits of an IPv6 address that count, unless the policy says otherwise: one customer's
/// network.
pub const DEFAULT_IPV6_PREFIX: u8 = 64;

/// Where Envoy's `jwt_authn` keeps the verified payload, unless the policy says otherwise: what Istio
/// writes there.
pub const DEFAULT_JWT_PAYLOAD: &str = "payload";

/// A checked policy.
#[derive(Clone, Debug)]
#[non_exhaustive]
pub struct Policy {
    /// How the filter reaches Redis.
    pub redis: Redis,
    /// What is taken from Redis beside decisions.
    pub control: control::Control,
    /// What a request gets when Redis does not answer.
    pub outage: Outage,
    /// What a worker's own limiter may admit and remember, for `outage: local`.
    pub local: local::Local,
    /// What the answer shows.
    pub reply: crate::reply::Settings,
    /// The limits, in the file's order. Never empty.
    pub limits: Vec<Limit>,
    /// Requests that no limit is about.
    pub exempt: Vec<When>,
    /// Whether paths of different letter case are one path.
    pub any_case: bool,
    /// Finds the limits that a path may be about.
    pub index: Index,
    /// What every key begins with, up to its tag: `PREFIX:` or `PREFIX:DOMAIN:`.
    pub key_head: String,
    /// Hashes values that are secret or long.
    pub hasher: Hasher,
}

impl Policy {
    /// The name of the limit at an index; nothing for an index out of range.
    #[must_use]
    pub fn limit_name(&self, index: usize) -> &str {
        self.limits
            .get(index)
            .map_or("", |limit| limit.name.as_str())
    }

    /// Reads a policy.
    ///
    /// # Errors
    /// Everything that is wrong with it, each with its place; for text that is no JSON, the line and
    /// column.
    pub fn from_json(json: &[u8]) -> Result<(Self, Vec<Warning>), Errors> {
        let mut findings = Findings::default();
        let policy = parse(json, &mut findings).and_then(|node| read(&node, &mut findings));
        match policy {
            Some(policy) => Ok((policy, findings.finish()?)),
            None => {
                if !findings.refused() {
                    // A reader that gives nothing has said why; if one forgot, say at least this.
                    findings.error(&Path::default(), "something unreadable", "a policy");
                }
                Err(findings.into_errors())
            }
        }
    }

    /// This policy as one that was pushed to where `own` is the configuration's. How Redis is reached,
    /// what is taken from there, and every secret stay as they are in `own`: a pushed policy lies in
    /// Redis for many to read, and another `hash_key` would be another name for every client.
    #[must_use]
    pub fn under(self, own: &Self) -> Self {
        Self {
            redis: own.redis.clone(),
            control: own.control,
            hasher: own.hasher.clone(),
            reply: self.reply.with_debug(own.reply.parts().debug.clone()),
            ..self
        }
    }
}

fn parse(json: &[u8], findings: &mut Findings) -> Option<Node> {
    let root = Path::default();
    if json.len() > MAX_BYTES {
        findings.error(
            &root,
            format!("{} bytes", json.len()),
            format!("at most {MAX_BYTES} bytes"),
        );
        return None;
    }
    // Editors of one system put a byte order mark in front.
    let json = json.strip_prefix(b"\xEF\xBB\xBF").unwrap_or(json);
    if json.trim_ascii().is_empty() {
        findings.error(&root, "nothing", "a policy with at least one limit");
        return None;
    }
    match serde_json::from_slice::<Node>(json) {
        Ok(node) => Some(node),
        Err(error) => {
            findings.error(&root, error.to_string(), "JSON");
            None
        }
    }
}

fn read(node: &Node, findings: &mut Findings) -> Option<Policy> {
    let root = Field {
        node,
        path: Path::default(),
    };
    if matches!(node, Node::Null) {
        return root.refuse("a policy with at least one limit", findings);
    }
    node.refuse_repeated(&root.path, findings);
    let table = root.table(FIELDS, findings)?;
    let domain = table
        .get("domain")
        .map(|field| field.name(findings).unwrap_or_default());
    let redis = redis::read(table.get("redis"), findings);
    let control = control::read(table.get("control"), findings);
    let outage = table
        .get("outage")
        .and_then(|field| outage::read(&field, findings));
    let local = local::read(table.get("local"), findings);
    let reply = reply::read(table.get("reply"), findings);
    let hash_key = table
        .get("hash_key")
        .and_then(|field| field.secret(16..=1_024, findings))
        .map(Secret::new);
    let context = Context {
        ipv6_prefix: limit::read_ipv6_prefix(&table, findings).unwrap_or(DEFAULT_IPV6_PREFIX),
        jwt_payload: table
            .get("jwt_payload")
            .and_then(|field| field.text(findings))
            .unwrap_or(DEFAULT_JWT_PAYLOAD),
        secret: None,
    };
    let any_case = table
        .get("path_case")
        .and_then(|field| field.choice(&PATH_CASES, findings));
    let reading = Reading {
        context,
        any_case: any_case.unwrap_or_default(),
    };
    let exempt = when::read_exempt(table.get("exempt"), reading, findings);
    let limits = read_limits(table.require("limits", findings)?, reading, findings)?;
    let key_head = match domain {
        Some(domain) => format!("{}:{domain}:", redis.prefix),
        None => format!("{}:", redis.prefix),
    };
    let policy = Policy {
        redis,
        outage: outage.unwrap_or_default(),
        control,
        local,
        reply,
        exempt: exempt?,
        any_case: reading.any_case,
        index: Index::new(&limits),
        limits,
        key_head,
        hasher: Hasher::new(hash_key.as_ref()),
    };
    if !findings.refused() {
        warnings::report(&policy, hash_key.is_some(), findings);
    }
    Some(policy)
}

fn read_limits(
    field: Field<'_>,
    reading: Reading<'_>,
    findings: &mut Findings,
) -> Option<Vec<Limit>> {
    let fields = field.list(1..=MAX_LIMITS, findings)?;
    let groups = read_groups(&fields, findings);
    let around = Around {
        reading,
        groups: &groups,
    };
    refuse_repeated_names(&fields, findings);
    let limits: Vec<Limit> = fields
        .iter()
        .filter_map(|field| limit::read(field, around, findings))
        .collect();
    (!limits.is_empty()).then_some(limits)
}

fn refuse_repeated_names(limits: &[Field<'_>], findings: &mut Findings) {
    let mut names = HashMap::new();
    for (i, limit) in limits.iter().enumerate() {
        let Node::Table(entries) = limit.node else {
            continue;
        };
        let name = entries
            .iter()
            .find(|(name, _)| name == "name")
            .map(|(_, node)| node);
        let Some(Node::Text(name)) = name else {
            continue;
        };
        if let Some(first) = names.insert(name, i) {
            findings.error(
                &limit.path.field("name"),
                format!("{} again", findings::shown(name)),
                format!("a name of its own; limits[{first}] has this one"),
            );
        }
    }
}

/// The names of all groups, each once, in the order of their first members.
fn read_groups<'a>(limits: &[Field<'a>], findings: &mut Findings) -> Vec<&'a str> {
    let mut groups = Vec::new();
    for limit in limits {
        let Node::Table(entries) = limit.node else {
            continue;
        };
        let Some((_, node)) = entries.iter().find(|(name, _)| name == "group") else {
            continue;
        };
        let field = Field {
            node,
            path: limit.path.field("group"),
        };
        let Some(name) = field.name(findings) else {
            continue;
        };
        if groups.contains(&name) {
            continue;
        }
        if groups.len() == MAX_GROUPS {
            findings.error(
                &field.path,
                "one group more",
                format!("at most {MAX_GROUPS} groups"),
            );
        }
        groups.push(name);
    }
    groups
}
