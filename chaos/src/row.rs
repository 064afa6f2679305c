//! What one run says of one answer to an outage.

use std::collections::BTreeMap;
use std::time::{Duration, Instant};

use crate::keys::{self, LIMIT};
use crate::sample::{End, Sample, Stream};

/// The moments that divide a run.
#[derive(Clone, Debug)]
pub struct Times {
    /// From here to `fault` nothing is broken: the baseline.
    pub quiet: Instant,
    /// Something breaks.
    pub fault: Instant,
    /// All is well again, if it ever is.
    pub healed: Option<Instant>,
    /// When Redis lost its counts.
    pub losses: Vec<Instant>,
}

/// Latencies beyond the baseline.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Added {
    /// Nine of ten have less.
    pub p90: Duration,
    /// 99 of 100 have less.
    pub p99: Duration,
    /// The most.
    pub worst: Duration,
}

/// One stream of one run.
#[derive(Clone, Debug)]
pub struct Row {
    /// The answer to an outage.
    pub stream: Stream,
    /// All requests after the warm-up.
    pub requests: usize,
    /// Redis let them pass.
    pub allowed: usize,
    /// Redis refused them.
    pub refused: usize,
    /// Redis did not decide.
    pub outages: usize,
    /// Of those, refused.
    pub outages_refused: usize,
    /// Why, and how often.
    pub causes: BTreeMap<String, usize>,
    /// From the fault on, over the median of the control requests while nothing was broken.
    pub added: Added,
    /// The same of the control requests: what the machine itself added.
    pub control: Added,
    /// Passed beyond their limit although Redis decided.
    pub over_admitted: usize,
    /// No answer.
    pub hung: usize,
    /// The connection broke, or the answer makes no sense.
    pub broken: Vec<String>,
    /// Sent twice because a kept connection closed.
    pub again: usize,
    /// From the heal to the last outage answer; none when it never healed.
    pub back: Option<Duration>,
    /// Whether after that the limit was enforced to the unit.
    pub enforced: bool,
}

impl Row {
    /// Makes it of all the samples of a run.
    #[must_use]
    pub fn of(stream: Stream, samples: &[Sample], times: &Times) -> Self {
        let after_warm_up = |sample: &&Sample| sample.due >= times.quiet;
        let own: Vec<&Sample> = samples
            .iter()
            .filter(after_warm_up)
            .filter(|sample| sample.stream == stream)
            .collect();
        let controls: Vec<&Sample> = samples
            .iter()
            .filter(after_warm_up)
            .filter(|sample| sample.stream == Stream::Control)
            .collect();
        let count = |holds: fn(&End) -> bool| own.iter().filter(|s| holds(&s.end)).count();
        let mut causes = BTreeMap::new();
        for sample in &own {
            if let End::Outage { cause, .. } = &sample.end {
                *causes.entry(cause.clone()).or_default() += 1;
            }
        }
        let baseline = baseline(&controls, times);
        let back = back(&own, times);
        Self {
            stream,
            requests: own.len(),
            allowed: count(|end| *end == End::Verdict { allowed: true }),
            refused: count(|end| *end == End::Verdict { allowed: false }),
            outages: count(|end| matches!(end, End::Outage { .. })),
            outages_refused: count(|end| matches!(end, End::Outage { allowed: false, .. })),
            causes,
            added: added(&own, baseline, times),
            control: added(&controls, baseline, times),
            over_admitted: over_admitted(&own, times),
            hung: count(|end| *end == End::Hung),
            broken: own.iter().chain(&controls).filter_map(broken).collect(),
            again: own.iter().filter(|sample| sample.again).count(),
            back,
            enforced: enforced(&own, times, back),
        }
    }
}

fn broken(sample: &&Sample) -> Option<String> {
    match (&sample.end, sample.stream) {
        (End::Broken(why), _) => Some(why.clone()),
        (End::Odd(status), _) => Some(format!("status {status}")),
        (End::Unfiltered, Stream::Control) => None,
        (End::Hung, Stream::Control) => Some("a control request hung".to_owned()),
        (End::Unfiltered, _) => Some("200 without the filter's reason".to_owned()),
        (_, Stream::Control) => Some("the filter saw a control request".to_owned()),
        _ => None,
    }
}

/// The median of the requests without a filter while nothing was broken.
fn baseline(controls: &[&Sample], times: &Times) -> Duration {
    let quiet = controls.iter().filter(|sample| sample.due < times.fault);
    let mut all: Vec<Duration> = quiet.map(|sample| sample.took).collect();
    all.sort_unstable();
    all.get(all.len() / 2).copied().unwrap_or_default()
}

fn added(samples: &[&Sample], baseline: Duration, times: &Times) -> Added {
    let after = samples.iter().filter(|sample| sample.due >= times.fault);
    let mut all: Vec<Duration> = after
        .map(|sample| sample.took.saturating_sub(baseline))
        .collect();
    all.sort_unstable();
    let percentile = |share: usize| {
        let place = (all.len() * share).div_ceil(100).saturating_sub(1);
        all.get(place).copied().unwrap_or_default()
    };
    Added {
        p90: percentile(90),
        p99: percentile(99),
        worst: all.last().copied().unwrap_or_default(),
    }
}

