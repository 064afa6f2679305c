//! The VM and its configuration: a trap, reloads under load, two VMs where there must be one, bad policies.

use std::time::Duration;

use serde_json::{Value, json};
use support::client::{Silence, get};
use support::config::Link;
use support::envoy::Envoy;
use support::load::{Load, Outcome};
use support::mesh::{Mesh, mesh, per_key, policy};
use support::{Module, until, until_within};

/// Waits until every worker has refused the exhausted key "a": sixteen new connections in a row.
fn until_enforced(mesh: &Mesh) -> Duration {
    let ask = get("/").header("x-api-key", "a");
    until_within(Duration::from_secs(10), "the limit to be enforced", || {
        (0..16).all(|_| ask.to(mesh.address()).status == 429)
    })
}

fn none_hung(outcomes: &[Outcome], case: &str) {
    let hung = outcomes
        .iter()
        .filter(|outcome| matches!(outcome.answer, Err(Silence::Hung)))
        .count();
    assert_eq!(hung, 0, "{case}: of {} requests", outcomes.len());
}

#[test]
fn b42_a_trapped_vm_is_replaced_nothing_hangs_and_the_link_is_back_within_a_second() {
    for link in Link::ALL {
        for outage in ["allow", "deny"] {
            let case = format!("{link:?}, {outage}");
            let limits = json!([per_key("sliding-log", "5/1h")]);
            let plan = mesh(link, policy(outage, "20ms", limits))
                .workers(2)
                .module(Module::Trap);
            let idle = |config: &mut support::config::Config| {
                config.manager()["stream_idle_timeout"] = json!("1s");
            };
            let mut mesh = plan.change(idle).start();
            mesh.envoys[0].traps_are_expected();
            let ask = get("/").header("x-api-key", "a");
            let load = Load::start(&mesh.addresses(), 8, Duration::from_millis(5), &ask);
            until_enforced(&mesh);
            for _ in 0..4 {
                let trap = get("/")
                    .header("x-api-key", "a")
                    .header("x-aforo-trap", "1");
                assert_eq!(
                    trap.to(mesh.address()).status,
                    503,
                    "{case}: the request that traps"
                );
                let took = until_enforced(&mesh);
                assert!(
                    took < Duration::from_secs(1),
                    "{case}: enforced again after {took:?}"
                );
            }
            let outcomes = load.stop();
            none_hung(&outcomes, &case);
            let slowest = outcomes
                .iter()
                .filter_map(|o| Some(o.answer.as_ref().ok()?.took))
                .max();
            assert!(
                slowest < Some(Duration::from_millis(2_500)),
                "{case}: {slowest:?}"
            );
            assert!(
                mesh.envoy().log_lines_with("panicked at") >= 4,
                "{case}: it did trap"
            );
        }
    }
}

#[test]
fn b72_both_listeners_reloaded_ten_times_under_load_lose_no_request_and_no_count() {
    for link in Link::ALL {
        let limits = |rate: &str| json!([per_key("sliding-log", rate)]);
        let policy = |rate: &str| policy("deny", "1s", limits(rate));
        let mesh = mesh(link, policy("50/1h")).patient().workers(2).start();
        let ask = get("/").header("x-api-key", "b");
        let load = Load::start(&mesh.addresses(), 8, Duration::from_millis(5), &ask);
        until("the load to run", || mesh.echo.hits() > 10);
        for round in 0..10 {
            let mut config = mesh.config.clone();
            if round % 2 == 0 {
                // Another text, the same meaning.
                config.policy_text(&format!(" {}", policy("50/1h")));
            }
            config.link_settings(&json!({ "role": "link" }));
            let mark = json!({ "filter_metadata": { "reload": { "round": round } } });
            config.listener("http")["metadata"] = mark.clone();
            config.listener("aforo-link")["metadata"] = mark;
            assert!(mesh.envoy().reload(&config), "{link:?}: Envoy takes it");
            let key = format!("after {round}");
            let answer = get("/").header("x-api-key", &key);
            let counted = until_within(Duration::from_secs(5), "the link after a reload", || {
                answer
                    .to(mesh.address())
                    .header("x-ratelimit-remaining")
                    .is_some()
            });
            assert!(
                counted < Duration::from_secs(2),
                "{link:?}: the link is back after {counted:?}"
            );
        }
        let outcomes = load.stop();
        none_hung(&outcomes, &format!("{link:?}"));
        let odd = outcomes
            .iter()
            .find(|outcome| ![200, 429].contains(&outcome.status()));
        assert!(odd.is_none(), "{link:?}: {odd:?}");
        let allowed = outcomes
            .iter()
            .filter(|outcome| outcome.status() == 200)
            .count();
        assert_eq!(allowed, 50, "{link:?}: of {}", outcomes.len());
    }
}

