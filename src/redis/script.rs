//! The decision script: its text and name, the call that asks it, and what it answers.
//!
//! One call takes every claim of a request, all or nothing. The same call is written as a RESP
//! command straight into a buffer, or collected as a list of words for a gateway, see [`Words`].

use std::fmt;

use super::{resp::Value, sha1::sha1};
use crate::{
    claim::Claim,
    units::Micros,
    verdict::{Reading, Wait},
};

/// A script that decides: its text, and the name Redis gives it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Script {
    body: &'static str,
    sha1: [u8; 40],
}

/// What follows the clock. Each file is a block of its own; the conditions that join them are here.
macro_rules! body {
    ($clock:literal) => {
        concat!(
            include_str!($clock),
            include_str!("../lua/decide.lua"),
            "for i = 1, #KEYS do\n",
            include_str!("../lua/claim.lua"),
            "if code <= 2 then\n",
            include_str!("../lua/sliding_log.lua"),
            "elseif code == 3 then\n",
            include_str!("../lua/sliding_window.lua"),
            "elseif code <= 6 then\n",
            include_str!("../lua/fixed_window.lua"),
            "elseif code == 7 then\n",
            include_str!("../lua/token_bucket.lua"),
            "else\n",
            include_str!("../lua/gcra.lua"),
            "end\n",
            include_str!("../lua/judge.lua"),
            "end\n",
            include_str!("../lua/take.lua"),
        )
    };
}

impl Script {
    /// The script that runs in production, by Redis's clock.
    #[must_use]
    pub const fn production() -> Self {
        const BODY: &str = body!("../lua/clock.lua");
        const SHA1: [u8; 40] = sha1(BODY.as_bytes());
        Self {
            body: BODY,
            sha1: SHA1,
        }
    }

    /// The same script in virtual time, for tests against a real Redis; see `lua/clock_test.lua`.
    #[must_use]
    pub const fn virtual_time() -> Self {
        const BODY: &str = body!("../lua/clock_test.lua");
        const SHA1: [u8; 40] = sha1(BODY.as_bytes());
        Self {
            body: BODY,
            sha1: SHA1,
        }
    }

    /// The text, for EVAL.
    #[must_use]
    pub const fn body(&self) -> &'static str {
        self.body
    }

    /// The name, for EVALSHA: lower-case hexadecimal.
    #[must_use]
    pub fn sha1(&self) -> &str {
        std::str::from_utf8(&self.sha1).unwrap_or_default()
    }
}

/// The name of one request among all others: 16 characters of `[A-Za-z0-9_-]`.
#[derive(Clone, Copy, PartialEq, Eq, Hash)]
pub struct Member([u8; 16]);

impl Member {
    /// From good randomness. 96 of its bits are used: that two of a thousand million requests
    /// share a name is less likely than one in a thousand million.
    #[must_use]
    pub fn new(random: [u8; 16]) -> Self {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        Self(random.map(|byte| DIGITS.get(usize::from(byte & 63)).copied().unwrap_or(b'A')))
    }

    /// Another name, made from this one.
    #[must_use]
    pub fn other(self) -> Self {
        let Self(mut name) = self;
        name.reverse();
        if name == self.0 {
            name = [b'-'; 16];
        }
        Self(name)
    }

    /// The name as text.
    #[must_use]
    pub fn as_str(&self) -> &str {
        std::str::from_utf8(&self.0).unwrap_or_default()
    }
}

impl fmt::Debug for Member {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(self.as_str())
    }
}

/// Where a call's words go: a RESP command, or a list.
pub trait Words {
    /// A call of so many words follows.
    fn begin(&mut self, words: usize);

    /// The next word.
    fn word(&mut self, word: &[u8]);

    /// The next word, a number in decimal.
    fn number(&mut self, n: i64) {
        let mut digits = Decimal::new();
        self.word(digits.of(n));
    }
}

/// Writes calls as RESP commands, one after the other.
#[derive(Debug)]
pub struct Commands<'a>(pub &'a mut Vec<u8>);

impl Words for Commands<'_> {
    fn begin(&mut self, words: usize) {
        self.head(b'*', words);
    }

    fn word(&mut self, word: &[u8]) {
        self.head(b'$', word.len());
        self.0.extend_from_slice(word);
        self.0.extend_from_slice(b"\r\n");
    }
}

