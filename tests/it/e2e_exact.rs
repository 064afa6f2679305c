//! Exactness when Redis forgets its scripts or itself. That N means N, however many Envoys, workers and
//! requests, is held to over each link in `e2e_links`.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::client::{Answer, get};
use support::config::Link;
use support::load::Load;
use support::mesh::{Mesh, mesh, per_key, policy};
use support::until_within;

/// Long enough that a busy machine never turns a verdict into an outage.
const PATIENT: &str = "2s";

fn bucket(rate: &str, burst: u32) -> Value {
    let mut limit = per_key("token-bucket", rate);
    limit["burst"] = json!(burst);
    limit
}

fn ask(mesh: &Mesh, key: &str) -> Answer {
    get("/").header("x-api-key", key).to(mesh.address())
}

/// The statuses of `times` requests in a row.
fn statuses(mesh: &Mesh, key: &str, times: usize) -> Vec<u16> {
    (0..times).map(|_| ask(mesh, key).status).collect()
}

#[test]
fn every_key_in_redis_has_a_time_to_live() {
    let limits = json!([per_key("sliding-log", "100/1m"), {
        "name": "everyone", "key": [], "algorithm": "token-bucket", "rate": "1000/1h", "burst": 5,
    }]);
    let mesh = mesh(Link::Straight, policy("deny", PATIENT, limits))
        .patient()
        .start();
    for number in 0..10 {
        let _ = ask(&mesh, &format!("client-{number}"));
    }
    let keys = mesh.redis.keys();
    assert!(!keys.is_empty());
    for key in keys {
        let key = String::from_utf8(key).expect("keys are text");
        let left: i64 = mesh.redis.call(&["PTTL", &key]);
        assert!(
            (1..=2 * 3_600_000).contains(&left),
            "{key} lives for {left} ms"
        );
    }
}

#[test]
fn b06_after_script_flush_the_request_that_met_noscript_is_counted_once() {
    for link in Link::EVERY {
        for limit in [per_key("sliding-log", "5/1h"), bucket("5/1h", 5)] {
            let mesh = mesh(link, policy("deny", PATIENT, json!([limit])))
                .patient()
                .workers(2)
                .start();
            assert_eq!(statuses(&mesh, "a", 2), [200; 2]);
            mesh.redis.call::<()>(&["SCRIPT", "FLUSH"]);
            assert_eq!(statuses(&mesh, "a", 4), [200, 200, 200, 429], "{link:?}");
        }
    }
}

#[test]
fn b06_a_script_cache_that_is_flushed_all_the_time_costs_one_eval_per_request_at_most() {
    for link in Link::EVERY {
        let limits = json!([per_key("sliding-log", "50/1h")]);
        let mesh = mesh(link, policy("deny", PATIENT, limits))
            .patient()
            .workers(2)
            .start();
        let ask = get("/").header("x-api-key", "a");
        let load = Load::start(&mesh.addresses(), 4, Duration::from_millis(20), &ask);
        let started = Instant::now();
        while started.elapsed() < Duration::from_secs(2) {
            mesh.redis.call::<()>(&["SCRIPT", "FLUSH"]);
            std::thread::sleep(Duration::from_millis(50));
        }
        let outcomes = load.stop();
        let allowed = outcomes
            .iter()
            .filter(|outcome| outcome.status() == 200)
            .count();
        let refused = outcomes
            .iter()
            .filter(|outcome| outcome.status() == 429)
            .count();
        assert_eq!(allowed, 50, "{link:?}");
        assert_eq!(allowed + refused, outcomes.len(), "{link:?}");
        let evals = mesh.redis.calls_of("eval");
        assert!(evals > 0, "{link:?}: the flushes were met");
        assert!(
            evals <= outcomes.len() as u64,
            "{link:?}: {evals} EVALs, {} requests",
            outcomes.len()
        );
    }
}

#[test]
fn a_restart_of_redis_under_load_gives_no_5xx_and_enforcement_is_back_within_a_second() {
    for link in Link::EVERY {
        let limits = json!([per_key("sliding-log", "5/1h")]);
        let mut mesh = mesh(link, policy("allow", "20ms", limits))
            .envoys(2)
            .workers(2)
            .start();
        let ask = get("/").header("x-api-key", "a");
        let load = Load::start(&mesh.addresses(), 4, Duration::from_millis(5), &ask);
        until_refused(&mesh);
        for _ in 0..3 {
            mesh.redis.stop();
            let hits = mesh.echo.hits();
            until_within(
                Duration::from_secs(5),
                "requests to pass without Redis",
                || mesh.echo.hits() > hits + 50,
            );
            mesh.redis.restart();
            let took = until_refused(&mesh);
            assert!(
                took < Duration::from_secs(1),
                "{link:?}: enforced again after {took:?}"
            );
        }
        let outcomes = load.stop();
        let odd = outcomes
            .iter()
            .find(|outcome| ![200, 429].contains(&outcome.status()));
        assert!(odd.is_none(), "{link:?}: {odd:?}");
    }
}

/// Waits until both Envoys refuse the key of the load, eight connections in a row each, so that every
/// worker has had its turn.
fn until_refused(mesh: &Mesh) -> Duration {
    let ask = get("/").header("x-api-key", "a");
    until_within(Duration::from_secs(10), "the limit to be enforced", || {
        mesh.addresses()
            .iter()
            .all(|address| (0..8).all(|_| ask.to(*address).status == 429))
    })
}
