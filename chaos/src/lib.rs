//! Whether the traffic survives when everything that the filter needs breaks, one thing after another.
//!
//! ```text
//!  scenario ─► stage: Redis, Envoy, traffic at a fixed rate ─► samples ─► rows ─► table, faults
//!    quiet            something is broken            all is well again
//!  ├───────┼──────────────────────────────────────┼──────────────────────┤
//! ```
//!
//! What must be true of every run is in [`run`]; what each scenario adds, in [`scenario`].

pub mod faults;
pub mod keys;
pub mod load;
pub mod meddler;
pub mod network;
pub mod row;
pub mod run;
pub mod sample;
pub mod scenario;
pub mod stage;
pub mod table;
