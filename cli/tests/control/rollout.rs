//! Real Envoys that are told something through Redis.

use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::client::{Ask, Connection, get};
use support::config::Link;
use support::envoy::Envoy;
use support::load::{Load, Outcome};
use support::mesh::{Mesh, mesh, policy};
use support::until_within;

use super::{limit, on, push};

const SECOND: Duration = Duration::from_secs(1);
pub const WORKERS: u64 = 2;

/// Two Envoys with two workers each that start with this rate and follow what is pushed.
fn following(rate: &str) -> Mesh {
    let mut policy = policy("deny", "2s", limit(rate)["limits"].clone());
    policy["control"] = json!({"policy": true});
    mesh(Link::Straight, policy)
        .patient()
        .envoys(2)
        .workers(2)
        .start()
}

fn ask(key: &str) -> Ask {
    get("/").header("x-api-key", key)
}

/// Enough connections that every worker has some.
fn load(mesh: &Mesh, ask: &Ask) -> Load {
    Load::start(&mesh.addresses(), 12, Duration::from_millis(10), ask)
}

pub fn gauge(envoy: &Envoy, name: &str) -> u64 {
    envoy.stat(&format!("wasmcustom.{name}"))
}

/// Sends requests until every worker of every Envoy goes by this policy; how long that took.
pub fn until_in_force<R>(mesh: &Mesh<R>, number: u64) -> Duration {
    let name = format!("aforo_policy_workers.version.{number}");
    until_within(
        Duration::from_secs(20),
        &format!("policy {number} on every worker"),
        || {
            for address in mesh.addresses() {
                for _ in 0..4 {
                    let _ = ask("anybody").to(address);
                }
            }
            mesh.envoys
                .iter()
                .all(|envoy| gauge(envoy, &name) == WORKERS)
        },
    )
}

/// Sends requests over new connections, which come to every worker, until so many have heeded the switch.
pub fn until_switched<R>(mesh: &Mesh<R>, workers: u64) {
    until_within(Duration::from_secs(10), "the gauge of the switch", || {
        for address in mesh.addresses() {
            let _ = ask("anybody").to(address);
        }
        let gauges = mesh.envoys.iter();
        gauges
            .map(|envoy| gauge(envoy, "aforo_shadow_switch"))
            .all(|count| count == workers)
    });
}

/// Waits until eight connections in a row to each Envoy are answered like this.
pub fn until_all_answer<R>(mesh: &Mesh<R>, key: &str, status: u16) {
    let what = format!("{status} on every worker");
    until_within(Duration::from_secs(10), &what, || {
        let addresses = mesh.addresses();
        let mut all = addresses.iter();
        all.all(|address| (0..8).all(|_| ask(key).to(*address).status == status))
    });
}

fn sent_after(outcomes: &[Outcome], moment: Instant) -> impl Iterator<Item = &Outcome> {
    outcomes.iter().filter(move |outcome| outcome.sent > moment)
}

/// What was enforced for the requests that were sent from `from` to `to`.
fn limits(outcomes: &[Outcome], from: Instant, to: Instant) -> Vec<i64> {
    let mut limits: Vec<i64> = sent_after(outcomes, from)
        .filter(|outcome| outcome.sent < to)
        .filter_map(|outcome| Some(outcome.answer.as_ref().ok()?.number("x-ratelimit-limit")))
        .collect();
    limits.sort_unstable();
    limits.dedup();
    limits
}

