//! What a refused client is told: status, `Retry-After`, body, gRPC.

use aforo::{
    algorithm::{Algorithm, Kind, Parameters, Window},
    claim::Claim,
    reply::{
        Body, Circumstances, Families, Family, GrpcStatus, Parts, Refusal, RequestKind, Settings,
        Template, denial, outage_refusal, refusal, retry_after,
    },
    units::Micros,
    verdict::{Judged, Reading, Source, Verdict, Wait},
};
use proptest::prelude::*;
use serde_json::json;

/// One limit of a made-up verdict.
#[derive(Clone, Debug)]
pub struct Row {
    pub kind: Kind,
    pub quota: u64,
    pub window: Micros,
    pub cost: u64,
    pub enforced: bool,
    pub reading: Reading,
}

impl Row {
    /// 100 a minute, refused for `wait`, nothing left.
    pub fn refused(wait: Micros) -> Self {
        let reading = Reading {
            admitted: false,
            remaining: 0,
            wait: Wait::For(wait),
            reset: Micros::from_secs(60),
        };
        Self {
            kind: Kind::SlidingLog,
            quota: 100,
            window: Micros::from_secs(60),
            cost: 1,
            enforced: true,
            reading,
        }
    }

    /// 100 a minute, admitted, so many left, whole again after `reset`.
    pub fn admitted(remaining: u64, reset: Micros) -> Self {
        let row = Self::refused(Micros::ZERO);
        Self {
            reading: Reading {
                admitted: true,
                remaining,
                reset,
                ..row.reading
            },
            ..row
        }
    }

    /// 100 a minute, a cost that can never fit.
    pub fn never(cost: u64) -> Self {
        let row = Self::refused(Micros::ZERO);
        let reading = Reading {
            remaining: 100,
            wait: Wait::Never,
            ..row.reading
        };
        Self {
            cost,
            reading,
            ..row
        }
    }

    pub fn shadow(self) -> Self {
        Self {
            enforced: false,
            ..self
        }
    }
}

pub fn verdict(rows: &[Row]) -> Verdict {
    let judged = rows.iter().enumerate().map(|(limit, row)| {
        let window = (row.kind != Kind::Concurrency).then_some(Window::Span(row.window));
        let parameters = Parameters {
            kind: row.kind,
            count: row.quota,
            window,
            burst: None,
            align: None,
            lease: None,
        };
        Judged {
            claim: Claim {
                limit,
                key: format!("aforo:{{t}}:limit-{limit}:x"),
                algorithm: Algorithm::new(parameters).unwrap(),
                cost: row.cost,
                enforced: row.enforced,
            },
            reading: row.reading,
        }
    });
    Verdict {
        allowed: rows.iter().all(|row| row.reading.admitted || !row.enforced),
        judged: judged.collect(),
        source: Source::Redis,
    }
}

/// The limits' names by index: `per-key`, `daily`, `everyone`.
pub fn name(limit: usize) -> &'static str {
    ["per-key", "daily", "everyone"][limit]
}

pub fn circumstances(kind: RequestKind) -> Circumstances {
    Circumstances {
        kind,
        random: 0,
        now: None,
    }
}

pub fn settings(parts: Parts) -> Settings {
    Settings::new(parts).unwrap()
}

