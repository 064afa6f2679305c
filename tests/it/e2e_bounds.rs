//! What clients could make the filter hold is bounded, and each bound has its metric and its answer.

use serde_json::{Value, json};
use support::client::{Answer, Connection, Pending, get};
use support::config::{Config, Link};
use support::mesh::{Mesh, mesh, per_key, policy};
use support::stub::{Act, Stub};
use support::until;

/// Commands whose reply one link may owe.
const IN_FLIGHT: u64 = 4_096;

/// A policy whose breaker stays shut, so that every request is asked for.
fn unbroken(outage: &str, timeout: &str, limits: Value) -> Value {
    let mut policy = policy(outage, timeout, limits);
    policy["redis"]["breaker"] =
        json!({ "failures": 10_000, "failure_percent": 100, "least_requests": 100_000 });
    policy
}

/// So many requests at once, each with a key of its own, on a few connections.
fn burst(mesh: &Mesh, count: usize) -> (Vec<Connection>, Vec<Pending>) {
    let mut connections: Vec<_> = (0..6).map(|_| Connection::http2(mesh.address())).collect();
    let mut pending = Vec::new();
    for number in 0..count {
        let ask = get("/").header("x-api-key", format!("burst-{number}"));
        pending.push(connections[number % 6].start(&ask));
    }
    (connections, pending)
}

fn outages(mesh: &Mesh, cause: &str) -> u64 {
    mesh.envoy()
        .stat(&format!("wasmcustom.aforo_outages_total.cause.{cause}"))
}

fn gauge(mesh: &Mesh, name: &str) -> u64 {
    mesh.envoy().stat(&format!("wasmcustom.{name}"))
}

fn all_refused_as_unavailable(pending: Vec<Pending>) {
    let answers: Vec<Answer> = pending
        .into_iter()
        .map(|one| one.finish().expect("an answer"))
        .collect();
    assert!(answers.iter().all(|answer| answer.status == 503));
}

#[test]
fn replies_that_are_owed_are_bounded_and_who_comes_then_gets_the_outage_answer_at_once() {
    let limits = json!([per_key("sliding-log", "1000/1h")]);
    let mesh = mesh(Link::Straight, unbroken("deny", "800ms", limits)).start();
    assert_eq!(
        get("/").header("x-api-key", "a").to(mesh.address()).status,
        200
    );
    mesh.redis.freeze();
    // A link that owes for a second is given up, so all must come within one: again, if this machine
    // was too busy for that.
    let mut most = 0;
    for _ in 0..5 {
        let (_connections, pending) = burst(&mesh, 5_000);
        until("someone to be answered", || {
            most = most.max(gauge(&mesh, "aforo_in_flight"));
            pending.iter().all(Pending::is_answered)
        });
        all_refused_as_unavailable(pending);
        if outages(&mesh, "full") > 0 {
            break;
        }
    }
    assert!(outages(&mesh, "full") > 0, "at most {most} were in flight");
    assert!(most <= IN_FLIGHT, "{most}");
    mesh.redis.thaw();
    until("Redis to be asked again", || {
        get("/").header("x-api-key", "b").to(mesh.address()).status == 200
    });
    until("nothing to be owed or waited for", || {
        gauge(&mesh, "aforo_in_flight") == 0 && gauge(&mesh, "aforo_pending") == 0
    });
}

#[test]
fn what_waits_for_a_connection_is_bounded_in_bytes() {
    // A greeting that is never answered: everything waits for it, a tenth of a second each time.
    let stub = Stub::start(|_| Act::Silence);
    let limit = |number: usize| {
        let mut limit = per_key("sliding-log", "1000/1h");
        limit["name"] = json!(format!("limit-{number}"));
        limit
    };
    let limits: Vec<Value> = (0..60).map(limit).collect();
    let mut policy = unbroken("deny", "800ms", json!(limits));
    policy["redis"]["password"] = json!("secret");
    let mesh = mesh(Link::Straight, policy).redis_at(stub.port()).start();
    for _ in 0..20 {
        let (_connections, pending) = burst(&mesh, 1_000);
        all_refused_as_unavailable(pending);
        if outages(&mesh, "full") > 0 {
            return;
        }
    }
    panic!("a thousand commands of {} limits found room", limits.len());
}

#[test]
fn the_keys_of_the_local_limiter_are_bounded() {
    let mut policy = policy("local", "20ms", json!([per_key("sliding-log", "2/1h")]));
    policy["local"] = json!({ "keys": 50 });
    let mut mesh = mesh(Link::Straight, policy).start();
    mesh.redis.stop();
    let refused = |key: &str| {
        let ask = get("/").header("x-api-key", key);
        (0..3).map(|_| ask.to(mesh.address()).status).last() == Some(429)
    };
    assert!(refused("first"));
    for round in 0..4 {
        let (_connections, pending) = burst(&mesh, 100 * (round + 1));
        for one in pending {
            one.finish().expect("an answer");
        }
        let keys = gauge(&mesh, "aforo_local_keys");
        assert!((1..=50).contains(&keys), "{keys}");
        assert!(refused("first"), "a flood of new keys frees nobody");
    }
}

/// Envoy itself answers what the filter lets pass, at once and on the same stack.
fn answered_by_envoy(config: &mut Config) {
    config.manager()["route_config"]["virtual_hosts"][0]["routes"] = json!([{
        "match": { "prefix": "/" },
        "direct_response": { "status": 200, "body": { "inline_string": "ok" } },
    }]);
}

#[test]
fn thousands_of_verdicts_that_come_at_once_are_all_carried_out() {
    for link in Link::ALL {
        for (rate, status) in [("1/1h", 429), ("1000000/1h", 200)] {
            let mut limit = per_key("fixed-window", rate);
            limit["key"] = json!(["host"]);
            let mesh = mesh(link, unbroken("deny", "5s", json!([limit])))
                .patient()
                .change(answered_by_envoy)
                .start();
            let case = format!("{link:?}, {rate}");
            assert_eq!(get("/").to(mesh.address()).status, 200, "{case}");
            mesh.redis.freeze();
            let (_connections, pending) = burst(&mesh, 2_000);
            until("most to wait", || gauge(&mesh, "aforo_pending") > 1_500);
            mesh.redis.thaw();
            let answers = pending
                .into_iter()
                .map(|one| one.finish().expect("an answer"));
            let others: Vec<_> = answers.filter(|answer| answer.status != status).collect();
            // A machine so busy that the frozen link was given up.
            let lost = usize::try_from(outages(&mesh, "timeout")).unwrap_or(0);
            assert!(others.len() <= lost, "{case}: {others:?}");
        }
    }
}
