//! What identifies a client: the parts of a key.

use super::{
    field::Field,
    findings::{Findings, Path},
    node::Node,
};

/// One part of a key: a fact of the request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Source {
    /// The client address that Envoy trusts, IPv6 cut to this many leading bits.
    Ip {
        /// Leading bits of an IPv6 address that count, 1 to 128.
        ipv6_prefix: u8,
    },
    /// A request header, by its lower-case name.
    Header(String),
    /// A cookie.
    Cookie(String),
    /// A query parameter, decoded.
    Query(String),
    /// The path pattern that matched, or the path's normal form when the rule names none.
    Path,
    /// The method.
    Method,
    /// The host, lower-case, without port.
    Host,
    /// The name of Envoy's route.
    Route,
    /// A claim of the JWT payload that Envoy verified.
    Claim {
        /// The claim, and what is inside it.
        name: Vec<String>,
        /// The attribute it is read from.
        path: Vec<String>,
    },
    /// The URI in the client certificate (mTLS).
    Peer,
    /// An Envoy attribute.
    Property(Vec<String>),
}

/// One part of a key, ready to be read.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Part {
    /// The fact.
    pub source: Source,
    /// Whether its value is hashed before it goes anywhere.
    pub secret: bool,
    /// Whether the policy itself says that it is secret.
    pub secret_asked: bool,
    /// Its kind and name in the Redis key: `header/x-api-key`. Never empty.
    pub label: String,
}

/// What stands in when a part of the key is absent or empty.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Missing {
    /// Another key.
    Key(Vec<Part>),
    /// The request is refused.
    Deny,
    /// The limit does not apply.
    Skip,
    /// All such requests share one bucket.
    Shared,
}

/// How a reader of keys is set up by the limit around it.
#[derive(Clone, Copy, Debug)]
pub struct Context<'a> {
    /// Leading bits of an IPv6 address that count.
    pub ipv6_prefix: u8,
    /// The name under which Envoy's `jwt_authn` keeps the payload (`payload_in_metadata`).
    pub jwt_payload: &'a str,
    /// `secret` of the limit, when written.
    pub secret: Option<bool>,
}

/// The kinds of parts that need no name.
pub const PLAIN_KINDS: &[&str] = &["ip", "path", "method", "host", "route", "peer"];
/// The kinds of parts that are followed by a name.
pub const NAMED_KINDS: &[&str] = &["header", "cookie", "query", "claim", "property"];
/// What a part looks like, for messages.
const ACCEPTED: &str = "ip, path, method, host, route, peer, header:NAME, cookie:NAME, query:NAME, \
                        claim:NAME or property:NAME";
/// Most parts of a key.
const MAX_PARTS: usize = 8;
/// Headers that carry credentials: hashed unless the policy says `secret: false`.
const SECRET_HEADERS: &[&str] = &[
    "authorization",
    "proxy-authorization",
    "cookie",
    "x-api-key",
    "api-key",
    "apikey",
    "x-auth-token",
    "x-access-token",
];

/// Reads a key: one part or a list of parts; an empty list is one bucket for all.
pub fn read(field: &Field<'_>, context: Context<'_>, findings: &mut Findings) -> Option<Vec<Part>> {
    let fields = field.one_or_more();
    if fields.len() > MAX_PARTS {
        return field.list(0..=MAX_PARTS, findings).and(None);
    }
    let mut parts: Vec<Part> = Vec::new();
    let mut whole = true;
    for field in &fields {
        match read_part(field, context, findings) {
            Some(part) if parts.iter().any(|known| known.label == part.label) => {
                findings.error(
                    &field.path,
                    format!("{} again", field.node.shown()),
                    "each part once",
                );
                whole = false;
            }
            Some(part) => parts.push(part),
            None => whole = false,
        }
    }
    whole.then_some(parts)
}

/// Reads `missing`: `deny`, `skip`, `shared`, or another key.
pub fn read_missing(
    field: &Field<'_>,
    context: Context<'_>,
    findings: &mut Findings,
) -> Option<Missing> {
    match field.node {
        Node::Text(text) => match text.as_str() {
            "deny" => return Some(Missing::Deny),
            "skip" => return Some(Missing::Skip),
            "shared" => return Some(Missing::Shared),
            word if !word.contains(':') && !PLAIN_KINDS.contains(&word) => {
                let words = ["deny", "skip", "shared"].into_iter();
                let words = words.chain(PLAIN_KINDS.iter().chain(NAMED_KINDS).copied());
                findings.unknown(&field.path, "the unknown value", word, words);
                return None;
            }
            _ => {}
        },
        Node::List(list) if list.is_empty() => {
            return field.refuse("deny, skip, shared, or a key that is not empty", findings);
        }
        _ => {}
    }
    read(field, context, findings).map(Missing::Key)
}

