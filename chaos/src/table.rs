//! Reports as a table for people.

use std::time::Duration;

use support::config::Link;

use crate::row::Row;
use crate::run::Report;

/// The head of the table.
pub const HEAD: &str = "\
| what breaks | link | workers | outage | requests | allowed | refused | outage answers | why | p99, worst added | p99, worst without the filter | back after | over-admitted | hung | Envoy, MiB |
|---|---|---|---|---|---|---|---|---|---|---|---|---|---|---|
";

/// A report's lines of the table, one for each answer to an outage.
#[must_use]
pub fn lines(report: &Report) -> String {
    report.rows.iter().map(|row| line(report, row)).collect()
}

fn line(report: &Report, row: &Row) -> String {
    let link = match report.link {
        Link::RedisProxy => "redis_proxy",
        Link::Straight => "straight",
        Link::Cluster => "a cluster",
        Link::Webdis | Link::Upstash => "a gateway",
    };
    let outages = match (row.outages, row.outages_refused) {
        (all, 0) => format!("{all}"),
        (all, refused) => format!("{all} ({refused} refused)"),
    };
    let back = row.back.map_or_else(|| "–".to_owned(), millis);
    format!(
        "| {} | {link} | {} | {} | {} | {} | {} | {outages} | {} | {}, {} | {}, {} | {back} | {} | {} | {} → {} |\n",
        report.title,
        report.workers,
        row.stream.word(),
        row.requests,
        row.allowed,
        row.refused,
        causes(row),
        millis(row.added.p99),
        millis(row.added.worst),
        millis(row.control.p99),
        millis(row.control.worst),
        row.over_admitted,
        row.hung,
        mebibytes(report.before_kib),
        mebibytes(report.after_kib),
    )
}

/// The causes, the most frequent first.
fn causes(row: &Row) -> String {
    let mut causes: Vec<_> = row.causes.iter().collect();
    causes.sort_by_key(|(name, count)| (std::cmp::Reverse(**count), *name));
    let words = causes.iter().map(|(name, count)| format!("{name} {count}"));
    words.collect::<Vec<_>>().join(", ")
}

fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1_000.0)
}

fn mebibytes(kib: u64) -> String {
    format!("{}.{}", kib / 1024, kib % 1024 * 10 / 1024)
}
