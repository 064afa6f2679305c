//! What a client is admitted: a rate with its algorithm, everything, or nothing.

use std::fmt;

use super::{
    field::{Field, Table},
    findings::{Findings, Path},
    node::Node,
    rate::{self, Rate},
};
use crate::{
    algorithm::{Algorithm, Align, Kind, MAX_COUNT, MAX_LEASE, MIN_LEASE, Parameters, Window},
    units::Micros,
};

/// What a client is admitted.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Terms {
    /// As much as the algorithm says.
    Limited(Tier),
    /// Everything: the limit is not asked.
    Unlimited,
    /// Nothing: the request is refused and nothing is asked.
    Deny,
}

/// One algorithm with its numbers, and the end of the keys of its state.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Tier {
    /// The algorithm.
    pub algorithm: Algorithm,
    /// `:NAME:ALGORITHM`, what follows the tag in the key.
    pub tail: String,
    /// The rate as written.
    pub rate: Rate,
    /// The burst as written.
    pub burst: Option<u64>,
}

impl fmt::Display for Tier {
    /// `gcra 100/1m, burst 20`
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{} {}", self.algorithm.kind().name(), self.rate.count)?;
        match self.rate.window {
            Some(Window::Span(span)) => write!(f, "/{span}")?,
            Some(Window::Month) => f.write_str("/month")?,
            None => f.write_str(" in flight")?,
        }
        match self.burst {
            Some(burst) => write!(f, ", burst {burst}"),
            None => Ok(()),
        }
    }
}

/// What a limit says for all its clients, and under which plans and overrides say their own.
#[derive(Clone, Debug)]
pub struct Base<'a> {
    name: &'a str,
    kind: Kind,
    burst: Option<u64>,
    align: Option<Align>,
    lease: Option<Micros>,
    limit: Path,
}

/// The fields of terms that are written as a table.
pub const FIELDS: &[&str] = &["rate", "burst"];

impl<'a> Base<'a> {
    /// Reads `burst`, `align` and `lease` of a limit.
    pub fn read(
        table: &Table<'_>,
        name: &'a str,
        kind: Kind,
        findings: &mut Findings,
    ) -> Option<Self> {
        let burst = optional(table, "burst", findings, read_burst);
        let align = optional(table, "align", findings, read_align);
        let lease = optional(table, "lease", findings, |field, findings| {
            field.span(MIN_LEASE..=MAX_LEASE, findings)
        });
        Some(Self {
            name,
            kind,
            burst: burst?,
            align: align?,
            lease: lease?,
            limit: table.path.clone(),
        })
    }

    /// Reads the terms of the limit itself or of an override: `rate`, beside its own `burst`.
    pub fn terms_beside(&self, table: &Table<'_>, findings: &mut Findings) -> Option<Terms> {
        let burst = optional(table, "burst", findings, read_burst)?;
        let own = burst.map(|burst| (burst, table.path.field("burst")));
        self.terms(&table.require("rate", findings)?, own, findings)
    }

    /// Reads the terms of a plan: a rate, or a table of a rate and a burst.
    pub fn plan_terms(&self, field: &Field<'_>, findings: &mut Findings) -> Option<Terms> {
        match field.node {
            Node::Table(_) => self.terms_beside(&field.table(FIELDS, findings)?, findings),
            _ => self.terms(field, None, findings),
        }
    }

