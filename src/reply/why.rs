//! The one line that tells an operator why a request got its answer, for access logs
//! (`%FILTER_STATE(wasm.aforo:PLAIN)%`) and for the debug header.
//!
//! ```text
//! verdict=refused limit=per-key key=5f0c63a1de7b9e24 remaining=0 wait_ms=6812 from=redis us=412
//! verdict=allowed limit=per-key key=5f0c63a1de7b9e24 remaining=12 from=redis us=398 would_refuse=everyone
//! verdict=allowed from=outage cause=timeout us=20144
//! verdict=denied limit=per-key from=rules
//! ```
//!
//! Words and integers only, one space between, in this order: `logfmt`. A client's key is there as a
//! hash, so that its requests can be told from others' and its secret cannot.

use std::fmt::Write as _;

use super::{
    Names,
    readings::{deciding, least_room},
};
use crate::{
    units::Micros,
    verdict::{Judged, Source, Verdict, Wait},
};

/// Gives the hash of a claim's tag, which is the client: characters without space, the same for the
/// same tag, whatever the limit.
pub type KeyHash<'a> = &'a dyn Fn(&str) -> String;

/// Why a request got its answer.
#[derive(Clone, Copy, Debug)]
pub enum Why<'a> {
    /// Limits were asked.
    Verdict(&'a Verdict),
    /// Redis did not answer, and this worker's own limiter was asked.
    Local {
        /// What it said.
        verdict: &'a Verdict,
        /// The label of the cause, [`crate::stats::CAUSES`].
        cause: &'a str,
    },
    /// Redis did not answer.
    Outage {
        /// The label of the cause, [`crate::stats::CAUSES`].
        cause: &'a str,
        /// Whether the request was refused for it.
        refused: bool,
    },
    /// A rule refused without asking.
    Denied {
        /// The limit whose rule it is.
        limit: &'a str,
    },
}

impl Why<'_> {
    /// The line. `took` is the time from the request to its verdict. `hash` is called once at most,
    /// with the tag of the limit that is shown.
    #[must_use]
    pub fn line(&self, names: Names<'_>, hash: KeyHash<'_>, took: Micros) -> String {
        let mut line = String::with_capacity(160);
        match self {
            Self::Verdict(verdict) => tell(&mut line, verdict, None, names, hash, took),
            Self::Local { verdict, cause } => {
                tell(&mut line, verdict, Some(cause), names, hash, took);
            }
            Self::Outage { cause, refused } => {
                pair(
                    &mut line,
                    "verdict",
                    if *refused { "refused" } else { "allowed" },
                );
                pair(&mut line, "from", "outage");
                pair(&mut line, "cause", cause);
                number(&mut line, "us", took.0);
            }
            Self::Denied { limit } => {
                pair(&mut line, "verdict", "denied");
                pair(&mut line, "limit", limit);
                pair(&mut line, "from", "rules");
            }
        }
        line
    }
}

fn tell(
    line: &mut String,
    verdict: &Verdict,
    cause: Option<&str>,
    names: Names<'_>,
    hash: KeyHash<'_>,
    took: Micros,
) {
    pair(
        line,
        "verdict",
        if verdict.allowed {
            "allowed"
        } else {
            "refused"
        },
    );
    if let Some(judged) = subject(verdict) {
        pair(line, "limit", names(judged.claim.limit));
        pair(line, "key", &hash(judged.claim.tag()));
        number(line, "remaining", judged.reading.remaining);
        match judged.reading.wait {
            _ if judged.reading.admitted => {}
            Wait::For(span) => number(line, "wait_ms", span.millis_up()),
            Wait::Never => pair(line, "wait_ms", "never"),
        }
    }
    let from = match verdict.source {
        Source::Redis => "redis",
        Source::Cache => "cache",
        Source::Local => "local",
    };
    pair(line, "from", from);
    if let Some(cause) = cause {
        pair(line, "cause", cause);
    }
    number(line, "us", took.0);
    let shadow = |judged: &&Judged| !judged.claim.enforced && !judged.reading.admitted;
    let mut would_refuse = String::new();
    for judged in verdict.judged.iter().filter(shadow) {
        if !would_refuse.is_empty() {
            would_refuse.push(',');
        }
        would_refuse.push_str(names(judged.claim.limit));
    }
    if !would_refuse.is_empty() {
        pair(line, "would_refuse", &would_refuse);
    }
}

