//! The header families that tell a client where it stands.

use std::fmt::Write as _;

use super::{
    Names,
    base64::base64,
    draft::Draft,
    readings::{prominent, reset_seconds, shown},
    settings::{Family, ResetForm, Settings},
};
use crate::{
    algorithm::Kind,
    units::Moment,
    verdict::{Judged, Verdict},
};

/// Header fields: lower-case names, each at most once, with printable ASCII values.
pub type Fields = Vec<(&'static str, String)>;

/// The fields that say where a client stands, for an allowed response as for a refusal; without
/// `Retry-After`, which [`super::refusal()`] adds. `now` is the wall clock, asked for only by
/// `X-RateLimit-Reset` as an epoch. Empty when the verdict has no limit a client may see.
#[must_use]
pub fn state_headers(
    settings: &Settings,
    names: Names<'_>,
    verdict: &Verdict,
    now: Option<Moment>,
) -> Fields {
    let families = settings.parts().headers;
    let mut fields = Fields::with_capacity(6);
    if let Some(judged) = prominent(settings, verdict) {
        let reset = reset_seconds(judged);
        if families.has(Family::XRateLimit) {
            let epoch = now.filter(|_| settings.parts().reset == ResetForm::Epoch);
            let reset = reset.map(|seconds| epoch.map_or(seconds, |now| since_epoch(now, seconds)));
            let names = [
                "x-ratelimit-limit",
                "x-ratelimit-remaining",
                "x-ratelimit-reset",
            ];
            triple(&mut fields, names, judged, reset);
        }
        if families.has(Family::RateLimit06) {
            let names = ["ratelimit-limit", "ratelimit-remaining", "ratelimit-reset"];
            triple(&mut fields, names, judged, reset);
        }
    }
    if families.has(Family::RateLimitFields) {
        structured(&mut fields, settings, names, verdict);
    }
    fields
}

/// `-Limit`, `-Remaining` and, where time changes anything, `-Reset`.
fn triple(fields: &mut Fields, names: [&'static str; 3], judged: &Judged, reset: Option<u64>) {
    let [limit, remaining, reset_name] = names;
    let quota = judged.claim.algorithm.quota();
    fields.push((limit, quota.to_string()));
    fields.push((remaining, judged.reading.remaining.min(quota).to_string()));
    if let Some(seconds) = reset {
        fields.push((reset_name, seconds.to_string()));
    }
}

/// `RateLimit-Policy` and `RateLimit`: a list item a limit, with the same names in both.
fn structured(fields: &mut Fields, settings: &Settings, names: Names<'_>, verdict: &Verdict) {
    let draft = settings.draft();
    let (mut policies, mut states) = (String::with_capacity(64), String::with_capacity(64));
    for judged in shown(settings, verdict) {
        if !policies.is_empty() {
            policies.push_str(", ");
            states.push_str(", ");
        }
        let name = names(judged.claim.limit);
        policy_item(&mut policies, draft, name, judged);
        state_item(&mut states, draft, name, judged, verdict.allowed);
        if settings.parts().partition_key {
            let tag = base64(judged.claim.tag().as_bytes());
            for list in [&mut policies, &mut states] {
                let _ = write!(list, ";{}=:{tag}:", draft.partition);
            }
        }
    }
    if !policies.is_empty() {
        fields.push(("ratelimit-policy", policies));
        fields.push(("ratelimit", states));
    }
}

/// `"per-key";q=100;w=60`. A window that is no whole number of seconds is rounded up, which promises
/// less than is given; requests in flight have a unit and no window.
fn policy_item(list: &mut String, draft: &Draft, name: &str, judged: &Judged) {
    let algorithm = &judged.claim.algorithm;
    string(list, name);
    integer(list, draft.quota, algorithm.quota());
    if algorithm.kind() == Kind::Concurrency {
        let _ = write!(list, ";{}=\"{}\"", draft.unit, draft.concurrent);
    } else {
        integer(list, draft.window, algorithm.window().secs_up().max(1));
    }
}

/// `"per-key";r=12;t=7`. Beside a limit that refuses, those that do not are without a time: it could
/// lie after `Retry-After`, which the draft advises against.
fn state_item(list: &mut String, draft: &Draft, name: &str, judged: &Judged, allowed: bool) {
    string(list, name);
    integer(
        list,
        draft.remaining,
        judged.reading.remaining.min(judged.claim.algorithm.quota()),
    );
    let timed = allowed || !judged.reading.admitted;
    if let Some(seconds) = reset_seconds(judged).filter(|_| timed) {
        integer(list, draft.reset, seconds);
    }
}

/// A structured field's string: printable ASCII, quote and backslash escaped. Anything else, which no
/// limit's name has, is percent-encoded.
fn string(list: &mut String, text: &str) {
    list.push('"');
    for byte in text.bytes() {
        match byte {
            b'"' | b'\\' => {
                list.push('\\');
                list.push(char::from(byte));
            }
            b' '..=b'~' => list.push(char::from(byte)),
            _ => {
                let _ = write!(list, "%{byte:02X}");
            }
        }
    }
    list.push('"');
}

/// An integer parameter; structured fields have fifteen digits.
fn integer(list: &mut String, letter: &str, value: u64) {
    let _ = write!(list, ";{letter}={}", value.min(999_999_999_999_999));
}

/// The second since the epoch at which a span from `now` has passed, rounded up.
fn since_epoch(now: Moment, seconds: u64) -> u64 {
    now.0.div_ceil(1_000_000).saturating_add(seconds)
}
