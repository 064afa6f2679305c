//! One request and what became of it.

use std::time::{Duration, Instant};

use hyper::HeaderMap;

/// Whose request: of the limit with this answer to an outage, or of the path without a filter.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub enum Stream {
    /// The limit that lets everything pass.
    Allow,
    /// The limit that lets nothing pass.
    Deny,
    /// The limit that its worker decides.
    Local,
    /// No filter: what this machine makes of a request at that moment.
    Control,
}

impl Stream {
    /// The three answers to an outage.
    pub const OUTAGES: [Self; 3] = [Self::Allow, Self::Deny, Self::Local];

    /// As in a policy.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Allow => "allow",
            Self::Deny => "deny",
            Self::Local => "local",
            Self::Control => "control",
        }
    }

    /// Where its requests go.
    #[must_use]
    pub const fn path(self) -> &'static str {
        match self {
            Self::Allow => "/allow",
            Self::Deny => "/deny",
            Self::Local => "/local",
            Self::Control => "/control",
        }
    }
}

/// A request that was sent.
#[derive(Clone, Debug)]
pub struct Sample {
    /// Whose it was.
    pub stream: Stream,
    /// Its key.
    pub key: String,
    /// When it was to be sent.
    pub due: Instant,
    /// From then to the end of the answer.
    pub took: Duration,
    /// What came.
    pub end: End,
    /// It was sent a second time.
    pub again: bool,
}

/// What became of a request.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum End {
    /// Redis decided.
    Verdict {
        /// And let it pass.
        allowed: bool,
    },
    /// Redis did not decide.
    Outage {
        /// And it passed all the same.
        allowed: bool,
        /// Whether the worker's own limiter decided.
        local: bool,
        /// Why Redis did not; empty when a local verdict does not say.
        cause: String,
    },
    /// It passed, and the filter was not asked.
    Unfiltered,
    /// A status that is none of these.
    Odd(u16),
    /// The connection broke.
    Broken(String),
    /// Nothing came.
    Hung,
}

impl End {
    /// Reads an answer: its debug header says who decided, and its status must say the same.
    #[must_use]
    pub fn read(status: u16, headers: &HeaderMap) -> Self {
        let reason = headers.get("x-aforo-debug").and_then(|v| v.to_str().ok());
        let Some(reason) = reason else {
            return if status == 200 {
                Self::Unfiltered
            } else {
                Self::Odd(status)
            };
        };
        let word = |name: &str| {
            let mut pairs = reason.split(' ').filter_map(|pair| pair.split_once('='));
            pairs.find(|(key, _)| *key == name).map(|(_, value)| value)
        };
        let allowed = word("verdict") == Some("allowed");
        let cause = word("cause").unwrap_or_default().to_owned();
        match (word("from"), status) {
            (Some("redis" | "cache"), 200 | 429) if allowed == (status == 200) => {
                Self::Verdict { allowed }
            }
            (Some("local"), 200 | 429) if allowed == (status == 200) => Self::Outage {
                allowed,
                local: true,
                cause,
            },
            (Some("outage"), 200 | 503) if allowed == (status == 200) => Self::Outage {
                allowed,
                local: false,
                cause,
            },
            _ => Self::Odd(status),
        }
    }
}