/// The first steps of the attributes that Envoy 1.40 has.
const ATTRIBUTES: &[&str] = &[
    "connection",
    "connection_id",
    "destination",
    "filter_state",
    "metadata",
    "plugin_name",
    "plugin_root_id",
    "plugin_vm_id",
    "request",
    "response",
    "source",
    "upstream",
    "upstream_filter_state",
    "xds",
];

/// Warns of an attribute that Envoy does not have: older ones had `route_name` and others.
pub fn warn_of_attribute(steps: &[String], path: &Path, findings: &mut Findings) {
    let Some(first) = steps
        .first()
        .filter(|first| !ATTRIBUTES.contains(&first.as_str()))
    else {
        return;
    };
    let newer =
        ["route_name", "cluster_name", "listener_direction", "node"].contains(&first.as_str());
    let text = if newer {
        format!("Envoy 1.40 has no attribute {first}; it has xds.{first}")
    } else {
        format!("Envoy has no attribute {first}; this reads the filter state wasm.{first}")
    };
    findings.warning(path, text);
}

/// Reads one part: `kind`, `kind:NAME`, or a table such as `{header: NAME, secret: true}`.
pub fn read_part(field: &Field<'_>, context: Context<'_>, findings: &mut Findings) -> Option<Part> {
    let part = read_any_part(field, context, findings)?;
    if let Source::Property(steps) = &part.source {
        warn_of_attribute(steps, &field.path, findings);
    }
    Some(part)
}

fn read_any_part(field: &Field<'_>, context: Context<'_>, findings: &mut Findings) -> Option<Part> {
    match field.node {
        Node::Text(text) => {
            let source = match text.split_once(':') {
                None => plain(text, context),
                Some((kind, name)) => named(kind, name, context),
            };
            match source {
                Some(source) => Some(part(source, context.secret)),
                None => {
                    let kind = text.split(':').next().unwrap_or_default();
                    let kinds = PLAIN_KINDS.iter().chain(NAMED_KINDS).copied();
                    if kinds.clone().any(|known| known == kind) {
                        field.refuse(accepted_name(kind), findings)
                    } else {
                        findings.unknown(&field.path, "the unknown part", kind, kinds);
                        None
                    }
                }
            }
        }
        Node::Table(_) => read_part_table(field, context, findings),
        _ => field.refuse(ACCEPTED, findings),
    }
}

/// The fields of a part that is written as a table.
pub const PART_FIELDS: &[&str] = &["header", "cookie", "query", "claim", "property", "secret"];

fn read_part_table(
    field: &Field<'_>,
    context: Context<'_>,
    findings: &mut Findings,
) -> Option<Part> {
    let table = field.table(PART_FIELDS, findings)?;
    let secret = match table.get("secret") {
        Some(field) => Some(field.boolean(findings)?),
        None => context.secret,
    };
    let mut kinds = table
        .fields()
        .filter(|(name, _)| NAMED_KINDS.contains(name));
    let (Some((kind, name)), None) = (kinds.next(), kinds.next()) else {
        return field.refuse(
            "exactly one of header, cookie, query, claim, property",
            findings,
        );
    };
    let source = match name.node {
        Node::Text(text) => named(kind, text, context),
        // A list is a path whose steps may hold dots.
        Node::List(steps) if matches!(kind, "claim" | "property") => {
            let steps = steps.iter().map(|step| match step {
                Node::Text(text) if !text.is_empty() => Some(text.clone()),
                _ => None,
            });
            let steps = steps
                .collect::<Option<Vec<_>>>()
                .filter(|s| (1..=16).contains(&s.len()));
            steps.map(|steps| match kind {
                "claim" => claim(steps, context),
                _ => Source::Property(steps),
            })
        }
        _ => None,
    };
    match source {
        Some(source) => Some(part(source, secret)),
        None => name.refuse(accepted_name(kind), findings),
    }
}

/// The part `ip`.
#[must_use]
pub fn address(context: Context<'_>) -> Part {
    part(
        Source::Ip {
            ipv6_prefix: context.ipv6_prefix,
        },
        None,
    )
}

