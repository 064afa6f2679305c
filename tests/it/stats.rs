//! Metric names are written once: every copy in documentation, dashboard and alerts is held against
//! the table.

use std::{collections::BTreeSet, fs};

use aforo::{
    outage::Silence,
    redis::error::ErrorKind,
    stats::{self, CAUSES, Kind, METRICS, Metric},
};

pub fn file(path: &str) -> String {
    let path = format!("{}/{path}", env!("CARGO_MANIFEST_DIR"));
    fs::read_to_string(&path).unwrap_or_else(|error| panic!("{path}: {error}"))
}

/// `aforo_x{a="b",c=~"d|e"}` as it stands in a query.
#[derive(Debug, PartialEq)]
pub struct Selector {
    pub metric: String,
    pub matchers: Vec<(String, String)>,
}

/// Every selector of our metrics in a text, and every label it groups by.
pub fn read_query(query: &str) -> (Vec<Selector>, BTreeSet<String>) {
    let is_word = |c: char| c.is_ascii_alphanumeric() || c == '_';
    let mut selectors = Vec::new();
    let mut rest = query;
    while let Some(at) = rest.find("aforo_") {
        let (name, after) =
            rest[at..].split_at(rest[at..].find(|c| !is_word(c)).unwrap_or(rest.len() - at));
        let braces = after
            .strip_prefix('{')
            .and_then(|inner| inner.split_once('}'));
        let matchers = braces.map_or_else(Vec::new, |(inner, _)| {
            let pairs = inner.split("\",").map(|pair| {
                let (label, value) = pair
                    .split_once('=')
                    .unwrap_or_else(|| panic!("{query}: {pair}"));
                let value = value.trim_start_matches('~').trim_matches('"');
                (label.trim_end_matches('!').to_owned(), value.to_owned())
            });
            pairs.collect()
        });
        selectors.push(Selector {
            metric: name.to_owned(),
            matchers,
        });
        rest = after;
    }
    let grouped = query
        .split("by (")
        .skip(1)
        .filter_map(|after| after.split_once(')'));
    let labels = grouped
        .flat_map(|(labels, _)| labels.split(','))
        .map(|label| label.trim().to_owned());
    (selectors, labels.collect())
}

fn metric(name: &str) -> &'static Metric {
    let of_histogram = ["_bucket", "_sum", "_count"]
        .iter()
        .find_map(|end| name.strip_suffix(end));
    let found = METRICS.iter().find(|metric| match metric.kind {
        Kind::Histogram => of_histogram == Some(metric.name),
        Kind::Counter | Kind::Gauge => metric.name == name,
    });
    found.unwrap_or_else(|| panic!("no such series: {name}"))
}

/// Fails unless every series and label of a query exists.
fn check_query(query: &str) -> usize {
    let (selectors, grouped) = read_query(query);
    for Selector {
        metric: name,
        matchers,
    } in &selectors
    {
        let metric = metric(name);
        for (label, value) in matchers {
            if label == "instance" {
                continue;
            }
            let found = metric.labels.iter().find(|(known, _)| known == label);
            let (_, values) =
                found.unwrap_or_else(|| panic!("{name} has no label {label}: {query}"));
            for value in value.split('|').filter(|value| !value.starts_with('$')) {
                assert!(
                    values.contains(&value),
                    "{name} has no {label}={value}: {query}"
                );
            }
        }
        for label in grouped.iter().filter(|label| *label != "le") {
            let known = metric.labels.iter().any(|(known, _)| known == label);
            assert!(known, "{name} has no label {label} to group by: {query}");
        }
    }
    selectors.len()
}

