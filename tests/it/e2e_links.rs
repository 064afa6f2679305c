//! What every way to Redis promises, in one table: the same policy, the same requests, the same answers.

use std::time::Duration;

use serde_json::{Value, json};
use support::client::{Answer, Ask, Connection, at_once, count, get};
use support::config::Link;
use support::hostile;
use support::mesh::{Mesh, Plan, mesh, per_key, policy};
use support::store::Store;
use support::{until, until_within};

/// Long enough that a busy machine never turns a verdict into an outage.
const PATIENT: &str = "2s";

support::over_every_link! {
    two_envoys_with_four_workers_each_allow_exactly_the_limit_of_400_requests_at_once,
    two_envoys_let_exactly_five_of_twenty_be_in_flight_and_five_more_after_them,
    a_refusal_says_what_was_used_up_and_when_to_come_back,
    b21_a_request_refused_by_one_limit_takes_nothing_from_the_other,
    b54_hostile_values_are_clients_of_their_own,
    without_redis_all_are_denied_in_time_and_limits_hold_again_after,
}

fn plan(link: Link, limits: Value) -> Plan {
    mesh(link, policy("deny", PATIENT, limits)).patient()
}

/// A limit of requests under this path alone.
fn under(path: &str, name: &str, key: Value, algorithm: &str, rate: &str) -> Value {
    json!({
        "name": format!("{path}-{name}"), "when": { "path": format!("/{path}") },
        "key": key, "algorithm": algorithm, "rate": rate,
    })
}

fn key(path: &str, key: &str) -> Ask {
    get(path).header("x-api-key", key)
}

fn statuses(mesh: &Mesh<Store>, ask: &Ask, times: usize) -> Vec<u16> {
    let address = mesh.address();
    (0..times).map(|_| ask.to(address).status).collect()
}

/// 400 requests at once, twenty times, against a limit of 100.
fn two_envoys_with_four_workers_each_allow_exactly_the_limit_of_400_requests_at_once(link: Link) {
    let own = || json!(["header:x-api-key"]);
    let mut bucket = under("bucket", "own", own(), "token-bucket", "10/1h");
    bucket["burst"] = json!(100);
    let limits = json!([under("log", "own", own(), "sliding-log", "100/1m"), bucket]);
    let mesh = plan(link, limits).envoys(2).workers(4).start_whole();
    let addresses = mesh.addresses();
    for round in 0..20 {
        let path = ["/log", "/bucket"][round % 2];
        let client = format!("round-{round}");
        let one = |number: usize| (addresses[number % 2], key(path, &client));
        let answers = at_once(&(0..400).map(one).collect::<Vec<_>>());
        let case = format!("{path}, round {round}");
        assert_eq!(count(&answers, 200), 100, "{case}");
        assert_eq!(count(&answers, 429), 300, "{case}");
        let hits = mesh.echo.hits_with("x-api-key", client.as_bytes());
        assert_eq!(hits, 100, "{case}");
    }
}

fn two_envoys_let_exactly_five_of_twenty_be_in_flight_and_five_more_after_them(link: Link) {
    let limits = json!([{
        "name": "at-once", "key": ["header:x-api-key"], "algorithm": "concurrency", "rate": 5,
    }]);
    let mesh = plan(link, limits).envoys(2).workers(2).start_whole();
    for round in 0..3 {
        let before = mesh.echo.hits();
        mesh.echo.hold();
        let addresses = mesh.addresses().into_iter().cycle();
        let mut open: Vec<_> = addresses.map(Connection::http1).take(20).collect();
        let asked = open.iter_mut().map(|one| one.start(&key("/", "a")));
        let asked: Vec<_> = asked.collect();
        until("fifteen refused, five held", || {
            let refused = asked.iter().filter(|one| one.is_answered()).count();
            (refused, mesh.echo.hits() - before) == (15, 5)
        });
        mesh.echo.go_on();
        let answers = asked
            .into_iter()
            .map(|one| one.finish().expect("an answer"));
        let answers: Vec<Answer> = answers.collect();
        let got = (count(&answers, 200), count(&answers, 429));
        assert_eq!(got, (5, 15), "round {round}");
        until("the leases to be given back", || {
            mesh.redis.keys().is_empty()
        });
    }
}

