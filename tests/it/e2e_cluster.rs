//! A Redis Cluster behind the link: the same exactness, and what its events cost.

mod events;
mod exact;

use std::time::Duration;

use serde_json::{Value, json};
use support::client::{Answer, at_once, count, get};
use support::cluster::RedisCluster;
use support::config::{Config, Link};
use support::envoy::Envoy;
use support::mesh::{Mesh, Plan, mesh, policy};
use support::until_within;

/// Long enough that a busy machine never turns a verdict into an outage.
const PATIENT: &str = "2s";
/// Short enough that an outage shows.
const HURRIED: &str = "100ms";

/// What names a client; a header whose value is seen in the key.
const CLIENT: &str = "x-client";

type ClusterMesh = Mesh<RedisCluster>;

/// A mesh before a cluster of three masters, where an outage shows as 503.
fn plan(timeout: &str, limits: Value) -> Plan {
    let plan = mesh(Link::Cluster, policy("deny", timeout, limits));
    match timeout {
        // What is not about times must not fail because this machine is slow.
        PATIENT => plan.change(|config| node_timeout(config, "1s")),
        HURRIED => plan.change(|config| node_timeout(config, "0.075s")),
        _ => plan,
    }
}

/// How long one node may be silent.
fn node_timeout(config: &mut Config, timeout: &str) {
    config.op_timeout(timeout);
    config.cluster("aforo-redis")["connect_timeout"] = json!(timeout);
}

fn start(plan: Plan, cluster: RedisCluster) -> ClusterMesh {
    let ports = cluster.ports();
    let mesh = plan.start_on(cluster, &ports);
    // Envoy serves before it has found the nodes.
    until_all_answer(&mesh);
    mesh.redis.flush();
    mesh
}

/// Waits until every shard answers on every Envoy's every worker.
fn until_all_answer(mesh: &ClusterMesh) -> Duration {
    until_within(
        Duration::from_secs(20),
        "every shard to answer on every worker",
        || {
            let probes = (0..48).map(|number| {
                let ask = get("/").header(CLIENT, format!("probe-{number}"));
                (mesh.envoys[number % mesh.envoys.len()].address(), ask)
            });
            let answers = at_once(&probes.collect::<Vec<_>>());
            // Each worker has a breaker for each range of slots, and no probe is sure to meet them all.
            let open = |envoy: &Envoy| envoy.stat("wasmcustom.aforo_breakers_open");
            count(&answers, 503) == 0 && mesh.envoys.iter().all(|envoy| open(envoy) == 0)
        },
    )
}

fn ask(mesh: &ClusterMesh, key: &str) -> Answer {
    get("/").header(CLIENT, key).to(mesh.address())
}

fn statuses(mesh: &ClusterMesh, key: &str, times: usize) -> Vec<u16> {
    (0..times).map(|_| ask(mesh, key).status).collect()
}

fn limit(name: &str, key: &[&str], algorithm: &str, rate: &str) -> Value {
    json!({ "name": name, "key": key, "algorithm": algorithm, "rate": rate })
}

fn per_client(algorithm: &str, rate: &str) -> Value {
    let mut limit = limit("per-client", &["header:x-client"], algorithm, rate);
    limit["missing"] = json!(["ip"]);
    limit
}
