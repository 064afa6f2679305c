//! Reports as a table for people.

use std::time::Duration;

use support::config::Link;
use support::root;

use crate::row::Row;
use crate::run::{Form, Report};

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

/// The line of what was not tried.
#[must_use]
pub fn skipped(title: &str, why: &str) -> String {
    let rest = "| ".repeat(HEAD.matches("---").count() - 2);
    format!("| {title} | SKIPPED: {why} {rest}|\n")
}

/// Puts the table into `docs/operations.md`, with the machine and the form that it was made with.
///
/// # Panics
/// When the document is not there or has no place for it.
pub fn update(form: &Form, lines: &str) {
    rewrite(|_| format!("{}\n\n{lines}", words(form)));
}

/// Puts these lines in the place of those of the same runs, and leaves the rest of the table.
///
/// # Panics
/// When the document is not there, or its table has no such runs.
pub fn update_some(lines: &str) {
    rewrite(|table| {
        let mut table: Vec<&str> = table.trim_start().lines().collect();
        for line in lines.lines().skip(HEAD.lines().count()) {
            let same = table.iter_mut().find(|old| run_of(old) == run_of(line));
            *same.unwrap_or_else(|| panic!("no such run in the table: {line}")) = line;
        }
        table.join("\n") + "\n"
    });
}

fn rewrite(table: impl FnOnce(&str) -> String) {
    let path = root().join("docs/operations.md");
    let text = std::fs::read_to_string(&path).expect("docs/operations.md");
    let (before, rest) = text.split_once(START).expect("the start of the table");
    let (old, after) = rest.split_once(END).expect("the end of the table");
    let text = format!("{before}{START}\n{}{END}{after}", table(old));
    std::fs::write(path, text).expect("docs/operations.md can be written");
}

/// What a line is of: the scenario, link, workers and answer to an outage.
fn run_of(line: &str) -> Vec<&str> {
    line.split(" | ").take(4).collect()
}

/// What a table was made with.
fn words(form: &Form) -> String {
    let read = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let info = read("/proc/cpuinfo");
    let model = info
        .lines()
        .find_map(|line| line.strip_prefix("model name"));
    let model = model.map_or("a processor", |model| {
        model.trim_start_matches([' ', '\t', ':'])
    });
    let cores = std::thread::available_parallelism().map_or(1, std::num::NonZero::get);
    let kernel = read("/proc/sys/kernel/osrelease");
    let load = read("/proc/loadavg");
    let load = load.split(' ').next().unwrap_or("?");
    format!(
        "Made with {} requests each second for each answer to an outage, {:.1} s a run, on {cores} cores \
         of {model}, Linux {}, load average {load} at the end.",
        form.rate,
        form.length().as_secs_f64(),
        kernel.trim(),
    )
}

/// What one calls a link, in the table and on the command line.
#[must_use]
pub fn link_name(link: Link) -> &'static str {
    match link {
        Link::RedisProxy => "redis_proxy",
        Link::Straight => "straight",
        Link::Cluster => "cluster",
        Link::Webdis => "webdis",
        Link::Upstash => "upstash",
        Link::Ecds => "ecds",
    }
}

const START: &str = "<!-- chaos: made by `make chaos`, not by hand -->";
const END: &str = "<!-- chaos: end -->";

fn line(report: &Report, row: &Row) -> String {
    let link = link_name(report.link);
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
    let words = causes.iter().map(|(name, count)| match name.as_str() {
        "" => format!("local verdict {count}"),
        name => format!("{name} {count}"),
    });
    words.collect::<Vec<_>>().join(", ")
}

fn millis(time: Duration) -> String {
    format!("{:.0} ms", time.as_secs_f64() * 1_000.0)
}

fn mebibytes(kib: u64) -> String {
    format!("{}.{}", kib / 1024, kib % 1024 * 10 / 1024)
}