fn a_refusal_says_what_was_used_up_and_when_to_come_back(link: Link) {
    let mesh = plan(link, json!([per_key("sliding-log", "2/1h")])).start_whole();
    let before = mesh.echo.hits();
    for (remaining, status) in [(1, 200), (0, 200), (0, 429), (0, 429)] {
        let answer = key("/", "a").to(mesh.address());
        assert_eq!(answer.status, status, "{answer:?}");
        assert_eq!(answer.number("x-ratelimit-limit"), 2);
        assert_eq!(answer.number("x-ratelimit-remaining"), remaining);
        let reset = answer.number("x-ratelimit-reset");
        assert!((3_000..=3_600).contains(&reset), "{answer:?}");
        let policy = answer.header("ratelimit-policy");
        assert_eq!(policy, Some(r#""per-key";q=2;w=3600"#));
        let state = answer.header("ratelimit").expect("a state").to_owned();
        let expected = format!(r#""per-key";r={remaining};t="#);
        assert!(state.starts_with(&expected), "{state}");
        if status == 429 {
            let after = answer.number("retry-after");
            assert!((3_000..=3_600).contains(&after), "{answer:?}");
            assert_eq!(answer.header("x-envoy-ratelimited"), Some("true"));
            let body: Value = serde_json::from_slice(&answer.body).expect("JSON");
            assert_eq!(body["violated-policies"], json!(["per-key"]));
        } else {
            assert!(answer.header("retry-after").is_none(), "{answer:?}");
        }
    }
    assert_eq!(mesh.echo.hits() - before, 2, "no refused request passes");
    assert_eq!(key("/", "b").to(mesh.address()).status, 200);
}

/// Which algorithms stand together, the client's own limit first.
const PAIRS: [(&str, &str); 7] = [
    ("sliding-log", "sliding-log"),
    ("sliding-window", "sliding-window"),
    ("fixed-window", "fixed-window"),
    ("token-bucket", "token-bucket"),
    ("gcra", "gcra"),
    ("token-bucket", "sliding-log"),
    ("fixed-window", "token-bucket"),
];

fn b21_a_request_refused_by_one_limit_takes_nothing_from_the_other(link: Link) {
    let (mut paths, mut limits) = (Vec::new(), Vec::new());
    for (own, all) in PAIRS {
        let rate = if all == "fixed-window" {
            "10/30d"
        } else {
            "10/1h"
        };
        for order in ["own-first", "all-first"] {
            let path = format!("{own}-{all}-{order}");
            let mut both = [
                under(&path, "own", json!(["header:x-api-key"]), own, "1/30d"),
                under(&path, "all", json!([]), all, rate),
            ];
            if order == "all-first" {
                both.reverse();
            }
            limits.extend(both);
            paths.push(path);
        }
    }
    let mesh = plan(link, json!(limits)).start_whole();
    for path in &paths {
        let at = |client: &str| key(&format!("/{path}"), client);
        assert_eq!(
            statuses(&mesh, &at("alice"), 6),
            [200, 429, 429, 429, 429, 429],
            "{path}"
        );
        let of_all = key_of(&mesh, &format!("{path}-all"));
        if let Store::Cluster(cluster) = &mesh.redis {
            let own = key_of(&mesh, &format!("{path}-own"));
            assert_ne!(cluster.slot(&own), cluster.slot(&of_all), "two slots");
        }
        // The shared limit lost one to alice's only success: nine others pass, and no tenth.
        for number in 0..9 {
            let bob = at(&format!("bob-{number}"));
            assert_eq!(statuses(&mesh, &bob, 1), [200], "{path}, bob-{number}");
        }
        // The other way round: what the shared limit refuses takes nothing from one's own.
        assert_eq!(statuses(&mesh, &at("carol"), 3), [429; 3], "{path}");
        mesh.redis.remove(&of_all);
        assert_eq!(statuses(&mesh, &at("carol"), 2), [200, 429], "{path}");
    }
}

/// The key in Redis of the limit of this name.
fn key_of(mesh: &Mesh<Store>, limit: &str) -> String {
    let name = format!(":{limit}:");
    let keys = mesh.redis.keys();
    let found = keys.iter().find(|key| key.contains(&name));
    found
        .unwrap_or_else(|| panic!("no {name} in {keys:?}"))
        .clone()
}

fn b54_hostile_values_are_clients_of_their_own(link: Link) {
    let limits = json!([per_key("sliding-log", "2/1h")]);
    let mesh = plan(link, limits).workers(2).start_whole();
    let values = hostile::header_values();
    for value in &values {
        let got = statuses(&mesh, &key("/", value), 3);
        assert_eq!(got, [200, 200, 429], "{value:?}");
    }
    assert_eq!(mesh.redis.keys().len(), values.len());
}

fn without_redis_all_are_denied_in_time_and_limits_hold_again_after(link: Link) {
    let limits = json!([per_key("sliding-log", "5/1h")]);
    let mut mesh = mesh(link, policy("deny", "100ms", limits))
        .workers(2)
        .start_whole();
    let enforced = |mesh: &Mesh<Store>, what: &str| {
        until_within(Duration::from_secs(20), what, || {
            (0..8).all(|_| key("/", "a").to(mesh.address()).status == 429)
        });
    };
    enforced(&mesh, "the limit to be enforced");
    mesh.redis.stop();
    let before = mesh.echo.hits();
    for _ in 0..20 {
        let answer = key("/", "a").to(mesh.address());
        assert_eq!(answer.status, 503, "{answer:?}");
        assert!(answer.number("retry-after") >= 1, "{answer:?}");
        assert!(
            answer.header("x-ratelimit-remaining").is_none(),
            "{answer:?}"
        );
        assert!(answer.took < Duration::from_millis(500), "{answer:?}");
    }
    assert_eq!(mesh.echo.hits(), before, "nobody passes");
    mesh.redis.restart();
    enforced(&mesh, "the limit to be enforced again");
    // Five for Redis before it went, five for the one that came back empty.
    let passed = mesh.echo.hits_with("x-api-key", b"a");
    assert!((8..=10).contains(&passed), "{passed} passed");
}

#[test]
fn over_ecds_both_filters_come_from_files() {
    let limits = json!([per_key("sliding-log", "5/1h")]);
    let mesh = plan(Link::Ecds, limits).start_whole();
    for filter in ["http_filter.aforo", "network_filter.aforo-link"] {
        let name = format!("extension_config_discovery.{filter}.config_reload");
        assert_eq!(mesh.envoy().stat(&name), 1, "{name}");
    }
}
