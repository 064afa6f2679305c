//! What an operator tells the mesh arrives over every way to Redis.

use serde_json::{Value, json};
use support::Dir;
use support::client::get;
use support::config::Link;
use support::mesh::{Mesh, mesh, policy};
use support::store::Store;

use super::rollout::{WORKERS, gauge, until_all_answer, until_in_force, until_switched};
use super::{Said, aforo, limit, write};

support::over_every_link! { a_pushed_policy_and_the_switch_are_heeded }

/// Runs the command on what the mesh counts in.
fn on(mesh: &Mesh<Store>, words: &[&str]) -> Said {
    let url = format!("redis://127.0.0.1:{}", mesh.redis.ports()[0]);
    let mut words = [words, &["--redis", &url]].concat();
    if matches!(mesh.redis, Store::Cluster(_)) {
        words.push("--cluster");
    }
    aforo(&words)
}

/// A policy of several slices, whose text is of characters of two, three and four bytes.
fn in_many_tongues(rate: &str) -> Value {
    let mut policy = limit(rate);
    let exception = |number: usize| json!({ "match": [client(number)], "rate": "3/1h" });
    policy["limits"][0]["overrides"] = (0..3_000).map(exception).collect();
    policy
}

fn client(number: usize) -> String {
    format!("ключ-密钥-🗝-{number}")
}

fn a_pushed_policy_and_the_switch_are_heeded(link: Link) {
    let mut own = policy("deny", "2s", limit("1000/1h")["limits"].clone());
    own["control"] = json!({ "policy": true });
    let mesh = mesh(link, own).patient().workers(2).start_whole();
    let dir = Dir::temporary("policy");
    on(&mesh, &["push", &write(&dir, &in_many_tongues("1/1h"))]).with(0);
    until_in_force(&mesh, 1);
    until_all_answer(&mesh, "a", 429);
    let ask = get("/").header("x-api-key", client(2_999));
    let got = [(); 4].map(|()| ask.to(mesh.address()).status);
    assert_eq!(got, [200, 200, 200, 429], "its override came whole");
    on(&mesh, &["switch", "on"]).with(0);
    until_switched(&mesh, WORKERS);
    until_all_answer(&mesh, "a", 200);
    on(&mesh, &["switch", "off"]).with(0);
    until_switched(&mesh, 0);
    until_all_answer(&mesh, "a", 429);
    on(&mesh, &["rollback"]).with(0);
    until_in_force(&mesh, 0);
    until_all_answer(&mesh, "a", 200);
    assert_eq!(
        gauge(mesh.envoy(), "aforo_policies_total.result.refused"),
        0
    );
}
