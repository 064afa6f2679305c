//! Every key at its node, every limit to the last unit.

use std::collections::BTreeSet;

use serde_json::{Value, json};
use support::client::{at_once, count, get};
use support::cluster::RedisCluster;

use super::{CLIENT, ClusterMesh, PATIENT, ask, limit, per_client, plan, start, statuses};

/// Every algorithm, with numbers that let ten pass and no more.
const ALGORITHMS: [(&str, &str); 5] = [
    ("sliding-log", "10/1h"),
    ("sliding-window", "10/1h"),
    ("fixed-window", "10/30d"),
    ("token-bucket", "10/1h"),
    ("gcra", "10/1h"),
];

#[test]
fn sixty_keys_over_all_masters_are_each_limited_exactly() {
    let limits = json!([per_client("sliding-log", "5/1h")]);
    let plan = plan(PATIENT, limits).envoys(2).workers(2);
    let mesh = start(plan, RedisCluster::start(3, 0));
    let addresses = mesh.addresses();
    for number in 0..60 {
        let one = get("/").header(CLIENT, format!("key-{number}"));
        let asks = (0..8).map(|n| (addresses[n % 2], one.clone()));
        let answers = at_once(&asks.collect::<Vec<_>>());
        assert_eq!(count(&answers, 200), 5, "key-{number}: {answers:?}");
        assert_eq!(count(&answers, 429), 3, "key-{number}: {answers:?}");
    }
    let keys = mesh.redis.keys();
    assert_eq!(keys.len(), 60, "{keys:?}");
    let nodes: BTreeSet<usize> = keys.iter().map(|(node, _)| *node).collect();
    assert_eq!(nodes, BTreeSet::from([0, 1, 2]), "all masters hold some");
}

/// A limit about requests under this path alone.
fn under(path: &str, mut limit: Value) -> Value {
    limit["when"] = json!({ "path": format!("/{path}/") });
    limit["name"] = json!(format!(
        "{path}-{}",
        limit["name"].as_str().expect("a name")
    ));
    limit
}

fn at(path: &str, mesh: &ClusterMesh, client: &str) -> u16 {
    let ask = get(&format!("/{path}/")).header(CLIENT, client);
    ask.to(mesh.address()).status
}

#[test]
fn b47_every_algorithm_runs_on_every_node() {
    let limits = ALGORITHMS.map(|(algorithm, rate)| under(algorithm, per_client(algorithm, rate)));
    let mesh = start(plan(PATIENT, json!(limits)), RedisCluster::start(3, 0));
    for (algorithm, _) in ALGORITHMS {
        for number in 0..12 {
            let client = format!("client-{number}.");
            let got: Vec<u16> = (0..12).map(|_| at(algorithm, &mesh, &client)).collect();
            let expected = [[200; 10].as_slice(), &[429; 2]].concat();
            assert_eq!(got, expected, "{algorithm}");
        }
    }
    let keys = mesh.redis.keys();
    assert_eq!(keys.len(), 12 * ALGORITHMS.len(), "{keys:?}");
    for (node, key) in keys {
        let left: i64 = mesh.redis.nodes()[node].call(&["PTTL", &key]);
        assert!(left > 0, "{key} has no time to live");
    }
}

#[test]
fn b06_each_node_that_does_not_know_the_script_is_sent_it_once() {
    let limits = json!([per_client("sliding-log", "5/1h")]);
    let mesh = start(plan(PATIENT, limits), RedisCluster::start(3, 0));
    for node in mesh.redis.nodes() {
        node.call::<()>(&["SCRIPT", "FLUSH"]);
    }
    let before = mesh.redis.calls_of("eval");
    for number in 0..30 {
        let client = format!("client-{number}.");
        let expected = [200, 200, 200, 200, 200, 429];
        assert_eq!(statuses(&mesh, &client, 6), expected, "{client}");
    }
    assert_eq!(mesh.redis.calls_of("eval") - before, 3, "once a node");
}

#[test]
fn b23_no_value_of_a_client_breaks_the_hash_tag() {
    let limits = json!([
        limit("minute", &["header:x-client"], "sliding-log", "5/1h"),
        limit("day", &["header:x-client"], "token-bucket", "100/1d"),
        limit("all", &[], "gcra", "1000/1h"),
    ]);
    let mesh = start(plan(PATIENT, limits), RedisCluster::start(3, 0));
    for value in [
        "", "}", "{", "{}", "}x", "{a}", "a}b", "{{", "a{b}c", "{}{}",
    ] {
        let got: Vec<u16> = (0..7).map(|_| ask(&mesh, value).status).collect();
        assert_eq!(got, [200, 200, 200, 200, 200, 429, 429], "{value:?}");
    }
}