/// The limit the line is about: the one that decided a refusal, else the enforced one with the least
/// room, else, when all are in shadow mode, the one of those.
fn subject(verdict: &Verdict) -> Option<&Judged> {
    let enforced = || verdict.judged.iter().filter(|judged| judged.claim.enforced);
    deciding(verdict)
        .or_else(|| least_room(enforced()))
        .or_else(|| least_room(&verdict.judged))
}

fn pair(line: &mut String, name: &str, value: &str) {
    if !line.is_empty() {
        line.push(' ');
    }
    line.push_str(name);
    line.push('=');
    // Names are checked at load; a log line must hold even if they were not.
    line.extend(
        value
            .chars()
            .map(|c| if c.is_ascii_graphic() { c } else { '_' }),
    );
}

fn number(line: &mut String, name: &str, value: u64) {
    let _ = write!(line, " {name}={value}");
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{
        algorithm::{Algorithm, Kind, Parameters, Window},
        claim::Claim,
        verdict::Reading,
    };

    fn judged(limit: usize, enforced: bool, admitted: bool, remaining: u64, wait: Wait) -> Judged {
        let algorithm = Algorithm::new(Parameters {
            kind: Kind::SlidingLog,
            count: 100,
            window: Some(Window::Span(Micros::from_secs(60))),
            burst: None,
            align: None,
            lease: None,
        });
        let key = format!("aforo:{{header/x-key=s3cret}}:limit-{limit}");
        let claim = Claim {
            limit,
            key,
            algorithm: algorithm.unwrap(),
            cost: 1,
            enforced,
        };
        let reading = Reading {
            admitted,
            remaining,
            wait,
            reset: Micros::from_secs(60),
        };
        Judged { claim, reading }
    }

    fn line(why: Why<'_>) -> String {
        let names = |limit: usize| ["per-key", "daily", "every one\n"][limit];
        let line = why.line(&names, &|key| format!("h{}", key.len()), Micros(412));
        assert!(!line.contains("s3cret"), "{line}");
        line
    }

    #[test]
    fn a_refusal_names_the_limit_that_decides_the_wait() {
        let wait = |millis| Wait::For(Micros::from_millis(millis));
        let verdict = Verdict {
            allowed: false,
            judged: vec![
                judged(0, true, false, 0, wait(10)),
                judged(1, true, false, 3, wait(6_812)),
            ],
            source: Source::Cache,
        };
        let expected =
            "verdict=refused limit=daily key=h19 remaining=3 wait_ms=6812 from=cache us=412";
        assert_eq!(line(Why::Verdict(&verdict)), expected);
    }

    #[test]
    fn an_allowed_request_names_the_least_room_and_who_would_have_refused() {
        let zero = Wait::For(Micros::ZERO);
        let verdict = Verdict {
            allowed: true,
            judged: vec![
                judged(0, true, true, 12, zero),
                judged(1, true, true, 80, zero),
                judged(2, false, false, 0, Wait::Never),
            ],
            source: Source::Redis,
        };
        let expected = "verdict=allowed limit=per-key key=h19 remaining=12 from=redis us=412 \
                        would_refuse=every_one_";
        assert_eq!(line(Why::Verdict(&verdict)), expected);
        let shadow = Verdict {
            judged: verdict.judged[2..].to_vec(),
            ..verdict
        };
        let expected = "verdict=allowed limit=every_one_ key=h19 remaining=0 wait_ms=never \
                        from=redis us=412 would_refuse=every_one_";
        assert_eq!(line(Why::Verdict(&shadow)), expected);
    }

    #[test]
    fn without_a_verdict_the_line_says_why_there_is_none() {
        for (why, expected) in [
            (
                Why::Outage {
                    cause: "timeout",
                    refused: false,
                },
                "verdict=allowed from=outage cause=timeout us=412",
            ),
            (
                Why::Outage {
                    cause: "oom",
                    refused: true,
                },
                "verdict=refused from=outage cause=oom us=412",
            ),
            (
                Why::Denied { limit: "per-key" },
                "verdict=denied limit=per-key from=rules",
            ),
        ] {
            assert_eq!(line(why), expected);
        }
    }
}
