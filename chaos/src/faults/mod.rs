//! The ways to break things, each a function that returns when all is well again.

pub mod envoy;
pub mod network;
pub mod redis;
pub mod stub;