fn plain(kind: &str, context: Context<'_>) -> Option<Source> {
    Some(match kind {
        "ip" => Source::Ip {
            ipv6_prefix: context.ipv6_prefix,
        },
        "path" => Source::Path,
        "method" => Source::Method,
        "host" => Source::Host,
        "route" => Source::Route,
        "peer" => Source::Peer,
        _ => return None,
    })
}

fn named(kind: &str, name: &str, context: Context<'_>) -> Option<Source> {
    let steps = || {
        let steps: Vec<String> = name.split('.').map(ToOwned::to_owned).collect();
        (steps.len() <= 16 && steps.iter().all(|step| !step.is_empty())).then_some(steps)
    };
    if name.is_empty() || name.len() > 256 {
        return None;
    }
    Some(match kind {
        "header" => Source::Header(header_name(name)?),
        "cookie" if is_token(name) => Source::Cookie(name.to_owned()),
        "query" => Source::Query(name.to_owned()),
        "claim" => claim(steps()?, context),
        "property" => Source::Property(steps()?),
        _ => return None,
    })
}

fn claim(name: Vec<String>, context: Context<'_>) -> Source {
    let path = claim_path(&name, context);
    Source::Claim { name, path }
}

/// The attribute that holds a claim of the payload that Envoy verified.
#[must_use]
pub fn claim_path(name: &[String], context: Context<'_>) -> Vec<String> {
    let outer = [
        "metadata",
        "filter_metadata",
        "envoy.filters.http.jwt_authn",
        context.jwt_payload,
    ];
    outer
        .into_iter()
        .map(ToOwned::to_owned)
        .chain(name.iter().cloned())
        .collect()
}

/// The lower-case form of a header's name; `None` when no header can have it.
#[must_use]
pub fn header_name(name: &str) -> Option<String> {
    (name.len() <= 256 && is_token(name)).then(|| name.to_ascii_lowercase())
}

fn accepted_name(kind: &str) -> &'static str {
    match kind {
        "header" => "header:NAME with a header's name; for pseudo headers use path, method, host",
        "cookie" => "cookie:NAME with a cookie's name",
        "query" => "query:NAME with a parameter's name",
        "claim" => "claim:NAME, or claim:OUTER.INNER for a nested claim",
        "property" => "property:NAME with an Envoy attribute such as xds.route_name",
        _ => "this part without a name",
    }
}

fn part(source: Source, secret: Option<bool>) -> Part {
    let secret_asked = secret == Some(true);
    let secret = secret.unwrap_or(match &source {
        Source::Header(name) => SECRET_HEADERS.contains(&name.as_str()),
        Source::Cookie(_) => true,
        _ => false,
    });
    let label = label(&source);
    Part {
        source,
        secret,
        secret_asked,
        label,
    }
}

/// The part's kind and name as they stand in a Redis key.
fn label(source: &Source) -> String {
    let (kind, steps) = match source {
        Source::Header(name) => ("header", std::slice::from_ref(name)),
        Source::Cookie(name) => ("cookie", std::slice::from_ref(name)),
        Source::Query(name) => ("query", std::slice::from_ref(name)),
        Source::Claim { name, .. } => ("claim", name.as_slice()),
        Source::Property(steps) => ("property", steps.as_slice()),
        plain => return plain.to_string(),
    };
    let mut label = kind.to_owned();
    for step in steps {
        label.push('/');
        crate::rules::identity::escape(step.as_bytes(), &mut label);
    }
    label
}

/// Whether the text is an HTTP token, as names of headers and cookies are.
#[must_use]
pub fn is_token(text: &str) -> bool {
    !text.is_empty()
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || b"!#$%&'*+-.^_`|~".contains(&b))
}

/// The part as the policy writes it.
impl std::fmt::Display for Source {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self {
            Self::Ip { .. } => f.write_str("ip"),
            Self::Path => f.write_str("path"),
            Self::Method => f.write_str("method"),
            Self::Host => f.write_str("host"),
            Self::Route => f.write_str("route"),
            Self::Peer => f.write_str("peer"),
            Self::Header(name) => write!(f, "header:{name}"),
            Self::Cookie(name) => write!(f, "cookie:{name}"),
            Self::Query(name) => write!(f, "query:{name}"),
            Self::Claim { name, .. } => write!(f, "claim:{}", name.join(".")),
            Self::Property(steps) => write!(f, "property:{}", steps.join(".")),
        }
    }
}