/// Admissions by Redis beyond the limit of their key. A Redis that lost its counts begins anew, once for
/// each loss in the life of the key.
fn over_admitted(samples: &[&Sample], times: &Times) -> usize {
    let mut keys: BTreeMap<&str, Vec<&Sample>> = BTreeMap::new();
    for sample in samples {
        keys.entry(&sample.key).or_default().push(sample);
    }
    let over = keys.values().map(|of_key| {
        let passed = of_key
            .iter()
            .filter(|sample| sample.end == End::Verdict { allowed: true })
            .count();
        let first = of_key.iter().map(|sample| sample.due).min();
        let last = of_key.iter().map(|sample| sample.due + sample.took).max();
        let lost = times
            .losses
            .iter()
            .filter(|loss| Some(**loss) >= first && Some(**loss) <= last)
            .count();
        passed.saturating_sub(LIMIT * (1 + lost))
    });
    over.sum()
}

fn back(samples: &[&Sample], times: &Times) -> Option<Duration> {
    let healed = times.healed?;
    let last = samples
        .iter()
        .filter(|sample| matches!(sample.end, End::Outage { .. } | End::Hung))
        .map(|sample| sample.due)
        .max();
    Some(last.map_or(Duration::ZERO, |last| {
        last.saturating_duration_since(healed)
    }))
}

/// Whether the hot keys whose whole life lies after the last outage answer admitted their limit, no more
/// and no less, if as many asked.
fn enforced(samples: &[&Sample], times: &Times, back: Option<Duration>) -> bool {
    let (Some(healed), Some(back)) = (times.healed, back) else {
        return true;
    };
    let since = healed + back;
    let mut keys: BTreeMap<&str, (usize, usize, bool)> = BTreeMap::new();
    for sample in samples.iter().filter(|sample| keys::is_hot(&sample.key)) {
        let (asked, passed, late) = keys.entry(&sample.key).or_insert((0, 0, true));
        *asked += 1;
        *passed += usize::from(sample.end == End::Verdict { allowed: true });
        *late &= sample.due > since;
    }
    keys.values()
        .filter(|(_, _, late)| *late)
        .all(|(asked, passed, _)| *passed == LIMIT.min(*asked))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn sample(start: Instant, millis: u64, key: &str, took: u64, end: End) -> Sample {
        Sample {
            stream: if key.is_empty() {
                Stream::Control
            } else {
                Stream::Allow
            },
            key: key.to_owned(),
            due: start + Duration::from_millis(millis),
            took: Duration::from_millis(took),
            end,
            again: false,
        }
    }

    fn times(start: Instant, losses: &[u64]) -> Times {
        let at = |millis| start + Duration::from_millis(millis);
        Times {
            quiet: at(0),
            fault: at(100),
            healed: Some(at(200)),
            losses: losses.iter().map(|millis| at(*millis)).collect(),
        }
    }

    #[test]
    fn each_admission_beyond_the_limit_of_a_key_is_one_too_many_unless_the_counts_were_lost() {
        let start = Instant::now();
        let passed = |millis| sample(start, millis, "hot-1", 1, End::Verdict { allowed: true });
        let samples: Vec<Sample> = (0..8).map(|n| passed(n * 30)).collect();
        let over =
            |losses: &[u64]| Row::of(Stream::Allow, &samples, &times(start, losses)).over_admitted;
        assert_eq!(over(&[]), 3);
        assert_eq!(over(&[150]), 0);
        assert_eq!(over(&[300]), 3, "after the last answer");
    }

    #[test]
    fn latency_is_over_the_median_control_of_the_quiet_part_and_of_the_rest_only() {
        let start = Instant::now();
        let control = |millis, took| sample(start, millis, "", took, End::Unfiltered);
        let own = |millis, took| {
            sample(
                start,
                millis,
                "cold-1",
                took,
                End::Verdict { allowed: true },
            )
        };
        let samples = [
            control(1, 2),
            control(2, 2),
            control(3, 90),
            own(50, 80),
            control(110, 5),
            own(120, 12),
            own(130, 7),
        ];
        let row = Row::of(Stream::Allow, &samples, &times(start, &[]));
        assert_eq!(row.added.worst, Duration::from_millis(10));
        assert_eq!(row.control.worst, Duration::from_millis(3));
        assert_eq!((row.requests, row.allowed), (3, 3));
        assert!(row.broken.is_empty(), "{:?}", row.broken);
    }

    #[test]
    fn it_is_back_with_the_last_outage_answer_and_enforced_when_each_later_hot_key_is() {
        let start = Instant::now();
        let outage = End::Outage {
            allowed: true,
            local: false,
            cause: "timeout".to_owned(),
        };
        let mut samples = vec![
            sample(start, 150, "cold-1", 20, outage.clone()),
            sample(start, 230, "cold-1", 20, outage),
        ];
        let verdict =
            |n: u64, allowed| sample(start, 300 + n, "hot-9", 1, End::Verdict { allowed });
        samples.extend((0..5).map(|n| verdict(n, true)));
        samples.extend((5..10).map(|n| verdict(n, false)));
        let row = |samples: &[Sample]| Row::of(Stream::Allow, samples, &times(start, &[]));
        assert_eq!(row(&samples).back, Some(Duration::from_millis(30)));
        assert!(row(&samples).enforced);
        samples[2].end = End::Verdict { allowed: false };
        assert!(!row(&samples).enforced, "four passed");
        assert_eq!(row(&samples).outages, 2);
    }
}