pub fn value<'a>(headers: &'a [(&'static str, String)], name: &str) -> Option<&'a str> {
    let mut found = headers.iter().filter(|(found, _)| *found == name);
    let value = found.next().map(|(_, value)| value.as_str());
    assert!(found.next().is_none(), "two values of {name}: {headers:?}");
    value
}

fn refuse(parts: Parts, rows: &[Row], kind: RequestKind) -> Refusal {
    refusal(&settings(parts), &name, &verdict(rows), circumstances(kind))
}

fn body_of(reply: &Refusal) -> serde_json::Value {
    serde_json::from_slice(&reply.body).unwrap()
}

#[test]
fn b13_retry_after_never_rounds_down() {
    for (wait, seconds) in [
        (0, "1"),
        (1, "1"),
        (999_999, "1"),
        (1_000_000, "1"),
        (1_000_001, "2"),
        (59_000_001, "60"),
    ] {
        let reply = refuse(
            Parts::default(),
            &[Row::refused(Micros(wait))],
            RequestKind::Plain,
        );
        assert_eq!(
            value(&reply.headers, "retry-after"),
            Some(seconds),
            "{wait} µs"
        );
        assert_eq!(
            value(&reply.headers, "x-ratelimit-reset"),
            Some(seconds),
            "{wait} µs"
        );
    }
}

#[test]
fn the_longest_wait_of_the_enforced_limits_that_refuse_is_told() {
    let rows = [
        Row::refused(Micros::from_secs(3)),
        Row::refused(Micros::from_secs(9)),
        Row::refused(Micros::from_secs(700)).shadow(),
    ];
    let reply = refuse(Parts::default(), &rows, RequestKind::Plain);
    assert_eq!(value(&reply.headers, "retry-after"), Some("9"));
    assert_eq!(
        body_of(&reply)["violated-policies"],
        json!(["per-key", "daily"])
    );
    assert_eq!(
        body_of(&reply)["detail"],
        "rate limit daily exceeded, retry after 9 s"
    );
}

#[test]
fn b37_a_cost_that_never_fits_gets_no_retry_after() {
    for rows in [
        vec![Row::never(101)],
        vec![Row::refused(Micros::from_secs(9)), Row::never(101)],
        vec![Row::never(101), Row::refused(Micros::from_secs(9))],
    ] {
        let reply = refuse(Parts::default(), &rows, RequestKind::Plain);
        assert_eq!(reply.status, 429);
        assert_eq!(value(&reply.headers, "retry-after"), None, "{rows:?}");
        assert_eq!(value(&reply.headers, "x-ratelimit-reset"), None, "{rows:?}");
        assert_eq!(
            value(&reply.headers, "x-ratelimit-remaining"),
            Some("100"),
            "{rows:?}"
        );
        assert_eq!(body_of(&reply).get("retry_after"), None);
    }
}

#[test]
fn problem_json_is_the_default_body_and_carries_the_registered_type() {
    let reply = refuse(
        Parts::default(),
        &[Row::refused(Micros::from_secs(7))],
        RequestKind::Plain,
    );
    assert_eq!(
        (reply.status, reply.grpc_status, reply.details),
        (429, None, "aforo_limited")
    );
    assert_eq!(
        value(&reply.headers, "content-type"),
        Some("application/problem+json")
    );
    assert_eq!(value(&reply.headers, "cache-control"), Some("no-store"));
    assert_eq!(value(&reply.headers, "x-envoy-ratelimited"), Some("true"));
    assert_eq!(
        body_of(&reply),
        json!({
            "type": "https://iana.org/assignments/http-problem-types#quota-exceeded",
            "title": "Quota Exceeded",
            "status": 429,
            "detail": "rate limit per-key exceeded, retry after 7 s",
            "violated-policies": ["per-key"],
            "retry_after": 7,
        })
    );
}

#[test]
fn every_kind_of_body_says_its_content_type() {
    let template = |text: &str, content_type: &str| {
        Body::Template(Template {
            text: text.into(),
            content_type: content_type.into(),
        })
    };
    for (body, content_type, expected) in [
        (
            Body::Json,
            "application/json",
            r#"{"error":"rate_limited","name":"per-key","limit":100,"remaining":0,"retry_after":7}"#,
        ),
        (
            Body::Text,
            "text/plain; charset=utf-8",
            "rate limit per-key exceeded, retry after 7 s\n",
        ),
        (
            template(
                r#"{"limit":{limit},"of":"{name}","in":{retry_after},"{":{}}"#,
                "text/x",
            ),
            "text/x",
            r#"{"limit":100,"of":"per-key","in":7,"{":{}}"#,
        ),
        (template("", "text/html"), "text/html", ""),
    ] {
        let parts = Parts {
            body,
            ..Parts::default()
        };
        let reply = refuse(
            parts,
            &[Row::refused(Micros::from_secs(7))],
            RequestKind::Plain,
        );
        assert_eq!(value(&reply.headers, "content-type"), Some(content_type));
        assert_eq!(String::from_utf8(reply.body).unwrap(), expected);
    }
}

#[test]
fn b49_grpc_gets_resource_exhausted_with_a_message_and_keeps_the_headers() {
    let rows = [Row::refused(Micros::from_secs(7))];
    let reply = refuse(Parts::default(), &rows, RequestKind::Grpc);
    assert_eq!((reply.status, reply.grpc_status), (429, Some(8)));
    assert_eq!(reply.body, b"rate limit per-key exceeded, retry after 7 s");
    assert_eq!(
        value(&reply.headers, "content-type"),
        None,
        "Envoy sets gRPC's"
    );
    assert_eq!(value(&reply.headers, "retry-after"), Some("7"));
    assert_eq!(value(&reply.headers, "x-ratelimit-limit"), Some("100"));

    let parts = Parts {
        grpc: GrpcStatus::Unavailable,
        ..Parts::default()
    };
    assert_eq!(
        refuse(parts, &rows, RequestKind::Grpc).grpc_status,
        Some(14)
    );
}

#[test]
fn grpc_web_gets_its_status_as_trailers_in_the_body_of_a_200() {
    let rows = [Row::refused(Micros::from_secs(7))];
    let reply = refuse(
        Parts::default(),
        &rows,
        RequestKind::GrpcWeb { text: false },
    );
    assert_eq!((reply.status, reply.grpc_status), (200, None));
    assert_eq!(
        value(&reply.headers, "content-type"),
        Some("application/grpc-web+proto")
    );
    assert_eq!(value(&reply.headers, "retry-after"), Some("7"));
    let lines = "grpc-status: 8\r\ngrpc-message: rate limit per-key exceeded, retry after 7 s\r\n";
    assert_eq!(
        reply.body,
        [&[0x80, 0, 0, 0, 76], lines.as_bytes()].concat()
    );

    let text = refuse(Parts::default(), &rows, RequestKind::GrpcWeb { text: true });
    assert_eq!(
        value(&text.headers, "content-type"),
        Some("application/grpc-web-text+proto")
    );
    assert!(text.body.starts_with(b"gAAAAExncnBj"));
}

#[test]
fn head_gets_the_headers_and_no_body() {
    let rows = [Row::refused(Micros::from_secs(7))];
    let get = refuse(Parts::default(), &rows, RequestKind::Plain);
    let head = refuse(Parts::default(), &rows, RequestKind::Head);
    assert_eq!(
        head,
        Refusal {
            body: Vec::new(),
            ..get
        }
    );
}

#[test]
fn b02_an_outage_has_a_wait_and_no_invented_numbers() {
    let none = Parts {
        headers: Families::default(),
        ..Parts::default()
    };
    for parts in [Parts::default(), none] {
        let settings = settings(parts);
        let reply = outage_refusal(&settings, circumstances(RequestKind::Plain));
        assert_eq!((reply.status, reply.details), (503, "aforo_outage"));
        let names: Vec<_> = reply.headers.iter().map(|(name, _)| *name).collect();
        assert_eq!(names, ["retry-after", "cache-control", "content-type"]);
        assert_eq!(value(&reply.headers, "retry-after"), Some("1"));
        let kind = "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
        assert_eq!(body_of(&reply)["type"], kind);
        let grpc = outage_refusal(&settings, circumstances(RequestKind::Grpc));
        assert_eq!(grpc.grpc_status, Some(14));
    }
}

#[test]
fn a_denial_is_a_403_that_no_wait_cures() {
    let reply = denial(&Settings::default(), circumstances(RequestKind::Plain));
    assert_eq!((reply.status, reply.details), (403, "aforo_denied"));
    assert_eq!(value(&reply.headers, "retry-after"), None);
    assert_eq!(body_of(&reply)["detail"], "not permitted");
    let grpc = denial(&Settings::default(), circumstances(RequestKind::Grpc));
    assert_eq!(grpc.grpc_status, Some(7));
}

#[test]
fn without_the_family_no_retry_after_is_sent() {
    let headers = [Family::XRateLimit].into_iter().collect();
    let parts = Parts {
        headers,
        stop_envoy_retries: false,
        ..Parts::default()
    };
    let reply = refuse(
        parts,
        &[Row::refused(Micros::from_secs(7))],
        RequestKind::Plain,
    );
    let names: Vec<_> = reply.headers.iter().map(|(name, _)| *name).collect();
    let state = [
        "x-ratelimit-limit",
        "x-ratelimit-remaining",
        "x-ratelimit-reset",
    ];
    assert_eq!(
        names,
        [&state[..], &["cache-control", "content-type"]].concat()
    );
}

proptest! {
    #[test]
    fn jitter_only_lengthens_a_wait_within_its_share_and_the_cap_ends_it(
        wait in 0u64..200_000_000_000, percent in 0u8..=100, random: u64,
        cap in proptest::option::of(1u64..100_000),
    ) {
        let settings = settings(Parts {
            jitter_percent: percent,
            max_retry_after: cap.map(Micros::from_secs),
            ..Parts::default()
        });
        let verdict = verdict(&[Row::refused(Micros(wait))]);
        let told = retry_after(&settings, &verdict, random).unwrap();
        let exact = Micros(wait).secs_up().max(1);
        let cap = cap.unwrap_or(u64::MAX);
        prop_assert!(told >= exact.min(cap));
        prop_assert!(told <= (exact + exact * u64::from(percent) / 100).min(cap));
    }
}

#[test]
fn jitter_reaches_both_ends_of_its_share() {
    let settings = settings(Parts {
        jitter_percent: 10,
        ..Parts::default()
    });
    let verdict = verdict(&[Row::refused(Micros::from_secs(60))]);
    for (random, told) in [(0, 60), (u64::MAX / 2, 63), (u64::MAX, 66)] {
        assert_eq!(retry_after(&settings, &verdict, random), Some(told));
    }
}
