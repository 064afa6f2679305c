//! Overrides: what single clients are admitted, by the value that identifies them.

use std::collections::BTreeMap;

use super::{
    field::Field,
    findings::Findings,
    key::{self, Context, Part, Source},
    network::Network,
    node::Node,
    terms::{Base, Terms},
    text::Glob,
};

/// Most overrides of a limit.
const MAX_OVERRIDES: usize = 10_000;

/// The fields of an override.
pub const FIELDS: &[&str] = &["match", "by", "rate", "burst"];

/// The overrides of a limit; of several that match, the first in the file counts.
#[derive(Clone, Debug, Default)]
pub struct Overrides {
    /// The overrides by the fact they look at.
    pub by: Vec<By>,
    /// The terms of each, in the file's order.
    pub terms: Vec<Terms>,
}

/// The overrides that look at one fact.
#[derive(Clone, Debug)]
pub struct By {
    /// The fact.
    pub part: Part,
    exact: BTreeMap<Vec<u8>, usize>,
    globs: Vec<(Glob, usize)>,
    networks: Vec<(Network, usize)>,
}

impl By {
    /// The first override that a value matches, as an index into the terms.
    #[must_use]
    pub fn first(&self, value: &[u8]) -> Option<usize> {
        let exact = self.exact.get(value).copied();
        let glob = self
            .globs
            .iter()
            .find(|(glob, _)| glob.matches(value))
            .map(|(_, i)| *i);
        exact.into_iter().chain(glob).min()
    }

    /// The first override that an address matches.
    #[must_use]
    pub fn first_network(&self, address: std::net::IpAddr) -> Option<usize> {
        self.networks
            .iter()
            .find(|(network, _)| network.contains(address))
            .map(|(_, i)| *i)
    }
}

/// Reads `overrides`. `key` is the limit's key.
pub fn read(
    field: &Field<'_>,
    base: &Base<'_>,
    key: &[Part],
    context: Context<'_>,
    findings: &mut Findings,
) -> Option<Overrides> {
    let fields = field.list(1..=MAX_OVERRIDES, findings)?;
    let mut overrides = Overrides::default();
    let mut whole = true;
    for field in &fields {
        whole &= read_one(field, base, key, context, &mut overrides, findings).is_some();
    }
    whole.then_some(overrides)
}

fn read_one(
    field: &Field<'_>,
    base: &Base<'_>,
    key: &[Part],
    context: Context<'_>,
    overrides: &mut Overrides,
    findings: &mut Findings,
) -> Option<()> {
    let table = field.table(FIELDS, findings)?;
    let part = match (table.get("by"), key) {
        (Some(field), _) => key::read_part(&field, context, findings),
        (None, [part]) => Some(part.clone()),
        (None, _) => {
            let accepted =
                "the part of the key that `match` is about; only a key of one part has a default";
            findings.error(&table.path.field("by"), "nothing", accepted);
            None
        }
    };
    let values = table
        .require("match", findings)
        .and_then(|field| field.some(findings));
    let terms = base.terms_beside(&table, findings);
    let (part, values, terms) = (part?, values?, terms?);
    let number = overrides.terms.len();
    overrides.terms.push(terms);
    let known = overrides
        .by
        .iter()
        .position(|by| by.part.source == part.source);
    let by = match known.and_then(|i| overrides.by.get_mut(i)) {
        Some(by) => by,
        None => {
            let by = By {
                part,
                exact: BTreeMap::new(),
                globs: Vec::new(),
                networks: Vec::new(),
            };
            overrides.by.push(by);
            overrides.by.last_mut()?
        }
    };
    let mut whole = Some(());
    for field in values {
        if by.insert(&field, number, findings).is_none() {
            whole = None;
        }
    }
    whole
}

impl By {
    fn insert(&mut self, field: &Field<'_>, number: usize, findings: &mut Findings) -> Option<()> {
        let text = match field.node {
            Node::Text(text) if !text.is_empty() => text.clone(),
            Node::Integer(number) => number.to_string(),
            _ => return field.refuse("a value, or a glob with * and ?", findings),
        };
        if matches!(self.part.source, Source::Ip { .. }) {
            let Some(network) = Network::parse(&text) else {
                return field.refuse("an address, or a network such as 10.0.0.0/8", findings);
            };
            self.networks.push((network, number));
        } else if let Some(glob) = Glob::new(&text) {
            self.globs.push((glob, number));
        } else {
            if self.exact.contains_key(text.as_bytes()) {
                findings.warning(
                    &field.path,
                    "an earlier override has this value; this one is never used",
                );
                return Some(());
            }
            self.exact.insert(text.into_bytes(), number);
        }
        Some(())
    }
}
