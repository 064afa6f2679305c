//! One limit and one request that its conditions hold for: what is asked, under which key.

use std::net::IpAddr;

use super::{
    Why, identity,
    index::Entry,
    matching::{self, Doubt},
};
use crate::{
    claim::Claim,
    policy::{
        Limit, Mode, Policy,
        cost::Cost,
        key::{Missing, Part, Source},
        limit::WHOLE,
        path::Pattern,
        terms::{Terms, Tier},
    },
    request::{Bytes, Request},
};

/// What one limit says of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Outcome<'a> {
    /// It is asked.
    Claim {
        /// What is asked.
        claim: Claim,
        /// The terms.
        tier: &'a Tier,
        /// Whose terms.
        chosen: Chosen<'a>,
    },
    /// The client's terms have no limit.
    Unlimited(Chosen<'a>),
    /// The request is refused without asking.
    Deny {
        /// Why.
        why: Why,
        /// Whether the refusal refuses.
        enforced: bool,
    },
    /// It exempts the request.
    Exempt,
    /// Another member of its group was taken before it.
    GroupTaken,
    /// A part of the key is absent, and the limit has `missing: skip`.
    KeyMissing,
}

/// Whose terms a client has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Chosen<'a> {
    /// The limit's own.
    Own,
    /// Those of this plan.
    Plan(&'a str),
    /// Those of this override, counted from 0.
    Override(usize),
}

/// The groups of which a member was taken.
#[derive(Clone, Copy, Debug, Default)]
pub struct Groups(u64);

impl Groups {
    fn taken(self, group: Option<u8>) -> bool {
        group.is_some_and(|group| self.0 & Self::bit(group) != 0)
    }

    fn take(&mut self, group: Option<u8>) {
        self.0 |= group.map_or(0, Self::bit);
    }

    fn bit(group: u8) -> u64 {
        1_u64.checked_shl(u32::from(group)).unwrap_or(0)
    }
}

/// Whether a way in which the limit may apply is one in which it does; the path pattern that matched,
/// if it names one.
pub fn way_holds<'a>(
    limit: &'a Limit,
    way: Entry,
    request: &Request<'a>,
) -> Option<Option<&'a Pattern>> {
    if limit.when.is_empty() {
        return Some(None);
    }
    let when = limit.when.get(way.alternative as usize)?;
    let pattern = match way.pattern {
        Some(pattern) => Some(when.paths.get(pattern as usize)?),
        None => None,
    };
    matching::rest_holds(when, request, Doubt::Meets).ok()?;
    if let Some(pattern) = pattern
        && !way.verified
        && !matching::pattern_holds(pattern, request, Doubt::Meets)
    {
        return None;
    }
    Some(pattern)
}

/// Applies a limit whose conditions hold. `matched` is the path pattern that did.
pub fn apply<'a>(
    policy: &'a Policy,
    index: usize,
    limit: &'a Limit,
    matched: Option<&'a Pattern>,
    request: &Request<'a>,
    groups: &mut Groups,
) -> Outcome<'a> {
    if groups.taken(limit.group) {
        return Outcome::GroupTaken;
    }
    if matching::any_holds(&limit.exempt, request, Doubt::Fails) {
        return Outcome::Exempt;
    }
    let client = Client {
        policy,
        matched,
        request,
    };
    let (terms, chosen) = client.terms(limit);
    let mut key = String::with_capacity(96);
    key.push_str(&policy.key_head);
    key.push('{');
    let start = key.len();
    let tag = client.write_tag(limit, &mut key);
    let enforced = limit.mode == Mode::Enforce
        && (limit.enforced_share >= WHOLE
            || identity::share(key.get(start..).unwrap_or_default(), &limit.name)
                < limit.enforced_share);
    let outcome = match (terms, tag) {
        (Terms::Deny, _) => Outcome::Deny {
            why: Why::TermsDeny,
            enforced,
        },
        (_, Tag::Deny) => Outcome::Deny {
            why: Why::KeyMissing,
            enforced,
        },
        (_, Tag::Skip) => return Outcome::KeyMissing,
        (Terms::Unlimited, Tag::Written) => Outcome::Unlimited(chosen),
        (Terms::Limited(tier), Tag::Written) => {
            key.push('}');
            key.push_str(&tier.tail);
            let cost = client.cost(limit);
            let claim = Claim {
                limit: index,
                key,
                algorithm: tier.algorithm,
                cost,
                enforced,
            };
            Outcome::Claim {
                claim,
                tier,
                chosen,
            }
        }
    };
    // A limit that refuses nothing leaves its group's place to one that does.
    if enforced {
        groups.take(limit.group);
    }
    outcome
}

