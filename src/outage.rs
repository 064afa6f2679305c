//! What happens when Redis does not answer.

use crate::redis::{error::ErrorKind, resp::Violation};

/// Why a decision got no answer from Redis.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
#[non_exhaustive]
pub enum Silence {
    /// The decision's deadline passed.
    TimedOut,
    /// No connection could be opened, or the next attempt is not due yet.
    Unreachable,
    /// The connection was lost while the decision waited on it.
    Lost,
    /// As many decisions wait already as the link holds.
    Full,
    /// What came back is no RESP, or no answer of this script.
    Garbage,
    /// Redis, or what stands in front of it, answered with an error.
    Refused(ErrorKind),
    /// The breaker is open: nobody was asked.
    Skipped,
}

impl Silence {
    /// A short name for metrics and logs: `[a-z_]+`.
    #[must_use]
    pub const fn label(self) -> &'static str {
        match self {
            Self::TimedOut => "timeout",
            Self::Unreachable => "unreachable",
            Self::Lost => "lost",
            Self::Full => "full",
            Self::Garbage => "garbage",
            Self::Refused(kind) => kind.label(),
            Self::Skipped => "skipped",
        }
    }
}

impl From<Violation> for Silence {
    fn from(_: Violation) -> Self {
        Self::Garbage
    }
}
