//! B29: what stands on the wire when the upstream tells its own numbers.

use aforo::{
    reply::{Edit, Family, Parts, Theirs, merge, state_headers},
    units::Micros,
};

use crate::reply::{Row, name, settings, verdict};

type Lines = Vec<(String, String)>;

/// The response after the edits.
fn apply(parts: Parts, status: u32, upstream: &[(&str, &str)]) -> Lines {
    let settings = settings(parts);
    let verdict = verdict(&[Row::admitted(4, Micros::from_secs(9))]);
    let ours = state_headers(&settings, &name, &verdict, None);
    let mut lines: Lines = upstream
        .iter()
        .map(|(n, v)| ((*n).into(), (*v).into()))
        .collect();
    let theirs = |name: &str| {
        let values: Vec<&str> = upstream
            .iter()
            .filter(|(found, _)| *found == name)
            .map(|(_, v)| *v)
            .collect();
        (!values.is_empty()).then(|| values.join(",").into_bytes())
    };
    for edit in merge(&settings, ours, status, &theirs) {
        match edit {
            Edit::Remove(name) => lines.retain(|(found, _)| found != name),
            Edit::Set(name, value) => {
                lines.retain(|(found, _)| found != name);
                lines.push((name.into(), value));
            }
        }
    }
    lines
}

fn with(theirs: Theirs) -> Parts {
    let headers = [Family::RetryAfter, Family::XRateLimit]
        .into_iter()
        .collect();
    Parts {
        theirs,
        headers,
        ..Parts::default()
    }
}

fn lines(lines: &[(&str, &str)]) -> Lines {
    lines
        .iter()
        .map(|(name, value)| ((*name).into(), (*value).into()))
        .collect()
}

const OURS: [(&str, &str); 3] = [
    ("x-ratelimit-limit", "100"),
    ("x-ratelimit-remaining", "4"),
    ("x-ratelimit-reset", "9"),
];
const THEIRS: [(&str, &str); 4] = [
    ("ratelimit-limit", "999"),
    ("ratelimit", "\"theirs\";r=998;t=3"),
    ("x-ratelimit-remaining", "998"),
    ("x-ratelimit-remaining", "997"),
];

#[test]
fn b29_replace_leaves_one_set_ours() {
    assert_eq!(apply(with(Theirs::Replace), 200, &THEIRS), lines(&OURS));
    assert_eq!(apply(with(Theirs::Replace), 200, &[]), lines(&OURS));
}

#[test]
fn b29_keep_leaves_one_set_theirs() {
    assert_eq!(apply(with(Theirs::Keep), 200, &THEIRS), lines(&THEIRS));
    assert_eq!(apply(with(Theirs::Keep), 200, &[]), lines(&OURS));
}

#[test]
fn b29_stricter_leaves_the_set_that_says_less_remains() {
    for (theirs, kept) in [
        (("x-ratelimit-remaining", "5"), false),
        (("x-ratelimit-remaining", "4"), false),
        (("x-ratelimit-remaining", "3"), true),
        (("x-ratelimit-remaining", "9, 3"), true),
        (("ratelimit-remaining", " 2"), true),
        (("ratelimit", "\"a;r=0\";r=50;t=1"), false),
        (("ratelimit", "\"a\\\";r=0\";r=50, \"b\"; r=1"), true),
        (("ratelimit", "limit=10, remaining=3, reset=5"), true),
        (("ratelimit", "\"a;r=0"), false),
        (("x-ratelimit-remaining", "-1"), false),
        (("x-ratelimit-remaining", "99999999999999999999"), false),
        (("x-ratelimit-limit", "1"), false),
    ] {
        let expected = if kept { lines(&[theirs]) } else { lines(&OURS) };
        assert_eq!(
            apply(with(Theirs::Stricter), 200, &[theirs]),
            expected,
            "{theirs:?}"
        );
    }
}

#[test]
fn b29_the_retry_after_of_an_upstreams_503_is_not_touched() {
    let upstream = [("retry-after", "7"), ("x-ratelimit-remaining", "998")];
    for theirs in [Theirs::Replace, Theirs::Stricter] {
        let mut expected = lines(&[("retry-after", "7")]);
        expected.extend(lines(&OURS));
        assert_eq!(apply(with(theirs), 503, &upstream), expected);
    }
}

#[test]
fn an_upstreams_own_429_keeps_the_numbers_that_explain_it() {
    let upstream = [("retry-after", "7"), ("x-ratelimit-remaining", "0")];
    for theirs in [Theirs::Replace, Theirs::Keep, Theirs::Stricter] {
        assert_eq!(apply(with(theirs), 429, &upstream), lines(&upstream));
    }
}

#[test]
fn an_informational_response_is_left_alone() {
    for status in [100, 101, 103, 199] {
        assert_eq!(
            apply(with(Theirs::Replace), status, &THEIRS),
            lines(&THEIRS)
        );
    }
}
