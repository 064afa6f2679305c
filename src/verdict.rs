//! What came of a decision: one [`Reading`] a limit, and the [`Verdict`] over all of them.

use crate::{claim::Claim, units::Micros};

/// How long until this request would be admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Wait {
    /// Refused before this span has passed, admitted at it, if nobody else takes anything.
    /// Zero when it is admitted now.
    For(Micros),
    /// Its cost can never fit.
    Never,
}

/// What one limit says of one request.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Reading {
    /// Whether this limit admits the request.
    pub admitted: bool,
    /// Units left after this decision, `0..=quota`: what one burst at this moment could still take.
    pub remaining: u64,
    /// When a refused request of the same cost would be admitted.
    pub wait: Wait,
    /// Until the whole quota is there again if nobody takes more; zero when it is whole.
    pub reset: Micros,
}

/// Who decided.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Source {
    /// Redis's script, for this request.
    Redis,
    /// This worker's memory of an earlier refusal that still holds.
    Cache,
    /// The local limiter that stands in while Redis does not answer.
    Local,
}

/// One limit's part of a verdict.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Judged {
    /// What was asked.
    pub claim: Claim,
    /// What was answered.
    pub reading: Reading,
}

/// The answer to a request that limits were asked about.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Verdict {
    /// Whether the request may go on: every enforced limit admits it.
    pub allowed: bool,
    /// Every limit that was asked, in the policy's order. Never empty.
    pub judged: Vec<Judged>,
    /// Who decided.
    pub source: Source,
}
