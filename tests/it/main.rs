//! One integration binary: everything that is seen from outside a module.
#![allow(
    clippy::disallowed_methods,
    reason = "only the module must not read a clock; a test measures how long things take"
)]

mod algorithm_docs;
mod chaos;
mod chaos_errors;
mod compose;
mod docs;
mod e2e_algorithms;
mod e2e_bounds;
mod e2e_clients;
mod e2e_cluster;
mod e2e_demo;
mod e2e_exact;
mod e2e_gateways;
mod e2e_links;
mod e2e_outage;
mod e2e_policy;
mod e2e_shipped;
mod e2e_vm;
mod fence;
mod gateway_webdis;
mod istio;
mod policy;
mod reply;
mod reply_e2e;
mod reply_fields;
mod reply_grpc;
mod reply_merge;
mod reply_policy;
mod reply_why;
mod script;
mod script_errors;
mod script_flavours;
mod script_histories;
mod script_lives;
mod script_redis;
mod script_reply;
mod stats;
