//! Whether conditions hold for a request.
//!
//! Where a condition applies a limit, a doubtful request meets it; where it lifts one (in `exempt`, in
//! `not`), a doubtful request does not. Doubtful are: a path that is not written in its normal form, a
//! method in small letters, a value that is too long for a regular expression.

use crate::{
    policy::{
        path::Pattern,
        when::{Known, Named, When},
    },
    request::Request,
};

/// The condition that did not hold.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unmet<'a> {
    /// No path pattern matches.
    Path,
    /// It is none of the methods.
    Method,
    /// It is none of the hosts.
    Host,
    /// The client is in none of the networks.
    Client,
    /// A named value is not what it should be.
    Value(&'a Named),
    /// It is none of the known kinds of request.
    Kind,
    /// It is excluded by `not`.
    Not,
}

/// Whether a doubtful request meets a condition.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Doubt {
    /// It does: the condition applies a limit.
    Meets,
    /// It does not: the condition lifts a limit.
    Fails,
}

impl Doubt {
    const fn turned(self) -> Self {
        match self {
            Self::Meets => Self::Fails,
            Self::Fails => Self::Meets,
        }
    }
}

/// Whether one of the alternatives holds.
pub fn any_holds<'a>(alternatives: &'a [When], request: &Request<'a>, doubt: Doubt) -> bool {
    alternatives.iter().any(|when| {
        rest_holds(when, request, doubt).is_ok() && path_holds(when, request, doubt).is_ok()
    })
}

/// The pattern that the path matches, if the conditions name paths.
pub fn path_holds<'a>(
    when: &'a When,
    request: &Request<'a>,
    doubt: Doubt,
) -> Result<Option<&'a Pattern>, Unmet<'a>> {
    if when.paths.is_empty() {
        return Ok(None);
    }
    let pattern = when
        .paths
        .iter()
        .find(|pattern| pattern_holds(pattern, request, doubt));
    pattern.map(Some).ok_or(Unmet::Path)
}

/// Whether the path matches the pattern.
pub fn pattern_holds<'a>(pattern: &Pattern, request: &Request<'a>, doubt: Doubt) -> bool {
    let Some(path) = request.path() else {
        return false;
    };
    let long_matches = doubt == Doubt::Meets;
    (path.plain || doubt == Doubt::Meets) && pattern.matches(&path.text, long_matches)
}

/// Whether all conditions but those about the path hold.
pub fn rest_holds<'a>(
    when: &'a When,
    request: &Request<'a>,
    doubt: Doubt,
) -> Result<(), Unmet<'a>> {
    let met = |holds: bool, unmet: Unmet<'a>| if holds { Ok(()) } else { Err(unmet) };
    met(
        when.methods.is_empty() || method_holds(&when.methods, request, doubt),
        Unmet::Method,
    )?;
    met(
        when.hosts.is_empty() || host_holds(when, request),
        Unmet::Host,
    )?;
    met(
        when.clients.is_empty() || client_holds(when, request),
        Unmet::Client,
    )?;
    met(
        when.kinds.is_empty() || when.kinds.iter().any(|kind| is(*kind, request)),
        Unmet::Kind,
    )?;
    for (named, test) in &when.values {
        let long_matches = doubt == Doubt::Meets;
        let holds = match named {
            Named::Header(name) => {
                let value = request.header(name);
                test.passes(value.as_ref().map(|value| value.as_slice()), long_matches)
            }
            Named::Property(_, path) => {
                let value = request.property(path);
                test.passes(value.as_ref().map(|value| value.as_slice()), long_matches)
            }
            Named::Query(name) => test.passes(request.query(name).as_deref(), long_matches),
            Named::Cookie(name) => test.passes(request.cookie(name).as_deref(), long_matches),
        };
        met(holds, Unmet::Value(named))?;
    }
    met(
        when.not.is_empty() || !any_holds(&when.not, request, doubt.turned()),
        Unmet::Not,
    )
}

fn method_holds(methods: &[String], request: &Request<'_>, doubt: Doubt) -> bool {
    let Some(found) = request.method() else {
        return false;
    };
    methods.iter().any(|method| match doubt {
        Doubt::Meets => found.eq_ignore_ascii_case(method.as_bytes()),
        Doubt::Fails => found.as_slice() == method.as_bytes(),
    })
}

fn host_holds(when: &When, request: &Request<'_>) -> bool {
    request
        .host()
        .is_some_and(|host| when.hosts.iter().any(|pattern| pattern.matches(host)))
}

fn client_holds(when: &When, request: &Request<'_>) -> bool {
    request
        .address()
        .is_some_and(|address| when.clients.iter().any(|network| network.contains(address)))
}

/// Paths that probes ask for.
const HEALTH_PATHS: [&[u8]; 8] = [
    b"/health",
    b"/healthz",
    b"/live",
    b"/livez",
    b"/ready",
    b"/readyz",
    b"/startupz",
    b"/healthz/ready",
];
const GRPC_HEALTH_PATHS: [&[u8]; 2] = [
    b"/grpc.health.v1.Health/Check",
    b"/grpc.health.v1.Health/Watch",
];

fn is(kind: Known, request: &Request<'_>) -> bool {
    let Some(method) = request.method() else {
        return false;
    };
    match (kind, method.as_slice()) {
        (Known::HealthCheck, b"GET" | b"HEAD") => raw_path_is(&HEALTH_PATHS, request),
        (Known::HealthCheck, b"POST") => raw_path_is(&GRPC_HEALTH_PATHS, request),
        (Known::CorsPreflight, b"OPTIONS") => {
            let present = |name| request.header(name).is_some_and(|value| !value.is_empty());
            present("origin") && present("access-control-request-method")
        }
        _ => false,
    }
}

fn raw_path_is(paths: &[&[u8]], request: &Request<'_>) -> bool {
    request
        .raw_path()
        .is_some_and(|path| paths.contains(&path.as_slice()))
}