#[test]
fn every_series_of_the_alerts_exists() {
    let alerts = file("deploy/prometheus/alerts.yaml");
    assert_eq!(support::yaml(&alerts)["groups"][0]["name"], "aforo");
    let lines: Vec<&str> = alerts
        .lines()
        .filter(|line| !line.trim().starts_with('#'))
        .collect();
    let rules: Vec<String> = lines
        .join("\n")
        .split("- alert:")
        .skip(1)
        .map(ToOwned::to_owned)
        .collect();
    assert_eq!(rules.len(), 3);
    for rule in rules {
        let (_, after) = rule.split_once("expr: |").expect("an expression");
        let (expression, prose) = after.split_once("for:").expect("a duration");
        assert!(check_query(expression) > 0, "{expression}");
        assert!(
            ["severity:", "summary:", "description:"]
                .iter()
                .all(|part| prose.contains(part))
        );
        check_query(prose);
    }
}

#[test]
fn every_series_of_the_dashboard_exists_and_every_metric_is_on_it() {
    let dashboard: serde_json::Value =
        serde_json::from_str(&file("deploy/grafana/aforo.json")).unwrap();
    let panels = dashboard["panels"].as_array().unwrap();
    let variables = dashboard["templating"]["list"].as_array().unwrap();
    let targets = panels
        .iter()
        .flat_map(|panel| panel["targets"].as_array().unwrap());
    let queries: Vec<&str> = targets
        .map(|target| &target["expr"])
        .chain(variables.iter().map(|variable| &variable["definition"]))
        .filter_map(|query| query.as_str())
        .collect();
    let mut seen = BTreeSet::new();
    for query in queries {
        assert!(check_query(query) > 0, "{query}");
        let (selectors, _) = read_query(query);
        seen.extend(
            selectors
                .iter()
                .map(|selector| metric(&selector.metric).name),
        );
    }
    assert_eq!(seen, METRICS.iter().map(|metric| metric.name).collect());
    let ids: BTreeSet<_> = panels.iter().map(|panel| panel["id"].as_u64()).collect();
    assert_eq!(ids.len(), panels.len(), "a panel's id is its own");
}

#[test]
fn the_tag_extractors_are_those_of_the_table() {
    for path in [
        "deploy/prometheus/stats-tags.yaml",
        "deploy/prometheus/istio-stats-tags.yaml",
    ] {
        let text = file(path);
        let lines: Vec<&str> = text.lines().map(str::trim).collect();
        let written: Vec<(&str, String)> = lines
            .windows(2)
            .filter_map(|pair| {
                let name = pair[0].strip_prefix("- tag_name: ")?;
                Some((
                    name,
                    pair[1]
                        .strip_prefix("regex: ")?
                        .trim_matches('\'')
                        .to_owned(),
                ))
            })
            .collect();
        assert_eq!(written, stats::tag_extractors(), "{path}");
        let _: serde_json::Value = support::yaml(&text);
    }
}

#[test]
fn the_documentation_has_the_table() {
    let text = file("docs/answers.md");
    let (_, after) = text
        .split_once("<!-- metrics -->\n")
        .expect("the table's beginning");
    let (table, _) = after
        .split_once("<!-- /metrics -->")
        .expect("the table's end");
    assert_eq!(table, stats::markdown());
}

#[test]
fn every_cause_that_can_be_counted_is_listed() {
    let errors = ErrorKind::ALL.iter().map(|kind| kind.label());
    let silences = [
        Silence::TimedOut,
        Silence::Unreachable,
        Silence::Lost,
        Silence::Full,
        Silence::Garbage,
        Silence::Foreign,
        Silence::Skipped,
    ];
    let known: BTreeSet<&str> = errors
        .chain(silences.iter().map(|why| why.label()))
        .collect();
    assert_eq!(known, CAUSES.iter().copied().collect());
}

#[test]
fn queries_are_read_as_they_are_written() {
    let (selectors, grouped) =
        read_query(r#"sum by (limit, le) (rate(aforo_a_total{x="y",z=~"p|$q"}[5m])) / aforo_b"#);
    let matchers = vec![("x".into(), "y".into()), ("z".into(), "p|$q".into())];
    assert_eq!(
        selectors,
        [
            Selector {
                metric: "aforo_a_total".into(),
                matchers
            },
            Selector {
                metric: "aforo_b".into(),
                matchers: vec![]
            },
        ]
    );
    assert_eq!(grouped, BTreeSet::from(["limit".into(), "le".into()]));
}
