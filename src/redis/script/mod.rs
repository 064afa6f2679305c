//! The decision script: its text and name, the call that asks it, and what it answers.
//!
//! One call takes every claim of a request, all or nothing. The same call is written as a RESP
//! command straight into a buffer, or collected as a list of words for a gateway, see [`Words`].

mod reply;
mod words;

pub use reply::{Unreadable, read};
pub use words::{Commands, Words};

use std::fmt;

use super::sha1::sha1;
use crate::claim::Claim;

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
            include_str!("../../lua/decide.lua"),
            "for i = 1, #KEYS do\n",
            include_str!("../../lua/claim.lua"),
            "if code <= 2 then\n",
            include_str!("../../lua/sliding_log.lua"),
            "elseif code == 3 then\n",
            include_str!("../../lua/sliding_window.lua"),
            "elseif code <= 6 then\n",
            include_str!("../../lua/fixed_window.lua"),
            "else\n",
            include_str!("../../lua/bucket.lua"),
            "if code == 7 then\n",
            include_str!("../../lua/token_bucket.lua"),
            "else\n",
            include_str!("../../lua/gcra.lua"),
            "end\n",
            include_str!("../../lua/bucket_take.lua"),
            "end\n",
            include_str!("../../lua/judge.lua"),
            "end\n",
            include_str!("../../lua/take.lua"),
        )
    };
}

impl Script {
    /// The script that runs in production, by Redis's clock.
    #[must_use]
    pub const fn production() -> Self {
        const BODY: &str = body!("../../lua/clock.lua");
        const SHA1: [u8; 40] = sha1(BODY.as_bytes());
        Self {
            body: BODY,
            sha1: SHA1,
        }
    }

    /// The same script in virtual time, for tests against a real Redis; see `lua/clock_test.lua`.
    #[must_use]
    pub const fn virtual_time() -> Self {
        const BODY: &str = body!("../../lua/clock_test.lua");
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
