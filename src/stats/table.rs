//! The table, the values of its labels, and what is derived from it for documentation and Envoy.

use std::fmt::Write as _;

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
    "foreign",
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
    "denied",
    "unknown_command",
    "wrongtype",
    "crossslot",
    "maxclients",
    "misconf",
    "noreplicas",
    "no_upstream_host",
    "upstream_failure",
    "gateway_down",
    "gateway_forbids",
    "gateway_odd",
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
        help: "Connections to Redis by their first good reply, the loss of those, and attempts without one",
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
        help: "Policies taken and refused at load, once a VM: each worker has one, Envoy itself two",
    },
    Metric {
        name: "aforo_links_up",
        kind: Kind::Gauge,
        labels: &[],
        help: "Workers whose connection to Redis is up and has brought a good reply",
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
        name: "aforo_in_flight",
        kind: Kind::Gauge,
        labels: &[],
        help: "Commands whose reply Redis owes, those that nobody waits for any more included",
    },
    Metric {
        name: "aforo_local_keys",
        kind: Kind::Gauge,
        labels: &[],
        help: "Keys the workers remember: refusals that still hold, and the local limiter's",
    },
    Metric {
        name: "aforo_shadow_switch",
        kind: Kind::Gauge,
        labels: &[],
        help: "Workers whose limits the switch in Redis has put into shadow mode",
    },
    Metric {
        name: "aforo_policy_workers",
        kind: Kind::Gauge,
        labels: &[("version", &["0", "1", "…"])],
        help: "Workers by the policy they go by: 0 is the configuration's own, others were pushed",
    },
    Metric {
        name: "aforo_decisions_total",
        kind: Kind::Counter,
        labels: &[("limit", &[]), ("verdict", LimitVerdict::WORDS)],
        help: "What each limit, or its rule that denies, said of the requests that it was about",
    },
];

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