    /// `field` holds the rate; `own` is a burst that stands beside it, and where.
    fn terms(
        &self,
        field: &Field<'_>,
        own: Option<(u64, Path)>,
        findings: &mut Findings,
    ) -> Option<Terms> {
        match field.node {
            Node::Text(text) if text == "unlimited" => return Some(Terms::Unlimited),
            Node::Text(text) if text == "deny" => return Some(Terms::Deny),
            _ => {}
        }
        let rate = read_rate(field, self.kind, findings)?;
        let (burst, burst_path) = match own {
            Some((burst, path)) => (Some(burst), path),
            None => (self.burst, self.limit.field("burst")),
        };
        let parameters = Parameters {
            kind: self.kind,
            count: rate.count,
            window: rate.window,
            burst,
            align: self.align,
            lease: self.lease,
        };
        match Algorithm::new(parameters) {
            Ok(algorithm) => {
                let tail = format!(":{}:{}", self.name, algorithm.key_part());
                Some(Terms::Limited(Tier {
                    algorithm,
                    tail,
                    rate,
                    burst,
                }))
            }
            Err(bad) => {
                let path = match bad.field {
                    "rate" => field.path.clone(),
                    "burst" => burst_path,
                    other => self.limit.field(other),
                };
                findings.error(&path, bad.found, bad.accepted);
                None
            }
        }
    }
}

fn read_burst(field: &Field<'_>, findings: &mut Findings) -> Option<u64> {
    field.integer(1..=MAX_COUNT, findings)
}

/// Reads a rate and judges its shape by the algorithm.
fn read_rate(field: &Field<'_>, kind: Kind, findings: &mut Findings) -> Option<Rate> {
    let rate = match field.node {
        Node::Text(text) => rate::rate(text),
        Node::Integer(count) => u64::try_from(*count).ok().map(|count| Rate {
            count,
            window: None,
        }),
        _ => None,
    };
    let in_flight = kind == Kind::Concurrency;
    match rate.filter(|rate| rate.window.is_none() == in_flight) {
        Some(rate) => Some(rate),
        None if in_flight => field.refuse(rate::ACCEPTED_IN_FLIGHT, findings),
        None => field.refuse(rate::ACCEPTED, findings),
    }
}

/// Reads `align`: how the windows of `fixed-window` are laid.
fn read_align(field: &Field<'_>, findings: &mut Findings) -> Option<Align> {
    let text = match field.node {
        Node::Text(text) => text.as_str(),
        _ => "",
    };
    let align = match text {
        "first-hit" => Some(Align::FirstHit),
        _ => text.strip_prefix("utc").and_then(offset).map(Align::Clock),
    };
    align.or_else(|| {
        field.refuse(
            "first-hit, utc, or utc with an offset such as utc+2 or utc-03:30",
            findings,
        )
    })
}

/// Minutes east of Greenwich, `-14:00` to `+14:00`; nothing is no offset.
fn offset(text: &str) -> Option<i16> {
    if text.is_empty() {
        return Some(0);
    }
    let sign = match text.get(..1)? {
        "+" => 1,
        "-" => -1,
        _ => return None,
    };
    let (hours, minutes) = text
        .get(1..)?
        .split_once(':')
        .unwrap_or((text.get(1..)?, "00"));
    if hours.len() > 2 || minutes.len() != 2 {
        return None;
    }
    let (hours, minutes) = (rate::integer(hours)?, rate::integer(minutes)?);
    let total = hours
        .checked_mul(60)?
        .checked_add(minutes)
        .filter(|total| *total <= 14 * 60)?;
    (minutes < 60).then(|| i16::try_from(total).ok()?.checked_mul(sign))?
}

/// `Some(None)` when the field was left out, `None` when it was refused.
fn optional<'a, T>(
    table: &Table<'a>,
    name: &str,
    findings: &mut Findings,
    read: impl Fn(&Field<'a>, &mut Findings) -> Option<T>,
) -> Option<Option<T>> {
    match table.get(name) {
        None => Some(None),
        Some(field) => read(&field, findings).map(Some),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn offsets_are_minutes_east() {
        for (text, minutes) in [
            ("", Some(0)),
            ("+2", Some(120)),
            ("-03:30", Some(-210)),
            ("+14:00", Some(840)),
            ("+14:01", None),
            ("+1:60", None),
            ("2", None),
            ("+", None),
            ("+é", None),
        ] {
            assert_eq!(offset(text), minutes, "{text}");
        }
    }
}