#[test]
fn the_kill_switch_holds_within_a_second_on_two_envoys_of_two_workers_and_back() {
    let limits = limit("1/1h")["limits"].clone();
    let plan = mesh(Link::Straight, policy("deny", "2s", limits));
    let mesh = plan.patient().envoys(2).workers(2).start();
    let load = load(&mesh, &ask("a"));
    let turn = |turn: &str| {
        let started = Instant::now();
        on(&mesh.redis, &["switch", turn]).with(0);
        let turned = Instant::now();
        std::thread::sleep(3 * SECOND);
        (started, turned, Instant::now())
    };
    std::thread::sleep(2 * SECOND);
    let on = turn("on");
    until_switched(&mesh, WORKERS);
    let off = turn("off");
    until_switched(&mesh, 0);
    let outcomes = load.stop();
    for ((_, turned, ended), status) in [(on, 200), (off, 429)] {
        let after: Vec<u16> = sent_after(&outcomes, turned + SECOND)
            .filter(|outcome| outcome.sent < ended)
            .map(Outcome::status)
            .collect();
        assert!(after.len() > 100, "{} requests", after.len());
        let other = after.iter().filter(|it| **it != status).count();
        assert_eq!(other, 0, "of {} that should be {status}", after.len());
    }
    let before = outcomes.iter().filter(|outcome| outcome.sent < on.0);
    assert_eq!(before.filter(|outcome| outcome.status() == 200).count(), 1);
}

#[test]
fn a_push_under_load_loses_nothing_and_a_bad_one_changes_nothing() {
    let mesh = following("50000/1h");
    let load = load(&mesh, &ask("a"));
    std::thread::sleep(SECOND);
    push(&mesh.redis, &limit("60000/1h")).with(0);
    let took = until_in_force(&mesh, 1);
    assert!(took < 3 * SECOND, "every worker after {took:?}");
    let in_force = Instant::now();

    push(&mesh.redis, &limit("ten/1h")).with(1);
    let head = "aforo:policy:{aforo:control}:";
    let mut other = limit("70000/1h");
    other["domain"] = json!("another");
    for (number, bad) in [(8, "{\"limits\": []}".to_owned()), (9, other.to_string())] {
        mesh.redis
            .call::<()>(&["SET", &format!("{head}{number}"), &bad]);
        mesh.redis
            .call::<()>(&["SET", "aforo:control", &format!("policy={number}")]);
        let refused = |envoy: &Envoy| gauge(envoy, "aforo_policies_total.result.refused");
        let each = WORKERS * (number - 7);
        until_within(Duration::from_secs(10), "every worker to refuse it", || {
            mesh.envoys.iter().all(|envoy| refused(envoy) == each)
        });
    }
    mesh.redis
        .call::<()>(&["SET", "aforo:control", "policy=10"]);
    std::thread::sleep(SECOND);
    let bad_ended = Instant::now();
    on(&mesh.redis, &["rollback", "--to", "1"]).with(0);
    push(&mesh.redis, &limit("80000/1h")).with(0);
    until_in_force(&mesh, 2);
    on(&mesh.redis, &["rollback"]).with(0);
    let took = until_in_force(&mesh, 1);
    assert!(took < 3 * SECOND, "back after {took:?}");

    let outcomes = load.stop();
    let odd = outcomes.iter().find(|outcome| outcome.status() != 200);
    assert!(odd.is_none(), "of {}: {odd:?}", outcomes.len());
    assert_eq!(limits(&outcomes, in_force, bad_ended), [60_000]);
}

#[test]
fn a_redis_that_is_away_leaves_the_last_policy_and_one_that_forgot_gives_back_each_proxys_own() {
    let mut mesh = following("5/1h");
    let mut pushed = limit("7/1h");
    pushed["outage"] = json!("deny");
    pushed["reply"] = json!({"status": {"outage": 599}});
    push(&mesh.redis, &pushed).with(0);
    until_in_force(&mesh, 1);
    mesh.redis.freeze();
    for envoy in &mesh.envoys {
        for _ in 0..4 {
            assert_eq!(ask("frozen").to(envoy.address()).status, 599);
        }
        assert_eq!(gauge(envoy, "aforo_policy_workers.version.1"), WORKERS);
    }
    mesh.redis.thaw();
    let shows = |mesh: &Mesh, limit: &str| {
        until_within(
            Duration::from_secs(20),
            "a verdict under the policy",
            || {
                mesh.addresses().iter().all(|address| {
                    (0..8).all(|_| ask("b").to(*address).header("x-ratelimit-limit") == Some(limit))
                })
            },
        );
    };
    shows(&mesh, "7");
    mesh.redis.restart();
    shows(&mesh, "5");
    push(&mesh.redis, &limit("9/1h")).with(0);
    shows(&mesh, "9");
}

