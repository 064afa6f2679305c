//! What a request gets when Redis does not answer.

use super::{field::Field, findings::Findings};

/// What a request gets when Redis does not answer.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Outage {
    /// It goes on, unlimited.
    #[default]
    Allow,
    /// 503 with `Retry-After`.
    Deny,
    /// The limiter in this worker decides, with this worker's share.
    Local,
}

/// The names of the answers.
pub const ANSWERS: [(&str, Outage); 3] = [
    ("allow", Outage::Allow),
    ("deny", Outage::Deny),
    ("local", Outage::Local),
];

/// Reads the field `outage`, of the policy or of a limit.
pub fn read(field: &Field<'_>, findings: &mut Findings) -> Option<Outage> {
    field.choice(&ANSWERS, findings)
}
