//! Redis without a socket: its protocol, the script and what it answers, the link as a state machine.

pub mod error;
pub mod gate;
pub mod link;
pub mod pipeline;
pub mod resp;
pub mod room;
pub mod script;
pub mod script;
mod sha1;