/// Whether a key was made.
enum Tag {
    Written,
    Skip,
    Deny,
}

/// The value of one part, never empty.
enum Value<'r> {
    Absent,
    Address(IpAddr, u8),
    Bytes(Bytes),
    Text(&'r [u8]),
}

/// A request as one limit sees it.
struct Client<'r, 'a> {
    policy: &'a Policy,
    matched: Option<&'a Pattern>,
    request: &'r Request<'a>,
}

impl<'a> Client<'_, 'a> {
    /// The terms of the first override that matches, else of the plan, else the limit's own.
    fn terms(&self, limit: &'a Limit) -> (&'a Terms, Chosen<'a>) {
        let overrides =
            limit
                .overrides
                .by
                .iter()
                .filter_map(|by| match self.value(&by.part.source) {
                    Value::Absent => None,
                    Value::Address(address, _) => by.first_network(address),
                    Value::Bytes(bytes) => by.first(&bytes),
                    Value::Text(text) => by.first(text),
                });
        if let Some(first) = overrides.min()
            && let Some(terms) = limit.overrides.terms.get(first)
        {
            return (terms, Chosen::Override(first));
        }
        let plan = limit
            .plans
            .as_ref()
            .and_then(|plans| match self.value(&plans.by.source) {
                Value::Bytes(bytes) => plans.of(&bytes),
                Value::Text(text) => plans.of(text),
                Value::Address(..) | Value::Absent => None,
            });
        match plan {
            Some((name, terms)) => (terms, Chosen::Plan(name)),
            None => (&limit.terms, Chosen::Own),
        }
    }

    fn cost(&self, limit: &'a Limit) -> u64 {
        match &limit.cost {
            Cost::Fixed(cost) => *cost,
            Cost::Header { name, .. } => {
                let value = self.request.header(name);
                limit.cost.of(value.as_ref().map(|value| value.as_slice()))
            }
        }
    }

    fn write_tag(&self, limit: &'a Limit, out: &mut String) -> Tag {
        if limit.key.is_empty() {
            out.push_str(identity::EVERYONE);
            return Tag::Written;
        }
        let start = out.len();
        let absent = self.write_parts(&limit.key, out);
        if !absent {
            return Tag::Written;
        }
        match &limit.missing {
            Missing::Skip => Tag::Skip,
            Missing::Deny => Tag::Deny,
            Missing::Shared => Tag::Written,
            Missing::Key(parts) => {
                out.truncate(start);
                // The second key has no third: what it lacks is shared.
                self.write_parts(parts, out);
                Tag::Written
            }
        }
    }

    /// Writes the parts, absent ones marked. Whether one was absent.
    fn write_parts(&self, parts: &'a [Part], out: &mut String) -> bool {
        let mut absent = false;
        for (i, part) in parts.iter().enumerate() {
            if i > 0 {
                out.push(',');
            }
            let hasher = &self.policy.hasher;
            match self.value(&part.source) {
                Value::Address(address, bits) => {
                    identity::write_address(part, address, bits, hasher, out);
                }
                Value::Bytes(bytes) => identity::write_value(part, &bytes, hasher, out),
                Value::Text(text) => identity::write_value(part, text, hasher, out),
                Value::Absent => {
                    identity::write_absent(part, out);
                    absent = true;
                }
            }
        }
        absent
    }

    fn value(&self, source: &'a Source) -> Value<'_> {
        let request = self.request;
        let bytes = match source {
            Source::Ip { ipv6_prefix } => {
                let address = request.address();
                return address.map_or(Value::Absent, |ip| Value::Address(ip, *ipv6_prefix));
            }
            Source::Path => {
                let text = match self.matched {
                    Some(pattern) => Some(pattern.text.as_str()),
                    None => request.path().map(|path| path.text.as_str()),
                };
                return text.map_or(Value::Absent, |text| Value::Text(text.as_bytes()));
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
}
