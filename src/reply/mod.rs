//! Verdicts turned into headers, bodies and gRPC statuses.
//!
//! ```text
//!  Verdict ──► readings (which limit is shown, whole seconds) ──► fields (header families) ──► Refusal
//!                                                            └──► body                         Edits
//! ```
//!
//! Nothing here decides whether a request passes: that is [`crate::verdict`]. Numbers are integers,
//! waits are rounded up to whole seconds, and a client that waits as long as it is told is admitted.
//! No text of a client reaches a header or a body; names are those of the policy's limits.

mod base64;
mod body;
mod debug;
mod draft;
mod fields;
mod grpc_web;
mod merge;
mod readings;
mod refusal;
mod request;
mod settings;
mod template;
mod why;

pub use debug::{DEBUG_HEADER, DebugSecret};
pub use draft::Draft;
pub use fields::{Fields, state_headers};
pub use merge::{Edit, STATE_FIELDS, merge};
pub use readings::retry_after;
pub use refusal::{Circumstances, Refusal, denial, outage_refusal, refusal};
pub use request::RequestKind;
pub use settings::{
    BadSetting, Body, Families, Family, GrpcStatus, Parts, ResetForm, Settings, Statuses, Theirs,
};
pub use template::Template;
pub use why::{KeyHash, Why};

/// The name of the limit at an index of the policy's `limits`. An index out of range names nothing:
/// give `""`.
pub type Names<'a> = &'a dyn Fn(usize) -> &'a str;
