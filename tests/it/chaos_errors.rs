//! Each error of Redis told apart, from the wire to the metric and the log.

use std::time::Duration;

use serde_json::{Value, json};
use support::client::get;
use support::config::Link;
use support::mesh::{Mesh, mesh, per_key, policy};
use support::redis::Redis;
use support::stub::{Act, Stub};
use support::{Dir, until, until_within};

const ERRORS: [(&str, &str); 15] = [
    ("NOSCRIPT No matching script.", "noscript"),
    (
        "READONLY You can't write against a read only replica.",
        "readonly",
    ),
    ("LOADING Redis is loading the dataset in memory", "loading"),
    (
        "OOM command not allowed when used memory > 'maxmemory'.",
        "oom",
    ),
    ("BUSY Redis is busy running a script.", "busy"),
    ("MASTERDOWN Link with MASTER is down", "masterdown"),
    ("CLUSTERDOWN The cluster is down", "clusterdown"),
    ("MOVED 3999 127.0.0.1:6381", "moved"),
    ("NOAUTH Authentication required.", "noauth"),
    ("WRONGPASS invalid username-password pair", "wrongpass"),
    ("NOPERM this user has no permissions", "noperm"),
    ("DENIED Redis is running in protected mode", "denied"),
    ("WRONGTYPE Operation against a key", "wrongtype"),
    ("ERR unknown command 'evalsha'", "unknown_command"),
    ("upstream failure", "upstream_failure"),
];

fn ask(mesh: &Mesh) -> u16 {
    get("/").header("x-api-key", "a").to(mesh.address()).status
}

fn denying() -> Value {
    policy("deny", "1s", json!([per_key("sliding-log", "1000/1h")]))
}

#[test]
fn b44_each_error_of_redis_has_its_own_count_in_the_metrics() {
    let stub = Stub::start(|_| Act::Silence);
    let mut policy = denying();
    // A breaker that does not open, so that every request meets the error.
    policy["redis"]["breaker"] =
        json!({ "failures": 10_000, "failure_percent": 100, "least_requests": 100_000 });
    let mesh = mesh(Link::Straight, policy).redis_at(stub.port()).start();
    for (error, cause) in ERRORS {
        let reply = format!("-{error}\r\n");
        stub.from_now_on(move |_| Act::reply(reply.as_bytes()));
        let name = format!("wasmcustom.aforo_outages_total.cause.{cause}");
        assert_eq!(mesh.envoy().stat(&name), 0, "{cause}");
        // Some errors make a new link, before which a few requests find none.
        until(&format!("{cause} to be counted"), || {
            assert_eq!(ask(&mesh), 503, "{error}");
            mesh.envoy().stat(&name) > 0
        });
    }
}

#[test]
fn a_fault_that_a_person_must_mend_is_one_line_that_says_what_to_look_at() {
    for (error, cause, says) in [
        (
            "NOPERM this user has no permissions",
            "noperm",
            "+evalsha +eval",
        ),
        (
            "NOAUTH Authentication required.",
            "noauth",
            "redis.password",
        ),
        ("OOM command not allowed", "oom", "maxmemory"),
    ] {
        let reply = format!("-{error}\r\n");
        let stub = Stub::start(move |_| Act::reply(reply.as_bytes()));
        let mesh = mesh(Link::RedisProxy, denying())
            .redis_at(stub.port())
            .start();
        (0..60).for_each(|_| assert_eq!(ask(&mesh), 503, "{error}"));
        // An error that makes a new link is told with the link that it ended.
        let line = match cause {
            "noauth" => format!("the link to Redis does not open: {cause}"),
            _ => format!("Redis does not answer: {cause}"),
        };
        until(&format!("the log to say {line}"), || {
            mesh.envoy().log_lines_with(&line) > 0
        });
        let log = mesh.envoy().log();
        let lines: Vec<&str> = log.lines().filter(|text| text.contains(&line)).collect();
        assert!(lines.iter().all(|text| text.contains(says)), "{lines:?}");
        assert!(
            lines.len() < 20,
            "one line a change, not one a request: {lines:?}"
        );
    }
}

/// The filter's lines of Envoy's log.
fn own_lines(mesh: &Mesh) -> Vec<String> {
    let log = mesh.envoy().log();
    let own = log.lines().filter(|line| line.contains("aforo: "));
    own.map(str::to_owned).collect()
}

/// Asks until five links have not opened; each request is an outage.
fn until_five_attempts_fail(mesh: &Mesh) {
    until("five attempts to fail", || {
        assert_eq!(ask(mesh), 503);
        mesh.envoy()
            .stat("wasmcustom.aforo_link_events_total.event.failed")
            >= 5
    });
}

#[test]
fn a_wrong_password_is_told_once_however_often_it_is_tried() {
    let redis = Redis::start_in(Dir::temporary("redis"), &["--requirepass", "right"]);
    let mut policy = denying();
    policy["redis"]["password"] = json!("wrong");
    let mesh = mesh(Link::Straight, policy).redis_at(redis.port()).start();
    until_five_attempts_fail(&mesh);
    let lines = own_lines(&mesh);
    assert!(
        lines
            .iter()
            .all(|line| !line.contains("wrong:") && !line.contains("right")),
        "no password: {lines:?}"
    );
    let links = lines.iter().filter(|line| line.contains("link to Redis"));
    let of_links: Vec<_> = links.collect();
    assert_eq!(of_links.len(), 1, "{lines:?}");
    assert!(
        of_links[0].contains("does not open: wrongpass: ")
            && of_links[0].contains("refused the user, the password"),
        "{lines:?}"
    );
    redis.call::<()>(&["CONFIG", "SET", "requirepass", "wrong"]);
    until("Redis to be asked again", || ask(&mesh) == 200);
    let up = mesh.envoy().log_lines_with("the link to Redis is up");
    assert_eq!(up, 1);
}

#[test]
fn b40_a_cluster_that_envoy_does_not_know_is_one_line_with_its_name() {
    let mut policy = denying();
    policy["redis"]["cluster"] = json!("nowhere");
    let mesh = mesh(Link::RedisProxy, policy).start();
    until_five_attempts_fail(&mesh);
    let lines = own_lines(&mesh);
    let told = "no link to Redis: the cluster \"nowhere\" is not known to this Envoy";
    assert_eq!(
        lines.iter().filter(|line| line.contains(told)).count(),
        1,
        "{lines:?}"
    );
    let of_links = lines.iter().filter(|line| line.contains("link"));
    assert_eq!(of_links.count(), 1, "{lines:?}");
}

#[test]
fn b47_a_redis_proxy_that_redis_did_not_let_in_is_let_in_once_its_password_is_right() {
    // Envoy keeps the connection that was refused, and never says the password on it again.
    let redis = Redis::start_in(Dir::temporary("redis"), &["--requirepass", "another"]);
    let mesh = mesh(Link::RedisProxy, denying())
        .workers(2)
        .change(|config| config.redis_proxy_password("the proxy's"))
        .redis_at(redis.port())
        .start();
    until("the log to say why", || {
        assert_eq!(ask(&mesh), 503);
        mesh.envoy().log_lines_with("noauth: ") > 0
    });
    redis.call::<()>(&["CONFIG", "SET", "requirepass", "the proxy's"]);
    until_within(Duration::from_secs(3), "every worker to be let in", || {
        (0..16).all(|_| ask(&mesh) == 200)
    });
}
