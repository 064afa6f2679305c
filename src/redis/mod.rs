//! Redis without a socket: its protocol, the script and what it answers, the link as a state machine,
//! and the HTTP gateways in its place.

pub mod error;
pub mod gate;
pub mod gateway;
pub mod json;
pub mod link;
pub mod pipeline;
pub mod resp;
pub mod room;
pub mod script;
mod sha1;
pub mod upstash;
pub mod webdis;
