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

use std::fmt::Write as _;

use crate::{
    reply::Names,
    verdict::{Source, Verdict},
};

/// What a metric is to Envoy and to Prometheus.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Kind {
    /// Only grows.
    Counter,
    /// Moved up and down by differences.
    Gauge,
    /// Whole microseconds.
    Histogram,
}

impl Kind {
    /// Prometheus's word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::Counter => "counter",
            Self::Gauge => "gauge",
            Self::Histogram => "histogram",
        }
    }
}

/// One row of the table: a name and everything that is said of it.
#[derive(Debug, PartialEq, Eq)]
pub struct Metric {
    /// Its name as Prometheus shows it.
    pub name: &'static str,
    /// What it is.
    pub kind: Kind,
    /// Its labels and the values each may have; none listed: the names of the policy's limits.
    pub labels: &'static [(&'static str, &'static [&'static str])],
    /// What it counts, for the documentation.
    pub help: &'static str,
}

/// An enum whose variants are a label's values.
macro_rules! label_values {
    ($(#[$about:meta])* $name:ident { $($(#[$help:meta])* $variant:ident = $word:literal,)+ }) => {
        $(#[$about])*
        #[derive(Clone, Copy, Debug, PartialEq, Eq)]
        pub enum $name { $($(#[$help])* $variant,)+ }

        impl $name {
            /// Every value, in the order of [`Self::WORDS`].
            pub const ALL: &'static [Self] = &[$(Self::$variant,)+];
            /// Every value as it is written.
            pub const WORDS: &'static [&'static str] = &[$($word,)+];
        }
    };
}

label_values! {
    /// What became of a request that a policy was asked about.
    Outcome {
        /// Every enforced limit admitted it.
        Allowed = "allowed",
        /// A limit refused it.
        Limited = "limited",
        /// A rule refused it: no key where one is needed, or a plan that may not pass.
        Denied = "denied",
        /// No limit applied to it.
        Unmatched = "unmatched",
        /// It passed because Redis did not answer.
        OutageAllowed = "outage_allowed",
        /// It was refused because Redis did not answer.
        OutageRefused = "outage_refused",
        /// Its client left before the answer.
        Gone = "gone",
    }
}

label_values! {
    /// What one limit said of one request.
    LimitVerdict {
        /// There is room.
        Admitted = "admitted",
        /// There is none, and the limit is enforced.
        Refused = "refused",
        /// There is none, and the limit is in shadow mode.
        WouldRefuse = "would_refuse",
    }
}

label_values! {
    /// Who decided.
    Decider {
        /// Redis, for this request.
        Redis = "redis",
        /// This worker's memory of a refusal that still held.
        Cache = "cache",
        /// The local limiter, while Redis did not answer.
        Local = "local",
    }
}

label_values! {
    /// What happened to a worker's connection to Redis.
    LinkEvent {
        /// It came up. All but a worker's first are reconnects.
        Up = "up",
        /// It was lost.
        Lost = "lost",
        /// An attempt to open it failed.
        Failed = "failed",
    }
}

label_values! {
    /// What the breaker did.
    BreakerEvent {
        /// It opened: requests get the outage answer without waiting.
        Opened = "opened",
        /// One request tried whether Redis is back.
        Probed = "probed",
        /// It closed.
        Closed = "closed",
    }
}

label_values! {
    /// What became of a policy at load.
    PolicyEvent {
        /// It was taken.
        Loaded = "loaded",
        /// It was wrong, and refused.
        Refused = "refused",
    }
}

/// Why Redis gave no answer: the labels of [`crate::redis`]'s errors and silences. What is not listed
/// counts as `other`.
pub const CAUSES: &[&str] = &[
    "timeout",
    "unreachable",
    "lost",
    "full",
    "garbage",
    "skipped",
    "noscript",
    "readonly",
    "loading",
    "oom",
    "busy",
    "masterdown",
    "clusterdown",
    "moved",
    "ask",
    "tryagain",
    "noauth",
    "wrongpass",
    "nopassword",
    "noperm",
    "unknown_command",
    "wrongtype",
    "crossslot",
    "maxclients",
    "misconf",
    "noreplicas",
    "no_upstream_host",
    "upstream_failure",
    "other",
];

/// The table.
pub const METRICS: &[Metric] = &[
    Metric {
        name: "aforo_requests_total",
        kind: Kind::Counter,
        labels: &[("outcome", Outcome::WORDS)],
        help: "Requests by what became of them",
    },
    Metric {
        name: "aforo_verdicts_total",
        kind: Kind::Counter,
        labels: &[("source", Decider::WORDS)],
        help: "Verdicts by who decided",
    },
    Metric {
        name: "aforo_outages_total",
        kind: Kind::Counter,
        labels: &[("cause", CAUSES)],
        help: "Outage answers by why Redis gave none",
    },
    Metric {
        name: "aforo_redis_microseconds",
        kind: Kind::Histogram,
        labels: &[],
        help: "From asking Redis to its answer, µs; timeouts are not in it",
    },
    Metric {
        name: "aforo_script_loads_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Times the whole script was sent because Redis did not have it",
    },
    Metric {
        name: "aforo_late_replies_total",
        kind: Kind::Counter,
        labels: &[],
        help: "Replies that came after their deadline and were dropped",
    },
    Metric {
        name: "aforo_link_events_total",
        kind: Kind::Counter,
        labels: &[("event", LinkEvent::WORDS)],
        help: "Connections to Redis opened, lost, and attempts that failed",
    },
    Metric {
        name: "aforo_breaker_events_total",
        kind: Kind::Counter,
        labels: &[("event", BreakerEvent::WORDS)],
        help: "Breakers opened and closed, and requests that tried Redis in between",
    },
    Metric {
        name: "aforo_policies_total",
        kind: Kind::Counter,
        labels: &[("result", PolicyEvent::WORDS)],
        help: "Policies taken and refused at load, one a worker",
    },
    Metric {
        name: "aforo_links_up",
        kind: Kind::Gauge,
        labels: &[],
        help: "Workers whose connection to Redis is up",
    },
    Metric {
        name: "aforo_breakers_open",
        kind: Kind::Gauge,
        labels: &[],
        help: "Workers whose breaker is open",
    },
    Metric {
        name: "aforo_pending",
        kind: Kind::Gauge,
        labels: &[],
        help: "Requests that wait for a verdict now",
    },
    Metric {
        name: "aforo_local_keys",
        kind: Kind::Gauge,
        labels: &[],
        help: "Keys the workers remember: refusals that still hold, and the local limiter's",
    },
    Metric {
        name: "aforo_decisions_total",
        kind: Kind::Counter,
        labels: &[("limit", &[]), ("verdict", LimitVerdict::WORDS)],
        help: "What each limit said of the requests it was asked about",
    },
];

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
    /// Keys remembered.
    LocalKeys,
    /// The limit at this index of the policy said this.
    Limit(usize, LimitVerdict),
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
            | Self::LocalKeys => {}
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
            Self::LocalKeys => "aforo_local_keys",
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

/// The table as Markdown, for the documentation.
#[must_use]
pub fn markdown() -> String {
    let mut table = String::from("| metric | kind | labels | meaning |\n|---|---|---|---|\n");
    for metric in METRICS {
        let labels: Vec<String> = metric.labels.iter().map(label_text).collect();
        let labels = if labels.is_empty() {
            "none".to_owned()
        } else {
            labels.join("; ")
        };
        let Metric {
            name, kind, help, ..
        } = metric;
        let _ = writeln!(table, "| `{name}` | {} | {labels} | {help} |", kind.word());
    }
    table
}

fn label_text((name, values): &(&str, &[&str])) -> String {
    let values: Vec<String> = values.iter().map(|value| format!("`{value}`")).collect();
    let values = if values.is_empty() {
        "a limit's name".to_owned()
    } else {
        values.join(", ")
    };
    format!("`{name}`: {values}")
}

/// The tag extractors that turn the pairs into labels: name and regular expression, for
/// `stats_config.stats_tags` of Envoy's bootstrap. The first group is cut out of the name, the second
/// is the value.
#[must_use]
pub fn tag_extractors() -> Vec<(&'static str, String)> {
    let mut names: Vec<&'static str> = Vec::new();
    for (name, _) in METRICS.iter().flat_map(|metric| metric.labels) {
        if !names.contains(name) {
            names.push(name);
        }
    }
    // Whole pairs are skipped before the one that is sought, so that no value passes for a label.
    let regex = |name| format!(r"^wasmcustom\.aforo_\w+(?:\.\w+\.[\w-]+)*?(\.{name}\.([\w-]+))");
    names.into_iter().map(|name| (name, regex(name))).collect()
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
const SINGLE: [Stat; 7] = [
    Stat::RedisMicroseconds,
    Stat::ScriptLoads,
    Stat::LateReplies,
    Stat::LinksUp,
    Stat::BreakersOpen,
    Stat::Pending,
    Stat::LocalKeys,
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
        for metric in METRICS {
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