#[test]
fn from_none_to_all_by_pushes_the_set_of_refused_clients_only_grows() {
    let mesh = following("1/1h");
    let mut client = Connection::http1(mesh.address());
    let mut refused = |expected: std::ops::RangeInclusive<usize>| {
        let asks = (0..1_000).map(|client| ask(&format!("client-{client}")));
        let refused: Vec<bool> = asks.map(|ask| client.send(&ask).status == 429).collect();
        let count = refused.iter().filter(|refused| **refused).count();
        assert!(
            expected.contains(&count),
            "{count} of 1 000, not {expected:?}"
        );
        refused
    };
    let mut last = vec![false; 1_000];
    for (number, (percent, expected)) in [
        (0, 0..=0),
        (0, 0..=0),
        (10, 60..=140),
        (50, 440..=560),
        (100, 1_000..=1_000),
    ]
    .into_iter()
    .enumerate()
    {
        // The first round uses up what each client may have.
        if number > 0 || percent > 0 {
            let mut policy = limit("1/1h");
            policy["limits"][0]["enforce_percent"] = json!(percent);
            push(&mesh.redis, &policy).with(0);
            until_in_force(&mesh, number as u64);
        }
        let now = refused(expected);
        let left = last
            .iter()
            .zip(&now)
            .filter(|(was, is)| **was && !**is)
            .count();
        assert_eq!(left, 0, "clients were let in again at {percent} %");
        last = now;
    }
}

#[test]
fn a_policy_that_denies_everybody_can_be_switched_off_and_rolled_back() {
    let mesh = following("1000/1h");
    let mut denies = limit("1000/1h");
    denies["limits"][0]["missing"] = json!("deny");
    denies["limits"][0]["key"] = json!(["header:x-nobody-sends-this"]);
    push(&mesh.redis, &denies).with(0);
    until_in_force(&mesh, 1);
    until_all_answer(&mesh, "a", 403);
    on(&mesh.redis, &["switch", "on"]).with(0);
    until_all_answer(&mesh, "a", 200);
    on(&mesh.redis, &["switch", "off"]).with(0);
    until_all_answer(&mesh, "a", 403);
    on(&mesh.redis, &["rollback"]).with(0);
    until_all_answer(&mesh, "a", 200);
}

#[test]
fn the_gauge_of_the_switch_comes_back_to_zero_after_a_reload_under_it() {
    let limits: Value = limit("5/1h")["limits"].clone();
    let plan = mesh(Link::Straight, policy("deny", "2s", limits));
    let mesh = plan.patient().start();
    let reads = |expected: u64| {
        until_within(Duration::from_secs(20), "the gauge", || {
            let _ = ask("a").to(mesh.address());
            gauge(mesh.envoy(), "aforo_shadow_switch") == expected
        });
    };
    let own = || gauge(mesh.envoy(), "aforo_policy_workers.version.0");
    on(&mesh.redis, &["switch", "on"]).with(0);
    reads(1);
    assert_eq!(own(), 1);
    let mut config = mesh.config.clone();
    config.policy(&policy("deny", "2s", limit("6/1h")["limits"].clone()));
    assert!(mesh.envoy().reload(&config));
    until_within(
        Duration::from_secs(10),
        "the new plugin to have a link",
        || {
            let _ = ask("a").to(mesh.address());
            mesh.envoy().log_lines_with("link to Redis is up") == 2
        },
    );
    until_within(
        Duration::from_secs(20),
        "the old listener to be gone",
        || {
            let draining = "listener_manager.total_listeners_draining";
            mesh.envoy().stat(draining) == 0 && mesh.envoy().log_lines_with("switch is on") == 2
        },
    );
    reads(1);
    on(&mesh.redis, &["switch", "off"]).with(0);
    reads(0);
    assert_eq!(own(), 1);
}
