//! What the script answers: readings, or why there are none.

use std::fmt;

use crate::{
    claim::Claim,
    redis::{error::ErrorKind, resp::Value},
    units::Micros,
    verdict::{Reading, Wait},
};

/// Why a reply is no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// Redis refused. [`ErrorKind::NoScript`]: ask once more by the script's body.
    Redis(ErrorKind),
    /// Not what the script answers.
    Malformed {
        /// Index of the first number that is wrong; the length when there are too few.
        at: usize,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Redis(kind) => write!(f, "Redis refused: {}", kind.label()),
            Self::Malformed { at } => write!(f, "not a decision: number {at} is wrong"),
        }
    }
}

impl std::error::Error for Unreadable {}

/// Reads the reply to a call with these claims: one reading a claim, in their order. Integers may
/// come as such or, from gateways, as decimal text.
///
/// # Errors
/// When Redis answered an error, or something that the script cannot have said of these claims.
pub fn read<'a, C>(reply: &Value, claims: C) -> Result<Vec<Reading>, Unreadable>
where
    C: IntoIterator<Item = &'a Claim>,
{
    let items = match reply {
        Value::Array(items) => items.as_slice(),
        Value::Error(text) => return Err(Unreadable::Redis(ErrorKind::of(text))),
        _ => return Err(Unreadable::Malformed { at: 0 }),
    };
    let mut numbers = Numbers { items, at: 0 };
    let readings = claims
        .into_iter()
        .map(|claim| {
            let admitted = numbers.next(|n| n <= 1)? == 1;
            let remaining = numbers.next(|n| n <= claim.algorithm.quota())?;
            let longest = claim.algorithm.longest_ttl_ms().saturating_mul(1_000);
            let wait = numbers.wait(admitted, longest)?;
            let reset = Micros(numbers.next(|n| n <= longest)?);
            Ok(Reading {
                admitted,
                remaining,
                wait,
                reset,
            })
        })
        .collect::<Result<Vec<_>, Unreadable>>()?;
    if numbers.at < items.len() || readings.is_empty() {
        return Err(Unreadable::Malformed { at: numbers.at });
    }
    Ok(readings)
}

struct Numbers<'a> {
    items: &'a [Value],
    at: usize,
}

impl Numbers<'_> {
    fn integer(&mut self) -> Result<i64, Unreadable> {
        let n = match self.items.get(self.at) {
            Some(Value::Integer(n)) => Some(*n),
            Some(Value::Bulk(text)) => std::str::from_utf8(text).ok().and_then(|t| t.parse().ok()),
            _ => None,
        };
        let n = n.ok_or(Unreadable::Malformed { at: self.at })?;
        self.at = self.at.saturating_add(1);
        Ok(n)
    }

    /// The next number when it is not negative and accepted.
    fn next(&mut self, accepted: impl Fn(u64) -> bool) -> Result<u64, Unreadable> {
        let at = self.at;
        let n = u64::try_from(self.integer()?).ok().filter(|&n| accepted(n));
        n.ok_or(Unreadable::Malformed { at })
    }

    /// Zero exactly when admitted.
    fn wait(&mut self, admitted: bool, longest: u64) -> Result<Wait, Unreadable> {
        let at = self.at;
        match (self.integer()?, admitted) {
            (-1, false) => Ok(Wait::Never),
            (0, true) => Ok(Wait::For(Micros::ZERO)),
            (n, false) if n > 0 && n.unsigned_abs() <= longest => {
                Ok(Wait::For(Micros(n.unsigned_abs())))
            }
            _ => Err(Unreadable::Malformed { at }),
        }
    }
}
