//! How many units a request takes.

use super::{field::Field, findings::Findings, node::Node};
use crate::algorithm::{Kind, MAX_COST, MAX_LOG_COST};

/// The fields of a cost that the request names.
pub const FIELDS: &[&str] = &["header", "default", "min", "max"];

/// How many units a request takes.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Cost {
    /// Always this many, at least 1.
    Fixed(u64),
    /// What a header says.
    Header {
        /// The header's lower-case name.
        name: String,
        /// Without the header, or when it is not a whole number.
        default: u64,
        /// Less than this counts as this.
        min: u64,
        /// More than this counts as this.
        max: u64,
    },
}

impl Cost {
    /// Units for a request whose header has this value. Only decimal digits are a number: a sign, a
    /// fraction or a list gives the default, so that no client can pay less than nothing.
    #[must_use]
    pub fn of(&self, value: Option<&[u8]>) -> u64 {
        match self {
            Self::Fixed(cost) => *cost,
            Self::Header {
                default, min, max, ..
            } => {
                let digits = value.unwrap_or_default().trim_ascii();
                if digits.is_empty() || !digits.iter().all(u8::is_ascii_digit) {
                    return *default;
                }
                let number = digits.iter().fold(0_u64, |sum, digit| {
                    sum.saturating_mul(10)
                        .saturating_add(u64::from(digit.saturating_sub(b'0')))
                });
                number.clamp(*min, (*max).max(*min))
            }
        }
    }
}

/// Reads `cost`; 1 when it is left out.
pub fn read(field: Option<Field<'_>>, kind: Option<Kind>, findings: &mut Findings) -> Cost {
    let most = match kind {
        Some(Kind::SlidingLog | Kind::Concurrency) => MAX_LOG_COST,
        _ => MAX_COST,
    };
    let cost = field.and_then(|field| match field.node {
        Node::Table(_) => read_header(&field, most, findings),
        Node::Integer(cost) if (1..=most).contains(&cost.unsigned_abs()) && *cost > 0 => {
            Some(Cost::Fixed(cost.unsigned_abs()))
        }
        _ => {
            let accepted = format!("a whole number, 1 to {most}, or {{header, default, min, max}}");
            field.refuse(&accepted, findings)
        }
    });
    cost.unwrap_or(Cost::Fixed(1))
}

fn read_header(field: &Field<'_>, most: u64, findings: &mut Findings) -> Option<Cost> {
    let table = field.table(FIELDS, findings)?;
    let number = |name: &str, findings: &mut Findings| {
        table
            .get(name)
            .map_or(Some(1), |field| field.integer(0..=most, findings))
    };
    let default = number("default", findings);
    let min = number("min", findings);
    let max = table
        .require("max", findings)
        .and_then(|field| field.integer(1..=most, findings));
    let name = table.require("header", findings).and_then(|field| {
        let name = super::key::header_name(field.text(findings)?);
        name.or_else(|| field.refuse("a header's name", findings))
    });
    let (default, min, max) = (default?, min?, max?);
    for (name, value) in [("default", default), ("min", min)] {
        if value > max {
            let accepted = format!("at most max, which is {max}");
            findings.error(&table.path.field(name), value.to_string(), accepted);
        }
    }
    Some(Cost::Header {
        name: name?,
        default,
        min,
        max,
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b37_no_client_pays_less_than_the_policy_says() {
        let cost = Cost::Header {
            name: "x-cost".to_owned(),
            default: 3,
            min: 1,
            max: 100,
        };
        for (value, units) in [
            (Some("11"), 11),
            (Some(" 10 "), 10),
            (Some("0"), 1),
            (Some("-5"), 3),
            (Some("+5"), 3),
            (Some("1.5"), 3),
            (Some("1e9"), 3),
            (Some("9223372036854775808"), 100),
            (Some("99999999999999999999999999"), 100),
            (Some("abc"), 3),
            (Some(""), 3),
            (Some("5,5"), 3),
            (None, 3),
        ] {
            assert_eq!(cost.of(value.map(str::as_bytes)), units, "{value:?}");
        }
    }
}
