//! Conditions: which requests a limit, or an exemption, is about.

use super::{
    field::{Field, Table},
    findings::{Findings, shown},
    key::{self, Context},
    network::{self, Network},
    node::Node,
    path::{self, Pattern},
    text::{self, Test},
};

/// Conditions that must all hold. At least one is given.
#[derive(Clone, Debug, Default)]
pub struct When {
    /// One of these paths; empty: any.
    pub paths: Vec<Pattern>,
    /// One of these methods, in capitals; empty: any.
    pub methods: Vec<String>,
    /// One of these hosts; empty: any.
    pub hosts: Vec<Host>,
    /// The client's address in one of these networks; empty: any.
    pub clients: Vec<Network>,
    /// Headers, query parameters, cookies, claims and attributes, each by its own test.
    pub values: Vec<(Named, Test)>,
    /// One of these kinds of request; empty: any.
    pub kinds: Vec<Known>,
    /// None of these holds.
    pub not: Vec<When>,
}

/// A fact that has a name.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Named {
    /// A header, by its lower-case name.
    Header(String),
    /// A query parameter.
    Query(String),
    /// A cookie.
    Cookie(String),
    /// An Envoy attribute; what the policy calls it, and its path.
    Property(String, Vec<String>),
}

/// A host pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Host {
    /// This host.
    Exact(String),
    /// Every host that ends so, with the dot: `*.example.com`.
    Below(String),
}

/// Requests that are known by their shape.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Known {
    /// A probe: GET or HEAD of a usual health path exactly as written here and without query, or the
    /// gRPC health check.
    HealthCheck,
    /// `OPTIONS` with `Origin` and `Access-Control-Request-Method`.
    CorsPreflight,
}

/// The names of the known kinds of request.
pub const KINDS: [(&str, Known); 2] = [
    ("health-checks", Known::HealthCheck),
    ("cors-preflight", Known::CorsPreflight),
];

/// The fields of a table of conditions.
pub const FIELDS: &[&str] = &[
    "path",
    "methods",
    "hosts",
    "headers",
    "query",
    "cookies",
    "claims",
    "properties",
    "ip",
    "is",
    "not",
];

/// How conditions are read.
#[derive(Clone, Copy, Debug)]
pub struct Reading<'a> {
    /// What the policy says for all facts.
    pub context: Context<'a>,
    /// Whether paths are told apart by letter case.
    pub any_case: bool,
}

/// Reads `when`: a table, or a list of tables of which one must hold. Empty: every request.
pub fn read(
    field: Option<Field<'_>>,
    reading: Reading<'_>,
    findings: &mut Findings,
) -> Option<Vec<When>> {
    let Some(field) = field else {
        return Some(Vec::new());
    };
    read_each(&field, findings, |field, findings| {
        read_one(field, reading, findings)
    })
}

/// Reads `exempt`: names of known kinds of request, or tables of conditions.
pub fn read_exempt(
    field: Option<Field<'_>>,
    reading: Reading<'_>,
    findings: &mut Findings,
) -> Option<Vec<When>> {
    let Some(field) = field else {
        return Some(Vec::new());
    };
    read_each(&field, findings, |field, findings| match field.node {
        Node::Text(_) => {
            let kind = field.choice(&KINDS, findings)?;
            Some(When {
                kinds: vec![kind],
                ..When::default()
            })
        }
        _ => read_one(field, reading, findings),
    })
}

fn read_one(field: &Field<'_>, reading: Reading<'_>, findings: &mut Findings) -> Option<When> {
    let table = field.table(FIELDS, findings)?;
    if table.fields().next().is_none() {
        return field.refuse("at least one condition", findings);
    }
    let mut when = When::default();
    let mut whole = true;
    for (name, field) in table.fields() {
        let read = match name {
            "path" => path::read(&field, reading.any_case, findings).map(|p| when.paths = p),
            "methods" => read_each(&field, findings, method).map(|m| when.methods = m),
            "hosts" => read_each(&field, findings, host).map(|h| when.hosts = h),
            "ip" => network::read(&field, findings).map(|n| when.clients = n),
            "is" => read_each(&field, findings, |field, findings| {
                field.choice(&KINDS, findings)
            })
            .map(|kinds| when.kinds = kinds),
            "not" => read(Some(field), reading, findings).map(|not| when.not = not),
            _ => read_values(name, &field, reading.context, &mut when.values, findings),
        };
        whole &= read.is_some();
    }
    whole.then_some(when)
}