#[test]
fn b72_thirty_reloads_of_a_big_policy_leave_memory_where_it_was() {
    let many = |rate: &str| {
        let mut limits: Vec<Value> = (0..200)
            .map(|number| {
                let mut limit = per_key("sliding-log", rate);
                limit["name"] = json!(format!("limit-{number}"));
                limit["mode"] = json!("off");
                limit
            })
            .collect();
        limits.push(per_key("sliding-log", rate));
        policy("deny", "1s", json!(limits))
    };
    let mesh = mesh(Link::RedisProxy, many("50000/1h"))
        .patient()
        .workers(2)
        .start();
    let reload = |number: usize| {
        let mut config = mesh.config.clone();
        config.policy(&many(&format!("{}/1h", 50_000 + number)));
        assert!(mesh.envoy().reload(&config));
        for _ in 0..8 {
            let answer = get("/").header("x-api-key", "a").to(mesh.address());
            assert_eq!(answer.status, 200, "{answer:?}");
        }
    };
    let drained = || {
        until("the old listeners to be gone", || {
            mesh.envoy()
                .stat("listener_manager.total_listeners_draining")
                == 0
        });
        mesh.envoy().process().resident_kib()
    };
    // Memory grows to what some reloads at once need, and stays there.
    (0..50).for_each(reload);
    let before = drained();
    (50..80).for_each(reload);
    let after = drained();
    // A VM that stayed behind would cost more than this at every reload.
    assert!(
        after.saturating_sub(before) < 8_192,
        "{before} → {after} KiB"
    );
}

#[test]
fn two_filters_that_are_not_in_one_vm_say_so_in_one_clear_line() {
    let limits = json!([per_key("sliding-log", "5/1h")]);
    let plan = mesh(Link::RedisProxy, policy("allow", "20ms", limits));
    let mesh = plan
        .change(|config| config.link()["vm_config"]["vm_id"] = json!("another"))
        .start();
    for _ in 0..3 {
        let answer = get("/").header("x-api-key", "a").to(mesh.address());
        assert_eq!(answer.status, 200);
        assert!(
            answer.header("x-ratelimit-remaining").is_none(),
            "{answer:?}"
        );
        assert!(answer.took < Duration::from_millis(200), "{answer:?}");
    }
    until("the log to say so", || {
        mesh.envoy().log_lines_with("vm_config") > 0
    });
}

#[test]
fn b38_a_policy_that_cannot_be_is_refused_with_its_path_and_the_old_one_stays() {
    let good = policy("deny", "1s", json!([per_key("sliding-log", "2/1h")]));
    let mesh = mesh(Link::RedisProxy, good.clone()).patient().start();
    let with = |pointer: &str, value: Value| {
        let mut bad = good.clone();
        *bad.pointer_mut(pointer).expect("the field") = value;
        bad.to_string()
    };
    let mut unknown = good.clone();
    unknown["limits"][0]["limt"] = json!(5);
    let cases = [
        (unknown.to_string(), "limits[0].limt"),
        (with("/limits/0/rate", json!("ten/1m")), "limits[0].rate"),
        (
            with("/limits/0/algorithm", json!("leaky-bucket")),
            "limits[0].algorithm",
        ),
        (with("/outage", json!("maybe")), "outage"),
        (with("/redis/timeout", json!("20 parsecs")), "redis.timeout"),
        (good.to_string().replace('}', "},"), "JSON"),
        (String::new(), "policy"),
        ("null".to_owned(), ""),
        ("[]".to_owned(), ""),
    ];
    for (text, path) in cases {
        let mut config = mesh.config.clone();
        config.policy_text(&text);
        let said = Envoy::validate(&config).expect_err(&text);
        let lines: Vec<&str> = said
            .lines()
            .filter(|line| line.contains("wasm log"))
            .collect();
        assert_eq!(lines.len(), 1, "one line, for {text}: {said}");
        assert!(lines[0].contains(path), "{path}: {lines:?}");
        assert!(
            !mesh.envoy().reload(&config),
            "Envoy refuses it while it runs: {text}"
        );
    }
    let statuses: Vec<u16> = (0..3)
        .map(|_| get("/").header("x-api-key", "a").to(mesh.address()).status)
        .collect();
    assert_eq!(
        statuses,
        [200, 200, 429],
        "the policy that was there still holds"
    );
}

#[test]
fn a_redis_with_a_password_is_reached_by_either_way_and_a_wrong_password_is_an_outage() {
    use support::{Dir, redis::Redis};
    for (link, password, works) in [
        (Link::Straight, "open sesame", true),
        (Link::Straight, "shut", false),
        (Link::RedisProxy, "open sesame", true),
        (Link::RedisProxy, "shut", false),
    ] {
        let redis = Redis::start_in(Dir::temporary("redis"), &["--requirepass", "open sesame"]);
        let mut policy = policy("deny", "1s", json!([per_key("sliding-log", "1/1h")]));
        let plan = match (link, works) {
            (Link::RedisProxy, true) => {
                mesh(link, policy).change(|c| c.redis_proxy_password("open sesame"))
            }
            (Link::RedisProxy, false) => {
                mesh(link, policy).change(|c| c.redis_proxy_password("shut"))
            }
            _ => {
                policy["redis"]["password"] = json!(password);
                mesh(link, policy)
            }
        };
        let mesh = plan.patient().start_with(redis);
        let expected = if works { [200, 429, 429] } else { [503; 3] };
        let statuses: Vec<u16> = (0..3)
            .map(|_| get("/").header("x-api-key", "a").to(mesh.address()).status)
            .collect();
        assert_eq!(statuses, expected, "{link:?}, {password}");
        assert!(
            !mesh.envoy().log().contains(password),
            "{link:?}: the password is in the log"
        );
    }
}
