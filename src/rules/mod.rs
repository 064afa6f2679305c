//! Which limits apply to a request, and the key, plan and cost of each.
//!
//! [`select`] is the whole of it: a policy and a request in, the claims out, in the policy's order. It
//! asks the host only for what the rules need, each fact once.

pub mod identity;

use std::net::IpAddr;

use crate::{
    claim::Claim,
    policy::{
        Limit, Mode, Policy,
        cost::Cost,
        key::{Missing, Part, Source},
        limit::WHOLE,
        terms::Terms,
    },
    request::{Bytes, Facts, Request},
};

/// What the policy says of a request, before anything is asked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Selection {
    /// No limit applies: it goes on.
    Nothing,
    /// These limits are to be asked, in the policy's order; at least one.
    Claims(Vec<Claim>),
    /// It is refused without asking.
    Deny {
        /// Index into the policy's `limits`.
        limit: usize,
        /// Why.
        why: Why,
    },
}

/// Why a request is refused without asking.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Why {
    /// A part of the key is absent, and the limit has `missing: deny`.
    KeyMissing,
    /// The client's plan or override is `deny`.
    PlanDenies,
}

/// Applies the policy to a request.
#[must_use]
pub fn select(policy: &Policy, facts: &dyn Facts) -> Selection {
    let request = Request::new(facts);
    let mut claims = Vec::new();
    for (index, limit) in policy.limits.iter().enumerate() {
        if limit.mode == Mode::Off {
            continue;
        }
        match consider(policy, index, limit, &request) {
            Outcome::Passed => {}
            Outcome::Claim(claim) => claims.push(claim),
            Outcome::Deny(why) if limit.mode == Mode::Enforce => {
                return Selection::Deny { limit: index, why };
            }
            Outcome::Deny(_) => {}
        }
    }
    if claims.is_empty() {
        Selection::Nothing
    } else {
        Selection::Claims(claims)
    }
}

/// What one limit says of a request.
enum Outcome {
    Passed,
    Claim(Claim),
    Deny(Why),
}

fn consider<'a>(
    policy: &'a Policy,
    index: usize,
    limit: &'a Limit,
    request: &Request<'a>,
) -> Outcome {
    let tier = match &limit.terms {
        Terms::Limited(tier) => tier,
        Terms::Unlimited => return Outcome::Passed,
        Terms::Deny => return Outcome::Deny(Why::PlanDenies),
    };
    let mut key = String::with_capacity(96);
    key.push_str(&policy.key_head);
    key.push('{');
    let start = key.len();
    match write_tag(policy, limit, request, &mut key) {
        Tag::Written => {}
        Tag::Skip => return Outcome::Passed,
        Tag::Deny => return Outcome::Deny(Why::KeyMissing),
    }
    let enforced = limit.mode == Mode::Enforce
        && (limit.enforced_share >= WHOLE
            || identity::share(key.get(start..).unwrap_or_default(), &limit.name)
                < limit.enforced_share);
    key.push('}');
    key.push_str(&tier.tail);
    let cost = match &limit.cost {
        Cost::Fixed(cost) => *cost,
        Cost::Header { name, .. } => limit
            .cost
            .of(request.header(name).as_ref().map(|value| value.as_slice())),
    };
    Outcome::Claim(Claim {
        limit: index,
        key,
        algorithm: tier.algorithm,
        cost,
        enforced,
    })
}

enum Tag {
    Written,
    Skip,
    Deny,
}

fn write_tag<'a>(
    policy: &'a Policy,
    limit: &'a Limit,
    request: &Request<'a>,
    out: &mut String,
) -> Tag {
    if limit.key.is_empty() {
        out.push_str(identity::EVERYONE);
        return Tag::Written;
    }
    let start = out.len();
    if write_parts(policy, &limit.key, request, false, out) {
        return Tag::Written;
    }
    out.truncate(start);
    match &limit.missing {
        Missing::Skip => return Tag::Skip,
        Missing::Deny => return Tag::Deny,
        Missing::Shared => write_parts(policy, &limit.key, request, true, out),
        // The second key has no third: what it lacks is shared.
        Missing::Key(parts) => write_parts(policy, parts, request, true, out),
    };
    Tag::Written
}

/// Writes the parts; an absent one is marked when `share_absent`, else ends it with `false`.
fn write_parts<'a>(
    policy: &'a Policy,
    parts: &'a [Part],
    request: &Request<'a>,
    share_absent: bool,
    out: &mut String,
) -> bool {
    for (i, part) in parts.iter().enumerate() {
        if i > 0 {
            out.push(',');
        }
        match value(&part.source, request) {
            Value::Address(address, bits) => {
                identity::write_address(part, address, bits, &policy.hasher, out);
            }
            Value::Bytes(bytes) => identity::write_value(part, &bytes, &policy.hasher, out),
            Value::Text(text) => identity::write_value(part, text, &policy.hasher, out),
            Value::Absent if share_absent => identity::write_absent(part, out),
            Value::Absent => return false,
        }
    }
    true
}

/// The value of one part, never empty.
enum Value<'r> {
    Absent,
    Address(IpAddr, u8),
    Bytes(Bytes),
    Text(&'r [u8]),
}

fn value<'r, 'a: 'r>(source: &'a Source, request: &'r Request<'a>) -> Value<'r> {
    let bytes = match source {
        Source::Ip { ipv6_prefix } => {
            return request
                .address()
                .map_or(Value::Absent, |ip| Value::Address(ip, *ipv6_prefix));
        }
        Source::Path => {
            return request
                .path()
                .map_or(Value::Absent, |path| Value::Text(path.text.as_bytes()));
        }
        Source::Method => request.method().cloned(),
        Source::Host => request.host().cloned(),
        Source::Header(name) => request.header(name),
        Source::Cookie(name) => request.cookie(name).map(Bytes::new),
        Source::Query(name) => request.query(name).map(Bytes::new),
        Source::Route => request.attribute(&["xds", "route_name"]),
        Source::Peer => request.attribute(&["connection", "uri_san_peer_certificate"]),
        Source::Claim { path, .. } | Source::Property(path) => request.property(path),
    };
    match bytes {
        Some(bytes) if !bytes.is_empty() => Value::Bytes(bytes),
        _ => Value::Absent,
    }
}