fn read_values(
    kind: &str,
    field: &Field<'_>,
    context: Context<'_>,
    values: &mut Vec<(Named, Test)>,
    findings: &mut Findings,
) -> Option<()> {
    if !["headers", "query", "cookies", "claims", "properties"].contains(&kind) {
        // An unknown field: reported with the table.
        return None;
    }
    let table: Table<'_> = field.any_table(findings)?;
    let mut whole = true;
    for (name, field) in table.fields() {
        let steps = || name.split('.').map(ToOwned::to_owned).collect::<Vec<_>>();
        let named = match kind {
            "headers" => key::header_name(name).map(Named::Header),
            "query" => Some(Named::Query(name.to_owned())),
            "cookies" => key::is_token(name).then(|| Named::Cookie(name.to_owned())),
            "claims" => Some(Named::Property(
                format!("claim:{name}"),
                key::claim_path(&steps(), context),
            )),
            _ => {
                key::warn_of_attribute(&steps(), &field.path, findings);
                Some(Named::Property(name.to_owned(), steps()))
            }
        };
        let named = named.filter(|_| !name.is_empty()).or_else(|| {
            let accepted = match kind {
                "headers" => "a header's name; for pseudo headers use path, methods, hosts",
                "cookies" => "a cookie's name",
                _ => "a name that is not empty",
            };
            findings.error(&field.path, shown(name), accepted);
            None
        });
        let typed = matches!(kind, "claims" | "properties");
        match (named, text::read(&field, typed, findings)) {
            (Some(named), Some(test)) => values.push((named, test)),
            _ => whole = false,
        }
    }
    whole.then_some(())
}

fn read_each<T>(
    field: &Field<'_>,
    findings: &mut Findings,
    read: impl Fn(&Field<'_>, &mut Findings) -> Option<T>,
) -> Option<Vec<T>> {
    let fields = field.some(findings)?;
    let read: Vec<_> = fields.iter().map(|field| read(field, findings)).collect();
    read.into_iter().collect()
}

/// Methods are case-sensitive, but some upstreams are not: they are compared in capitals.
fn method(field: &Field<'_>, findings: &mut Findings) -> Option<String> {
    let text = field.text(findings)?;
    if key::is_token(text) && text.len() <= 32 && !text.bytes().any(|b| b.is_ascii_lowercase()) {
        Some(text.to_owned())
    } else {
        field.refuse("a method in capitals, such as GET", findings)
    }
}

fn host(field: &Field<'_>, findings: &mut Findings) -> Option<Host> {
    let text = field.text(findings)?.to_ascii_lowercase();
    let (below, name) = match text.strip_prefix("*.") {
        Some(rest) => (true, rest),
        None => (false, text.as_str()),
    };
    let plain = !name.is_empty()
        && name
            .bytes()
            .all(|b| b.is_ascii_graphic() && !b"/*?#@\\,".contains(&b));
    let ported = !name.starts_with('[') && name.contains(':');
    if !plain || ported || name.ends_with('.') {
        return field.refuse(
            "a host without port, such as example.com or *.example.com",
            findings,
        );
    }
    Some(if below {
        Host::Below(format!(".{name}"))
    } else {
        Host::Exact(name.to_owned())
    })
}

impl Host {
    /// Whether a host in its normal form matches.
    #[must_use]
    pub fn matches(&self, host: &[u8]) -> bool {
        match self {
            Self::Exact(name) => host == name.as_bytes(),
            Self::Below(end) => host.len() > end.len() && host.ends_with(end.as_bytes()),
        }
    }

    fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (_, Self::Exact(name)) => self.matches(name.as_bytes()),
            (Self::Below(mine), Self::Below(theirs)) => theirs.ends_with(mine.as_str()),
            (Self::Exact(_), Self::Below(_)) => false,
        }
    }
}

impl When {
    /// Whether every request that `other` is about is surely one that this is about.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        let any = |empty: bool, covered: bool| empty || covered;
        self.not.is_empty()
            && any(self.paths.is_empty(), {
                !other.paths.is_empty()
                    && other
                        .paths
                        .iter()
                        .all(|o| self.paths.iter().any(|s| s.covers(o)))
            })
            && any(self.methods.is_empty(), {
                !other.methods.is_empty() && other.methods.iter().all(|o| self.methods.contains(o))
            })
            && any(self.hosts.is_empty(), {
                !other.hosts.is_empty()
                    && other
                        .hosts
                        .iter()
                        .all(|o| self.hosts.iter().any(|s| s.covers(o)))
            })
            && any(self.clients.is_empty(), {
                !other.clients.is_empty()
                    && other
                        .clients
                        .iter()
                        .all(|o| self.clients.iter().any(|s| s.covers(o)))
            })
            && any(self.kinds.is_empty(), {
                !other.kinds.is_empty() && other.kinds.iter().all(|o| self.kinds.contains(o))
            })
            && self.values.iter().all(|(name, test)| {
                other
                    .values
                    .iter()
                    .any(|(named, asked)| named == name && test.covers(asked))
            })
    }

    /// Whether no request can meet it: something that it asks for is what it excludes.
    #[must_use]
    pub fn contradicts_itself(&self) -> bool {
        let without_not = Self {
            not: Vec::new(),
            ..self.clone()
        };
        self.not.iter().any(|not| not.covers(&without_not))
    }
}

/// Whether every request that `these` are about is surely one that `those` are about. Empty: all.
#[must_use]
pub fn cover(those: &[When], these: &[When]) -> bool {
    those.is_empty()
        || (!these.is_empty()
            && these
                .iter()
                .all(|this| those.iter().any(|that| that.covers(this))))
}
