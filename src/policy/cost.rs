//! How many units a request takes.

use super::{field::Field, findings::Findings};

/// The fields of a cost that the request names.
pub const FIELDS: &[&str] = &["header", "default", "min", "max"];

/// Most units one request can take.
pub const MOST: u64 = 1_000_000_000;

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
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Cost {
    use super::node::Node;
    let Some(field) = field else {
        return Cost::Fixed(1);
    };
    if !matches!(field.node, Node::Table(_)) {
        let accepted = format!("a whole number, 1 to {MOST}, or {{header, default, min, max}}");
        return match field.node {
            Node::Integer(cost) => match u64::try_from(*cost) {
                Ok(cost @ 1..=MOST) => Cost::Fixed(cost),
                _ => field.refuse(&accepted, findings).unwrap_or(Cost::Fixed(1)),
            },
            _ => field.refuse(&accepted, findings).unwrap_or(Cost::Fixed(1)),
        };
    }
    read_header(&field, findings).unwrap_or(Cost::Fixed(1))
}

fn read_header(field: &Field<'_>, findings: &mut Findings) -> Option<Cost> {
    let table = field.table(FIELDS, findings)?;
    let name = table.require("header", findings);
    let number = |name: &str, least: u64, findings: &mut Findings| {
        table
            .get(name)
            .map(|field| field.integer(least..=MOST, findings))
    };
    let default = number("default", 0, findings).unwrap_or(Some(1));
    let min = number("min", 0, findings).unwrap_or(Some(1));
    let max = table
        .require("max", findings)
        .and_then(|field| field.integer(1..=MOST, findings));
    let name = name.and_then(|field| {
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
