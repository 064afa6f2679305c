//! Redis without a socket: its protocol, the script and what it answers, the link as a state machine.

pub mod resp;
