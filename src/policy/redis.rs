//! The `redis` section: how the filter reaches Redis.

use super::{
    breaker,
    field::{Field, Table},
    findings::Findings,
    secret::Secret,
};
use crate::{outage::breaker::Settings as Breaker, units::Micros};

/// The fields of the section.
pub const FIELDS: &[&str] = &[
    "link",
    "cluster",
    "authority",
    "topology",
    "timeout",
    "remember_refusals",
    "breaker",
    "prefix",
    "username",
    "password",
    "token",
];

/// How the filter reaches Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Redis {
    /// What carries the commands.
    pub link: Link,
    /// The Envoy cluster of that link.
    pub cluster: String,
    /// The host name sent to an HTTP gateway; the cluster's name when left out.
    pub authority: String,
    /// Whether keys of different tags may go in one call.
    pub topology: Topology,
    /// From asking to verdict, 1 ms to 10 s.
    pub timeout: Micros,
    /// How long a worker may answer for Redis that a client is refused, at most one minute; zero: it
    /// asks each time.
    pub remember_refusals: Micros,
    /// When requests stop waiting for a Redis that does not answer.
    pub breaker: Breaker,
    /// The first part of every key.
    pub prefix: String,
    /// For `AUTH` straight to Redis or by Higress, and basic authentication at Webdis.
    pub username: Option<String>,
    /// Goes with `username`, or alone.
    pub password: Option<Secret>,
    /// The bearer token of an Upstash-compatible gateway.
    pub token: Option<Secret>,
}

/// What carries the commands to Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Link {
    /// The internal listener of this Envoy.
    Envoy,
    /// The HTTP gateway Webdis.
    Webdis,
    /// The Upstash REST API and servers compatible with it.
    Upstash,
    /// The Redis call that Envoy has in Higress, and nowhere else.
    Higress,
}

impl Link {
    /// Whether an HTTP gateway stands between Envoy and Redis.
    #[must_use]
    pub const fn is_gateway(self) -> bool {
        matches!(self, Self::Webdis | Self::Upstash)
    }
}

/// How the keys are spread.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Topology {
    /// One Redis holds all keys: all limits of a request go in one call.
    Single,
    /// Redis Cluster: one call for each hash tag.
    Cluster,
}

/// The names of the links.
pub const LINKS: [(&str, Link); 4] = [
    ("envoy", Link::Envoy),
    ("webdis", Link::Webdis),
    ("upstash", Link::Upstash),
    ("higress", Link::Higress),
];

/// What the link `higress` needs, said where it is not there.
const HIGRESS_BUILD: &str =
    "the module built with `--features higress`; any other refuses this link";

/// The names of the topologies.
pub const TOPOLOGIES: [(&str, Topology); 2] =
    [("single", Topology::Single), ("cluster", Topology::Cluster)];

const DEFAULT_CLUSTER: &str = "aforo-link";
const DEFAULT_PREFIX: &str = "aforo";
const DEFAULT_TIMEOUT: Micros = Micros::from_millis(20);
const MOST_MEMORY: Micros = Micros::from_secs(60);
const LEAST_TIMEOUT: Micros = Micros::from_millis(1);
const MOST_TIMEOUT: Micros = Micros::from_secs(10);

impl Default for Redis {
    fn default() -> Self {
        Self {
            link: Link::Envoy,
            cluster: DEFAULT_CLUSTER.to_owned(),
            authority: DEFAULT_CLUSTER.to_owned(),
            topology: Topology::Single,
            timeout: DEFAULT_TIMEOUT,
            remember_refusals: Micros::ZERO,
            breaker: Breaker::default(),
            prefix: DEFAULT_PREFIX.to_owned(),
            username: None,
            password: None,
            token: None,
        }
    }
}

/// Reads the section; left out, everything has its default.
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Redis {
    let mut redis = Redis::default();
    let Some(table) = field.and_then(|field| field.table(FIELDS, findings)) else {
        return redis;
    };
    if let Some(field) = table.get("link") {
        redis.link = field.choice(&LINKS, findings).unwrap_or(redis.link);
        if redis.link == Link::Higress && !cfg!(feature = "higress") {
            // The command checks policies for every build; a module is one.
            if cfg!(target_family = "wasm") {
                findings.error(&field.path, "higress", HIGRESS_BUILD);
            } else {
                findings.warning(&field.path, format!("needs {HIGRESS_BUILD}"));
            }
        }
    }
    match table.get("cluster") {
        Some(field) => redis.cluster = field.text(findings).unwrap_or_default().to_owned(),
        None if redis.link != Link::Envoy => {
            findings.error(
                &table.path.field("cluster"),
                "nothing",
                if redis.link.is_gateway() {
                    "the Envoy cluster of the HTTP gateway; it is required with this link"
                } else {
                    "the Envoy cluster of Redis; it is required with this link"
                },
            );
        }
        None => {}
    }
    redis.authority = table
        .get("authority")
        .and_then(|field| field.text(findings))
        .unwrap_or(&redis.cluster)
        .to_owned();
    if let Some(field) = table.get("topology") {
        redis.topology = field
            .choice(&TOPOLOGIES, findings)
            .unwrap_or(redis.topology);
    }
    if let Some(field) = table.get("timeout") {
        redis.timeout = field
            .span(LEAST_TIMEOUT..=MOST_TIMEOUT, findings)
            .unwrap_or(redis.timeout);
    }
    if let Some(field) = table.get("remember_refusals") {
        let off = Micros::ZERO;
        redis.remember_refusals = field.span(off..=MOST_MEMORY, findings).unwrap_or(off);
    }
    redis.breaker = breaker::read(table.get("breaker"), findings);
    if let Some(field) = table.get("prefix") {
        redis.prefix = field.name(findings).unwrap_or_default().to_owned();
    }
    read_credentials(&table, &mut redis, findings);
    redis
}

fn read_credentials(table: &Table<'_>, redis: &mut Redis, findings: &mut Findings) {
    let mut secret = |name| {
        let field: Field<'_> = table.get(name)?;
        field.secret(1..=1_024, findings).map(Secret::new)
    };
    redis.password = secret("password");
    redis.token = secret("token");
    redis.username = secret("username").map(|name| name.reveal().to_owned());
    if redis.username.is_some() && table.get("password").is_none() {
        findings.error(
            &table.path.field("password"),
            "nothing",
            "a password beside the username",
        );
    }
    if redis.link == Link::Upstash && table.get("token").is_none() {
        findings.error(
            &table.path.field("token"),
            "nothing",
            "the gateway's bearer token",
        );
    }
    for (name, fits) in [
        ("token", redis.link == Link::Upstash),
        ("password", redis.link != Link::Upstash),
        ("username", redis.link != Link::Upstash),
        ("authority", redis.link.is_gateway()),
    ] {
        if !fits && let Some(field) = table.get(name) {
            findings.error(&field.path, "a value", "nothing: this link does not use it");
        }
    }
}
