//! A claim: one limit that applies to one request, with everything needed to ask for it.

use crate::algorithm::{Algorithm, Kind};

/// One limit asked for by one request. Made by [`crate::rules`], asked by [`crate::redis`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Claim {
    /// Index into the policy's `limits`.
    pub limit: usize,
    /// The Redis key: `prefix:{tag}:name:algorithm`. Printable ASCII without space.
    pub key: String,
    /// The algorithm with this client's numbers (its plan and overrides already applied).
    pub algorithm: Algorithm,
    /// Units this request takes, `0..=MAX_COST`.
    pub cost: u64,
    /// Whether a refusal by this limit refuses the request. `false` in shadow mode: it is asked and
    /// counted like the others, and takes only when the request goes on.
    pub enforced: bool,
}

impl Claim {
    /// Whether what it takes is held while the request is in flight and given back at its end.
    #[must_use]
    pub fn is_lease(&self) -> bool {
        self.algorithm.kind() == Kind::Concurrency
    }

    /// The Redis hash tag of the key: what lies between its first `{` and the next `}`.
    #[must_use]
    pub fn tag(&self) -> &str {
        let inner = self
            .key
            .split_once('{')
            .and_then(|(_, rest)| rest.split_once('}'));
        inner.map_or(self.key.as_str(), |(tag, _)| tag)
    }
}
