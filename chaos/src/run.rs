//! One run: a scenario, behind one link, with so many workers.

use std::time::{Duration, Instant};

use support::config::Link;

use crate::row::{Row, Times};
use crate::sample::Stream;
use crate::scenario::{Expect, Scenario};
use crate::stage::{Setting, Stage};

/// The deadline of a decision.
const DEADLINE: Duration = Duration::from_millis(20);

/// The deadline where nothing may be felt: however busy this machine is, it runs a proxy this often.
const PATIENT: Duration = Duration::from_secs(2);

/// What a request may wait beyond its deadline: the tick that looks at deadlines, and the answer's way.
const BEYOND: Duration = Duration::from_millis(20);

/// No request of a run waits longer, whatever this machine does beside: this is how a hang looks that
/// ends in the end.
const HANG: Duration = Duration::from_secs(1);

/// So many requests have a p99 worth its name; of fewer, the p90 is held against the bound.
const MANY: usize = 2_000;

/// How soon after a fault is over the last outage answer is given.
const BACK: Duration = Duration::from_secs(2);

/// How long the parts of a run are, and how many requests it gets.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Form {
    /// Requests each second, for each answer to an outage.
    pub rate: u32,
    /// Until the links are there.
    pub warm_up: Duration,
    /// Nothing is broken.
    pub quiet: Duration,
    /// Something is.
    pub span: Duration,
    /// All is well again.
    pub calm: Duration,
}

impl Form {
    /// What the documentation's table is made of: twenty seconds of 500 requests each second.
    pub const FULL: Self = Self {
        rate: 500,
        warm_up: Duration::from_secs(1),
        quiet: Duration::from_secs(3),
        span: Duration::from_secs(12),
        calm: Duration::from_secs(5),
    };

    /// For every day.
    pub const SHORT: Self = Self {
        rate: 100,
        warm_up: Duration::from_millis(300),
        quiet: Duration::from_millis(400),
        span: Duration::from_millis(1_000),
        // Longer than BACK: what never comes back is seen.
        calm: Duration::from_millis(2_500),
    };

    /// From the end of the warm-up to the end.
    #[must_use]
    pub fn length(&self) -> Duration {
        self.quiet + self.span + self.calm
    }
}

/// What a run was and what came of it.
#[derive(Clone, Debug)]
pub struct Report {
    /// The scenario's title.
    pub title: &'static str,
    /// Its name.
    pub name: &'static str,
    /// What lay behind the link.
    pub link: Link,
    /// Worker threads.
    pub workers: usize,
    /// One for each answer to an outage.
    pub rows: Vec<Row>,
    /// Envoy's resident memory before the fault, KiB.
    pub before_kib: u64,
    /// And at the end.
    pub after_kib: u64,
    /// What should not have happened; empty when all went well.
    pub faults: Vec<String>,
}

/// Runs a scenario.
///
/// # Panics
/// When a part of the stage does not start.
#[must_use]
pub fn run(
    scenario: &Scenario,
    link: Link,
    workers: usize,
    streams: &[Stream],
    form: &Form,
) -> Report {
    let setting = Setting {
        link,
        workers,
        streams: streams.to_vec(),
        rate: form.rate,
        span: form.span,
        deadline: match scenario.expect {
            Expect::Unfelt => PATIENT,
            _ => DEADLINE,
        },
    };
    let mut stage = Stage::start(&setting, &(scenario.prepare)());
    stage.wait(form.warm_up);
    let quiet = Instant::now();
    stage.wait(form.quiet);
    let before_kib = stage.envoy().process().resident_kib();
    let fault = Instant::now();
    (scenario.act)(&mut stage);
    let healed = Instant::now();
    let end = (quiet + form.length()).max(healed + form.calm);
    stage.wait(end.saturating_duration_since(Instant::now()));
    let after_kib = stage.envoy().process().resident_kib();
    let traps: usize = stage
        .envoys
        .iter_mut()
        .map(|envoy| {
            envoy.traps_are_expected();
            envoy.log_lines_with("panicked at")
        })
        .sum();
    let log = stage.envoy().log();
    let samples = stage.load.stop();
    let times = Times {
        quiet,
        fault,
        healed: (scenario.expect != Expect::NothingElse).then_some(healed),
        losses: stage.losses,
    };
    let rows: Vec<Row> = streams
        .iter()
        .map(|stream| Row::of(*stream, &samples, &times))
        .collect();
    let mut faults = Vec::new();
    for row in &rows {
        let label = row.stream.word();
        faults.extend(
            judge(scenario.expect, row)
                .into_iter()
                .map(|fault| format!("{label}: {fault}")),
        );
    }
    if after_kib.saturating_sub(before_kib) > scenario.growth_kib {
        faults.push(format!("Envoy grew from {before_kib} to {after_kib} KiB"));
    }
    if traps > 0 {
        faults.push(format!("{traps} traps"));
    }
    if !faults.is_empty() {
        keep(&log, &format!("{}-{link:?}-{workers}", scenario.name));
    }
    Report {
        title: scenario.title,
        name: scenario.name,
        link,
        workers,
        rows,
        before_kib,
        after_kib,
        faults,
    }
}

/// Keeps Envoy's log of a run that went wrong.
fn keep(log: &str, name: &str) {
    let directory = support::root().join("target/chaos");
    let written = std::fs::create_dir_all(&directory)
        .and_then(|()| std::fs::write(directory.join(format!("{name}.log")), log));
    written.expect("a place for the log of a failed run");
}

/// What is wrong with a row.
fn judge(expect: Expect, row: &Row) -> Vec<String> {
    let mut faults = Vec::new();
    let mut check = |holds: bool, text: String| {
        if !holds {
            faults.push(text);
        }
    };
    let Row { added, control, .. } = row;
    check(row.hung == 0, format!("{} requests hung", row.hung));
    let broken = row.broken.first();
    check(
        broken.is_none(),
        format!("{} broke, the first: {broken:?}", row.broken.len()),
    );
    check(
        row.over_admitted == 0,
        format!("{} over-admitted", row.over_admitted),
    );
    // What the machine did to requests without a filter in the same run, it did to the others too. Of a
    // few hundred requests the slowest hundredth is three, which says little on a busy machine.
    let (share, most) = if row.requests < MANY {
        ("p90", added.p90)
    } else {
        ("p99", added.p99)
    };
    check(
        most <= DEADLINE + BEYOND + control.p99 * 2,
        format!("{share} added {most:?}, p99 control {:?}", control.p99),
    );
    check(
        added.worst <= HANG + control.worst,
        format!("worst added {:?}, control {:?}", added.worst, control.worst),
    );
    check(
        row.back.is_none_or(|back| back <= BACK),
        format!("outage answers until {:?} after the end", row.back),
    );
    check(
        row.enforced,
        "not enforced to the unit after the fault".to_owned(),
    );
    let asked = row.requests - row.hung - row.broken.len().min(row.requests);
    let (outages, causes) = (row.outages, &row.causes);
    match expect {
        Expect::Unfelt => check(outages == 0, format!("{outages} outages: {causes:?}")),
        Expect::Either => {}
        Expect::Outage => check(outages > 0, "nobody felt it".to_owned()),
        Expect::NothingElse => check(outages == asked, format!("{outages} outages of {asked}")),
    }
    match row.stream {
        Stream::Allow => check(
            row.outages_refused == 0,
            format!("{} refused for an outage", row.outages_refused),
        ),
        Stream::Deny => check(
            row.outages_refused == outages,
            format!("{} passed for an outage", outages - row.outages_refused),
        ),
        Stream::Local | Stream::Control => {}
    }
    faults
}
