//! Every metric: name, kind, labels and help, once, in one table.
//!
//! Envoy's statistics have no labels. Ours write theirs into the name, in pairs:
//! `aforo_decisions_total.limit.per-key.verdict.refused`, to which Envoy adds `wasmcustom.`. With the
//! tag extractors of `deploy/prometheus/stats-tags.yaml` Prometheus sees
//! `aforo_decisions_total{limit="per-key",verdict="refused"}`, and without them
//! `aforo_decisions_total_limit_per_key_verdict_refused`.
//!
//! The host defines [`Stat::all`] once a policy is loaded, keeps the numbers it gets in that order,
//! and finds them again by [`Stat::index`]. Several workers share one metric: a gauge is moved by
//! differences and never set.

mod table;

pub use table::{
    BreakerEvent, CAUSES, Decider, Kind, LimitVerdict, LinkEvent, METRICS, Metric, Outcome,
    PolicyEvent, markdown, tag_extractors,
};

use crate::{
    reply::Names,
    verdict::{Source, Verdict},
};

/// One metric with its labels filled in.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Stat {
    /// One request ended so.
    Request(Outcome),
    /// One verdict came from there.
    Verdict(Decider),
    /// One outage answer, by the label of its cause, one of [`CAUSES`].
    Outage(&'static str),
    /// Microseconds from asking to the answer.
    RedisMicroseconds,
    /// The script was sent whole.
    ScriptLoads,
    /// A reply was too late.
    LateReplies,
    /// The link did this.
    Link(LinkEvent),
    /// The breaker did this.
    Breaker(BreakerEvent),
    /// A policy met this at load.
    Policy(PolicyEvent),
    /// Workers with a link.
    LinksUp,
    /// Workers with an open breaker.
    BreakersOpen,
    /// Requests waiting.
    Pending,
    /// Commands whose reply is owed.
    InFlight,
    /// Keys remembered.
    LocalKeys,
    /// Workers whose limits the switch has put into shadow mode.
    ShadowSwitch,
    /// The limit at this index of the policy said this.
    Limit(usize, LimitVerdict),
}

/// The name of the gauge that counts the workers on a policy, by its number in Redis; 0 is the
/// configuration's own. Its numbers are not known beforehand, so it is no [`Stat`].
#[must_use]
pub fn policy_workers(number: u64) -> String {
    format!("aforo_policy_workers.version.{number}")
}

impl Stat {
    /// Every stat of a policy with so many limits, in the order of [`Self::index`].
    pub fn all(limits: usize) -> impl Iterator<Item = Self> {
        let of_limit = |limit| {
            LimitVerdict::ALL
                .iter()
                .map(move |v| Self::Limit(limit, *v))
        };
        let mut all: Vec<Self> = Vec::with_capacity(OF_LIMITS);
        all.extend(Outcome::ALL.iter().map(|outcome| Self::Request(*outcome)));
        all.extend(Decider::ALL.iter().map(|decider| Self::Verdict(*decider)));
        all.extend(CAUSES.iter().map(|cause| Self::Outage(cause)));
        all.extend(LinkEvent::ALL.iter().map(|event| Self::Link(*event)));
        all.extend(BreakerEvent::ALL.iter().map(|event| Self::Breaker(*event)));
        all.extend(PolicyEvent::ALL.iter().map(|event| Self::Policy(*event)));
        all.extend(SINGLE);
        all.into_iter().chain((0..limits).flat_map(of_limit))
    }

    /// Its place in [`Self::all`].
    #[must_use]
    pub fn index(self) -> usize {
        let (first, offset) = match self {
            Self::Request(outcome) => (0, outcome as usize),
            Self::Verdict(decider) => (VERDICTS, decider as usize),
            Self::Outage(cause) => (OUTAGES, cause_index(cause)),
            Self::Link(event) => (LINKS, event as usize),
            Self::Breaker(event) => (BREAKERS, event as usize),
            Self::Policy(event) => (POLICIES, event as usize),
            Self::Limit(limit, verdict) => {
                let before = limit.saturating_mul(LimitVerdict::ALL.len());
                (OF_LIMITS, before.saturating_add(verdict as usize))
            }
            single => (
                SINGLES,
                SINGLE.iter().position(|stat| *stat == single).unwrap_or(0),
            ),
        };
        first.saturating_add(offset)
    }

    /// Its name for the host: the metric's, then its labels in pairs. `limits` gives the names of the
    /// policy's limits; what a name may not hold becomes `_`.
    #[must_use]
    pub fn name(self, limits: Names<'_>) -> String {
        let mut name = self.metric_name().to_owned();
        let mut label = |key: &str, value: &str| {
            name.push('.');
            name.push_str(key);
            name.push('.');
            name.extend(value.chars().map(|c| if is_plain(c) { c } else { '_' }));
        };
        match self {
            Self::Request(outcome) => label("outcome", word(Outcome::WORDS, outcome as usize)),
            Self::Verdict(decider) => label("source", word(Decider::WORDS, decider as usize)),
            Self::Outage(cause) => label("cause", word(CAUSES, cause_index(cause))),
            Self::Link(event) => label("event", word(LinkEvent::WORDS, event as usize)),
            Self::Breaker(event) => label("event", word(BreakerEvent::WORDS, event as usize)),
            Self::Policy(event) => label("result", word(PolicyEvent::WORDS, event as usize)),
            Self::Limit(limit, verdict) => {
                label("limit", limits(limit));
                label("verdict", word(LimitVerdict::WORDS, verdict as usize));
            }
            Self::RedisMicroseconds
            | Self::ScriptLoads
            | Self::LateReplies
            | Self::LinksUp
            | Self::BreakersOpen
            | Self::Pending
            | Self::InFlight
            | Self::LocalKeys
            | Self::ShadowSwitch => {}
        }
        name
    }

