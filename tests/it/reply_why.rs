//! What an operator finds: the access log, the debug header, and a real scrape of the metrics.

use std::collections::BTreeMap;

use aforo::stats;
use serde_json::{Value, json};
use support::client::{Ask, get};
use support::config::{Config, Link};
use support::echo::Echo;
use support::envoy::Envoy;
use support::mesh::{Plan, mesh, per_key, policy, turn};
use support::redis::Redis;
use support::{Dir, until};

use crate::stats::{file, read_query};

const PATIENT: &str = "2s";
const SECRET: &str = "correct horse battery staple";

fn plan(outage: &str) -> Plan {
    let mut shadow = per_key("token-bucket", "1/1h");
    shadow["name"] = json!("shadow");
    shadow["mode"] = json!("shadow");
    let mut strict = per_key("sliding-log", "5/1m");
    strict["name"] = json!("needs-key");
    strict["when"] = json!({ "path": "/strict" });
    strict["missing"] = json!("deny");
    let mut per_key = per_key("sliding-log", "2/1m");
    per_key["when"] = json!({ "path": "/api" });
    shadow["when"] = json!({ "path": "/api" });
    let mut policy = policy(outage, PATIENT, json!([per_key, shadow, strict]));
    policy["reply"] = json!({ "debug_secret": SECRET });
    mesh(Link::Straight, policy)
}

fn ask(path: &str) -> Ask {
    get(path).header("x-api-key", "s3cret-key")
}

/// `a=b c=d` as pairs.
fn pairs(line: &str) -> BTreeMap<&str, &str> {
    line.split(' ')
        .filter_map(|pair| pair.split_once('='))
        .collect()
}

#[test]
fn every_decision_leaves_its_reason_in_the_access_log() {
    let _turn = turn();
    let (mut redis, echo, dir) = (Redis::start(), Echo::start(), Dir::temporary("access-log"));
    let mut config = plan("allow").config(redis.port(), echo.port());
    let path = dir.join("access.log");
    config.manager()["access_log"] = json!([{
        "name": "file",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.access_loggers.file.v3.FileAccessLog",
            "path": path,
            "log_format": { "text_format_source": { "inline_string":
                "%RESPONSE_CODE% %RESPONSE_CODE_DETAILS% [%FILTER_STATE(wasm.aforo:PLAIN)%]\n",
            } },
        },
    }]);
    let envoy = Envoy::start(&config, 1);
    let send = |ask: Ask| ask.to(envoy.address()).status;
    assert_eq!([200, 200, 429].map(|_| send(ask("/api"))), [200, 200, 429]);
    assert_eq!(send(get("/strict")), 403);
    assert_eq!(send(get("/other")), 200);
    redis.stop();
    assert_eq!(send(ask("/api")), 200);
    let mut lines = Vec::new();
    until("six lines in the access log", || {
        let text = std::fs::read_to_string(&path).unwrap_or_default();
        lines = text.lines().map(ToOwned::to_owned).collect();
        lines.len() == 6
    });
    let expected = [
        "200 via_upstream [verdict=allowed limit=per-key",
        "200 via_upstream [verdict=allowed limit=per-key",
        "429 aforo_limited [verdict=refused limit=per-key",
        "403 aforo_denied [verdict=denied limit=needs-key from=rules]",
        "200 via_upstream [-]",
        "200 via_upstream [verdict=allowed from=outage cause=",
    ];
    for (line, expected) in lines.iter().zip(expected) {
        assert!(line.starts_with(expected), "{line}");
        assert!(!line.contains("s3cret"), "{line}");
    }
    let (_, refusal) = lines[2].split_once('[').expect("a reason");
    let refusal = pairs(refusal.trim_end_matches(']'));
    assert_eq!((refusal["remaining"], refusal["from"]), ("0", "redis"));
    assert!((1..=60_000).contains(&refusal["wait_ms"].parse::<u64>().expect("a number")));
    assert!(refusal["us"].parse::<u64>().expect("a number") > 0);
    let (_, allowed) = lines[1].split_once('[').expect("a reason");
    let allowed = pairs(allowed.trim_end_matches(']'));
    assert_eq!(
        (allowed["remaining"], allowed["would_refuse"]),
        ("0", "shadow")
    );
    assert_eq!(
        allowed["key"], refusal["key"],
        "one client, one fingerprint"
    );
}

#[test]
fn who_knows_the_secret_sees_the_reason_and_no_upstream_sees_the_secret() {
    let mesh = plan("deny").start();
    let debug = |secret: &str| {
        ask("/api")
            .header("x-aforo-debug", secret)
            .to(mesh.address())
    };
    let shown = debug(SECRET);
    let reason = shown.header("x-aforo-debug").expect("the reason");
    assert_eq!(pairs(reason)["verdict"], "allowed");
    assert_eq!(debug("guess").header("x-aforo-debug"), None);
    let refused = debug(SECRET);
    let reason = refused.header("x-aforo-debug").expect("the reason");
    assert_eq!((refused.status, pairs(reason)["verdict"]), (429, "refused"));
    for seen in mesh.echo.take_seen() {
        assert_eq!(seen.headers.get("x-aforo-debug"), None);
    }
}

/// The series of a scrape: name, labels, value.
type Series = Vec<(String, BTreeMap<String, String>, f64)>;

