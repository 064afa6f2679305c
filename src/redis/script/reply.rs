//! What the script answers: readings, or why there are none.

use std::fmt;

use crate::{
    claim::Claim,
    redis::resp::Value,
    units::Micros,
    verdict::{Reading, Wait},
};

/// Why a reply is no verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Unreadable {
    /// Redis does not know the script: ask once more by its body.
    NoScript,
    /// Redis refused.
    Redis {
        /// The code, such as `OOM`, `READONLY`, `BUSY`, `LOADING`, `WRONGTYPE`, `NOPERM`, `MOVED`;
        /// `ERR` when there is none. `[A-Z]`, at most 16 characters.
        code: String,
        /// What Redis said, at most 256 bytes of it, printable.
        text: String,
    },
    /// Not what the script answers.
    Malformed {
        /// Index of the first number that is wrong; the length when there are too few.
        at: usize,
    },
}

impl fmt::Display for Unreadable {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::NoScript => f.write_str("Redis does not know the script"),
            Self::Redis { text, .. } => write!(f, "Redis refused: {text}"),
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
        Value::Error(text) => return Err(refused(text)),
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

/// What an error reply says.
fn refused(text: &[u8]) -> Unreadable {
    let text = String::from_utf8_lossy(text.get(..256).unwrap_or(text));
    let text: String = text
        .chars()
        .map(|c| if c.is_control() { ' ' } else { c })
        .collect();
    // Before version 7 an error inside a script comes wrapped: `ERR Error running script (call to
    // f_…): @user_script: 12: -OOM command not allowed …`.
    let inner = text
        .split_once("@user_script")
        .map_or(text.as_str(), |(_, inner)| inner);
    let words = || inner.split([' ', ':', '-']).filter(|word| !word.is_empty());
    let code = |word: &&str| {
        (3..=16).contains(&word.len()) && word.bytes().all(|byte| byte.is_ascii_uppercase())
    };
    let first = text
        .split(' ')
        .next()
        .filter(|word| *word != "ERR")
        .filter(code);
    match first.or_else(|| words().find(code)).unwrap_or("ERR") {
        "NOSCRIPT" => Unreadable::NoScript,
        code => Unreadable::Redis {
            code: code.to_owned(),
            text: text.clone(),
        },
    }
}