impl Commands<'_> {
    fn head(&mut self, kind: u8, n: usize) {
        self.0.push(kind);
        let n = i64::try_from(n).unwrap_or(i64::MAX);
        self.0.extend_from_slice(Decimal::new().of(n));
        self.0.extend_from_slice(b"\r\n");
    }
}

/// Collects a call as a list of words. All of them are printable ASCII, but for the script's text.
impl Words for Vec<Vec<u8>> {
    fn begin(&mut self, words: usize) {
        self.reserve(words);
    }

    fn word(&mut self, word: &[u8]) {
        self.push(word.to_vec());
    }
}

/// What a call does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mode {
    /// Decides, and takes when all enforced claims admit.
    Take,
    /// Gives back what a take of the same claims and member took. Of `sliding-log` and
    /// `concurrency` once, however often it is sent; of the others each time, down to nothing used.
    /// Never creates a key. What was taken in a window that has ended since is given back to the
    /// window that runs now.
    Give,
}

/// How the script is named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum By {
    /// EVALSHA: short; Redis may answer NOSCRIPT.
    Sha,
    /// EVAL: with the whole text; Redis keeps it, so that its name works from then on.
    Body,
}

/// One call of the script.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Call {
    /// What it does.
    pub mode: Mode,
    /// How the script is named.
    pub by: By,
}

impl Call {
    /// Writes the call of the production script. The claims' keys must be different; there must be
    /// at least one.
    pub fn write<'a, C>(self, claims: C, member: Member, out: &mut impl Words)
    where
        C: IntoIterator<Item = &'a Claim, IntoIter: Clone>,
    {
        self.write_of(&Script::production(), claims, member, &[], out);
    }

    /// Writes the call of any script, with words of its own at the end.
    pub fn write_of<'a, C>(
        self,
        script: &Script,
        claims: C,
        member: Member,
        extra: &[i64],
        out: &mut impl Words,
    ) where
        C: IntoIterator<Item = &'a Claim, IntoIter: Clone>,
    {
        let claims = claims.into_iter();
        let (mut keys, mut words) = (0_usize, 5_usize.saturating_add(extra.len()));
        for claim in claims.clone() {
            let numbers = claim.algorithm.arguments().1.iter().flatten().count();
            keys = keys.saturating_add(1);
            words = words.saturating_add(3).saturating_add(numbers);
        }
        out.begin(words);
        match self.by {
            By::Sha => {
                out.word(b"EVALSHA");
                out.word(&script.sha1);
            }
            By::Body => {
                out.word(b"EVAL");
                out.word(script.body.as_bytes());
            }
        }
        out.number(i64::try_from(keys).unwrap_or(i64::MAX));
        claims
            .clone()
            .for_each(|claim| out.word(claim.key.as_bytes()));
        out.word(match self.mode {
            Mode::Take => b"take",
            Mode::Give => b"give",
        });
        out.word(&member.0);
        for claim in claims {
            let (code, numbers) = claim.algorithm.arguments();
            out.number(if claim.enforced {
                code
            } else {
                code.saturating_neg()
            });
            out.number(i64::try_from(claim.cost).unwrap_or(i64::MAX));
            numbers.into_iter().flatten().for_each(|n| out.number(n));
        }
        extra.iter().for_each(|&n| out.number(n));
    }
}

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

/// A number in decimal, without an allocation.
struct Decimal([u8; 20]);

impl Decimal {
    const fn new() -> Self {
        Self([0; 20])
    }

    fn of(&mut self, n: i64) -> &[u8] {
        let mut rest = n.unsigned_abs();
        let mut start = self.0.len();
        for place in self.0.iter_mut().rev() {
            let (tens, digit) = (rest.checked_div(10), rest.checked_rem(10));
            *place = b'0'.saturating_add(u8::try_from(digit.unwrap_or(0)).unwrap_or(0));
            start = start.saturating_sub(1);
            rest = tens.unwrap_or(0);
            if rest == 0 {
                break;
            }
        }
        if n < 0 {
            start = start.saturating_sub(1);
            if let Some(sign) = self.0.get_mut(start) {
                *sign = b'-';
            }
        }
        self.0.get(start..).unwrap_or_default()
    }
}