fn scrape(envoy: &Envoy) -> Series {
    let text = envoy.admin("/stats/prometheus");
    let lines = text.lines().filter(|line| line.starts_with("aforo_"));
    lines
        .map(|line| {
            let (series, value) = line.rsplit_once(' ').expect("a value");
            let (name, labels) = series.split_once('{').expect("labels");
            let labels = labels.trim_end_matches('}').split(',').filter_map(|label| {
                let (name, value) = label.split_once('=')?;
                Some((name.to_owned(), value.trim_matches('"').to_owned()))
            });
            (
                name.to_owned(),
                labels.collect(),
                value.parse().expect("a number"),
            )
        })
        .collect()
}

/// The sum of the series of a metric that have these labels.
fn sum(series: &Series, name: &str, labels: &[(&str, &str)]) -> f64 {
    let matches = |of: &BTreeMap<String, String>| {
        labels
            .iter()
            .all(|(label, value)| of.get(*label).is_some_and(|found| found == value))
    };
    let found = series
        .iter()
        .filter(|(found, of, _)| found == name && matches(of));
    found.map(|(.., value)| value).sum()
}

fn with_tags(config: &mut Config) {
    let tags = stats::tag_extractors().into_iter();
    let tags: Vec<Value> = tags
        .map(|(name, regex)| json!({ "tag_name": name, "regex": regex }))
        .collect();
    config.value()["stats_config"] = json!({ "stats_tags": tags });
}

#[test]
fn a_real_scrape_has_every_series_that_dashboard_and_alerts_ask_for() {
    let mesh = plan("allow").workers(2).change(with_tags).start();
    for _ in 0..3 {
        let _ = ask("/api").to(mesh.address());
    }
    let _ = get("/strict").to(mesh.address());
    let _ = get("/other").to(mesh.address());
    let mut series = Series::new();
    // Counts are handed over at the next tick, histograms every few seconds.
    support::until_within(
        std::time::Duration::from_secs(15),
        "a histogram in the scrape",
        || {
            series = scrape(mesh.envoy());
            sum(&series, "aforo_redis_microseconds_count", &[]) >= 3.0
                && sum(&series, "aforo_requests_total", &[]) >= 5.0
        },
    );
    for (name, labels, value) in [
        ("aforo_requests_total", &[("outcome", "allowed")][..], 2.0),
        ("aforo_requests_total", &[("outcome", "limited")], 1.0),
        ("aforo_requests_total", &[("outcome", "denied")], 1.0),
        ("aforo_requests_total", &[("outcome", "unmatched")], 1.0),
        ("aforo_verdicts_total", &[("source", "redis")], 3.0),
        (
            "aforo_decisions_total",
            &[("limit", "per-key"), ("verdict", "admitted")],
            2.0,
        ),
        (
            "aforo_decisions_total",
            &[("limit", "per-key"), ("verdict", "refused")],
            1.0,
        ),
        (
            "aforo_decisions_total",
            &[("limit", "shadow"), ("verdict", "admitted")],
            1.0,
        ),
        (
            "aforo_decisions_total",
            &[("limit", "shadow"), ("verdict", "would_refuse")],
            2.0,
        ),
        ("aforo_pending", &[], 0.0),
        ("aforo_breakers_open", &[], 0.0),
        ("aforo_outages_total", &[], 0.0),
    ] {
        let found = sum(&series, name, labels);
        assert!((found - value).abs() < 0.5, "{name} {labels:?}: {found}");
    }
    let up = sum(&series, "aforo_links_up", &[]);
    assert!((1.0..=2.0).contains(&up), "{up} links for two workers");
    let dashboard: Value = serde_json::from_str(&file("deploy/grafana/aforo.json")).expect("JSON");
    let targets = dashboard["panels"].as_array().expect("panels").iter();
    let targets = targets.flat_map(|panel| panel["targets"].as_array().expect("targets"));
    let mut queries: Vec<String> = targets
        .map(|target| target["expr"].as_str().expect("a query").to_owned())
        .collect();
    queries.push(file("deploy/prometheus/alerts.yaml"));
    for query in queries {
        for selector in read_query(&query).0 {
            let exists = series.iter().any(|(name, labels, _)| {
                *name == selector.metric
                    && selector.matchers.iter().all(|(label, value)| {
                        let found = labels.get(label);
                        let wanted = value.split('|').any(|value| {
                            value.starts_with('$') || found.is_some_and(|found| found == value)
                        });
                        label == "instance" || wanted
                    })
            });
            assert!(exists, "not in the scrape: {selector:?}");
        }
    }
}

#[test]
fn b72_gauges_stay_true_over_reloads() {
    let mesh = plan("deny").workers(1).start();
    let gauge = |name: &str| mesh.envoy().stat(&format!("wasmcustom.{name}"));
    let mut policies = ["allow", "deny"].into_iter().cycle();
    for _ in 0..4 {
        assert_eq!(ask("/other").to(mesh.address()).status, 200);
        let _ = ask("/api").to(mesh.address());
        until("one link", || gauge("aforo_links_up") == 1);
        let plan = plan(policies.next().expect("a cycle"));
        let config = plan.config(mesh.redis.port(), mesh.echo.port());
        assert!(mesh.envoy().reload(&config));
    }
    let _ = ask("/api").to(mesh.address());
    until("one link after the last reload", || {
        gauge("aforo_links_up") == 1
    });
    until("nobody waiting", || gauge("aforo_pending") == 0);
}