    /// What it is.
    #[must_use]
    pub fn kind(self) -> Kind {
        let name = self.metric_name();
        METRICS
            .iter()
            .find(|metric| metric.name == name)
            .map_or(Kind::Counter, |m| m.kind)
    }

    const fn metric_name(self) -> &'static str {
        match self {
            Self::Request(_) => "aforo_requests_total",
            Self::Verdict(_) => "aforo_verdicts_total",
            Self::Outage(_) => "aforo_outages_total",
            Self::RedisMicroseconds => "aforo_redis_microseconds",
            Self::ScriptLoads => "aforo_script_loads_total",
            Self::LateReplies => "aforo_late_replies_total",
            Self::Link(_) => "aforo_link_events_total",
            Self::Breaker(_) => "aforo_breaker_events_total",
            Self::Policy(_) => "aforo_policies_total",
            Self::LinksUp => "aforo_links_up",
            Self::BreakersOpen => "aforo_breakers_open",
            Self::Pending => "aforo_pending",
            Self::InFlight => "aforo_in_flight",
            Self::LocalKeys => "aforo_local_keys",
            Self::ShadowSwitch => "aforo_shadow_switch",
            Self::Limit(..) => "aforo_decisions_total",
        }
    }
}

/// The counters that one verdict moves by one: the request's, the decider's, and one a limit.
pub fn of_verdict(verdict: &Verdict) -> impl Iterator<Item = Stat> {
    let outcome = if verdict.allowed {
        Outcome::Allowed
    } else {
        Outcome::Limited
    };
    let decider = match verdict.source {
        Source::Redis => Decider::Redis,
        Source::Cache => Decider::Cache,
        Source::Local => Decider::Local,
    };
    let of_limits = verdict.judged.iter().map(|judged| {
        let said = match (judged.reading.admitted, judged.claim.enforced) {
            (true, _) => LimitVerdict::Admitted,
            (false, true) => LimitVerdict::Refused,
            (false, false) => LimitVerdict::WouldRefuse,
        };
        Stat::Limit(judged.claim.limit, said)
    });
    [Stat::Request(outcome), Stat::Verdict(decider)]
        .into_iter()
        .chain(of_limits)
}

/// Where a cause stands; the last one is `other`.
fn cause_index(cause: &str) -> usize {
    let found = CAUSES.iter().position(|known| *known == cause);
    found.unwrap_or(CAUSES.len().saturating_sub(1))
}

fn word(words: &[&'static str], index: usize) -> &'static str {
    words.get(index).copied().unwrap_or("other")
}

const fn is_plain(c: char) -> bool {
    c.is_ascii_alphanumeric() || matches!(c, '_' | '-')
}

/// The stats without labels, in order.
const SINGLE: [Stat; 9] = [
    Stat::RedisMicroseconds,
    Stat::ScriptLoads,
    Stat::LateReplies,
    Stat::LinksUp,
    Stat::BreakersOpen,
    Stat::Pending,
    Stat::InFlight,
    Stat::LocalKeys,
    Stat::ShadowSwitch,
];

// Where each group begins.
const VERDICTS: usize = Outcome::ALL.len();
const OUTAGES: usize = VERDICTS + Decider::ALL.len();
const LINKS: usize = OUTAGES + CAUSES.len();
const BREAKERS: usize = LINKS + LinkEvent::ALL.len();
const POLICIES: usize = BREAKERS + BreakerEvent::ALL.len();
const SINGLES: usize = POLICIES + PolicyEvent::ALL.len();
const OF_LIMITS: usize = SINGLES + SINGLE.len();

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    fn limits(index: usize) -> &'static str {
        ["per-key", "every.one"][index]
    }

    #[test]
    fn every_stat_is_where_its_index_says() {
        for (place, stat) in Stat::all(2).enumerate() {
            assert_eq!(stat.index(), place, "{stat:?}");
        }
    }

    #[test]
    fn every_stat_has_a_row_and_every_row_its_stats() {
        let mut expected = BTreeSet::new();
        // The versions of policies are not known beforehand.
        for metric in METRICS
            .iter()
            .filter(|metric| metric.name != "aforo_policy_workers")
        {
            let mut names = vec![metric.name.to_owned()];
            for (label, values) in metric.labels {
                let values = if values.is_empty() {
                    &["per-key", "every_one"][..]
                } else {
                    values
                };
                names = names
                    .iter()
                    .flat_map(|name| values.iter().map(move |v| format!("{name}.{label}.{v}")))
                    .collect();
            }
            expected.extend(names);
        }
        let names: Vec<String> = Stat::all(2).map(|stat| stat.name(&limits)).collect();
        assert_eq!(names.iter().cloned().collect::<BTreeSet<_>>(), expected);
        assert_eq!(names.len(), expected.len(), "no stat twice");
    }

    #[test]
    fn names_follow_prometheus() {
        for Metric { name, kind, .. } in METRICS {
            assert!(name.starts_with("aforo_"), "{name}");
            assert_eq!(name.ends_with("_total"), *kind == Kind::Counter, "{name}");
        }
        for (label, _) in tag_extractors() {
            assert!(
                label.bytes().all(|byte| byte.is_ascii_lowercase()),
                "{label}"
            );
        }
    }

    #[test]
    fn an_unknown_cause_counts_as_other() {
        assert_eq!(
            Stat::Outage("martians").index(),
            Stat::Outage("other").index()
        );
        assert_eq!(
            Stat::Outage("martians").name(&limits),
            "aforo_outages_total.cause.other"
        );
    }
}
