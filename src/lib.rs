//! Aforo: rate limiting that is right across a whole mesh.
//!
//! ```text
//!  request ──► rules ──► claims ──► redis::script ──► Redis (one Lua script, Redis's clock)
//!  (Facts)   (policy)   (key, cost,                        │
//!                        algorithm)                        ▼
//!  reply ◄── decide ◄── readings ◄───────────────── redis::script
//! ```
//!
//! Everything but `host` is pure: no clock, no socket, no host call. Time is an argument, and a
//! decision returns data that the host carries out.
// Nothing on the request path may panic: one trap stops every stream of its worker.
#![deny(
    clippy::unwrap_used,
    clippy::expect_used,
    clippy::panic,
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "a panic in the module takes a whole Envoy worker's filter down"
)]
#![cfg_attr(
    test,
    allow(
        clippy::arithmetic_side_effects,
        reason = "a test may overflow: it fails"
    )
)]

pub mod algorithm;
pub mod claim;
pub mod control;
pub mod decide;
#[cfg(target_family = "wasm")]
mod host;
pub mod local;
pub mod outage;
pub mod policy;
pub mod redis;
pub mod reply;
pub mod request;
pub mod rules;
pub mod stats;
pub mod units;
pub mod verdict;
pub mod worker;
