//! Bodies: problem+json, json, text, or the policy's own words.

use serde::Serialize;

use super::settings::{Body, Settings};

/// What a body tells.
pub(super) struct Story<'a> {
    /// The HTTP status it goes with.
    pub status: u32,
    /// Which of our answers it is.
    pub cause: Cause<'a>,
    /// Whole seconds to wait; `None` when no wait helps.
    pub retry_after: Option<u64>,
}

/// Why there is a body.
pub(super) enum Cause<'a> {
    /// A limit refused.
    Limited {
        /// The limit that decides the wait.
        name: &'a str,
        /// Its quota.
        quota: u64,
        /// What is left of it.
        remaining: u64,
        /// Every limit that refused.
        violated: Vec<&'a str>,
    },
    /// Redis did not answer.
    Outage,
    /// A rule refuses.
    Denied,
}

/// `Content-Type` and body.
pub(super) fn body(settings: &Settings, story: &Story<'_>) -> (String, Vec<u8>) {
    let fixed = |content_type: &str, body: Vec<u8>| (content_type.to_owned(), body);
    match (&settings.parts().body, &story.cause) {
        (Body::Problem, _) => fixed("application/problem+json", problem(story)),
        (Body::Json, _) => fixed("application/json", json(story)),
        (
            Body::Template(template),
            Cause::Limited {
                name,
                quota,
                remaining,
                ..
            },
        ) => {
            let filled = template.fill(name, *quota, *remaining, story.retry_after);
            (template.content_type.clone(), filled.into_bytes())
        }
        (Body::Text | Body::Template(_), _) => {
            let mut line = message(story);
            line.push('\n');
            fixed("text/plain; charset=utf-8", line.into_bytes())
        }
    }
}

/// One line of printable ASCII for people; the gRPC message too.
pub(super) fn message(story: &Story<'_>) -> String {
    let what = match &story.cause {
        Cause::Limited { name, .. } => format!("rate limit {name} exceeded"),
        Cause::Outage => "rate limiting is unavailable".to_owned(),
        Cause::Denied => return "not permitted".to_owned(),
    };
    match story.retry_after {
        Some(seconds) => format!("{what}, retry after {seconds} s"),
        None => format!("{what}, a request of this cost never fits"),
    }
}

/// RFC 9457 with the types that the RateLimit draft registers.
fn problem(story: &Story<'_>) -> Vec<u8> {
    #[derive(Serialize)]
    struct Problem<'a> {
        r#type: &'static str,
        title: &'static str,
        status: u32,
        detail: String,
        #[serde(rename = "violated-policies", skip_serializing_if = "Option::is_none")]
        violated_policies: Option<&'a [&'a str]>,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    }
    let (r#type, title, violated_policies) = match &story.cause {
        Cause::Limited { violated, .. } => {
            (QUOTA_EXCEEDED, "Quota Exceeded", Some(violated.as_slice()))
        }
        Cause::Outage => (REDUCED_CAPACITY, "Temporary Reduced Capacity", None),
        Cause::Denied => ("about:blank", "Forbidden", None),
    };
    encode(&Problem {
        r#type,
        title,
        status: story.status,
        detail: message(story),
        violated_policies,
        retry_after: story.retry_after,
    })
}

fn json(story: &Story<'_>) -> Vec<u8> {
    #[derive(Default, Serialize)]
    struct Flat<'a> {
        error: &'static str,
        #[serde(skip_serializing_if = "Option::is_none")]
        name: Option<&'a str>,
        #[serde(skip_serializing_if = "Option::is_none")]
        limit: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        remaining: Option<u64>,
        #[serde(skip_serializing_if = "Option::is_none")]
        retry_after: Option<u64>,
    }
    let flat = Flat {
        retry_after: story.retry_after,
        ..Flat::default()
    };
    encode(&match &story.cause {
        Cause::Limited {
            name,
            quota,
            remaining,
            ..
        } => Flat {
            error: "rate_limited",
            name: Some(name),
            limit: Some(*quota),
            remaining: Some(*remaining),
            ..flat
        },
        Cause::Outage => Flat {
            error: "rate_limiting_unavailable",
            ..flat
        },
        Cause::Denied => Flat {
            error: "not_permitted",
            ..flat
        },
    })
}

/// These shapes always encode; an empty body is what would be left otherwise.
fn encode(value: &impl Serialize) -> Vec<u8> {
    serde_json::to_vec(value).unwrap_or_default()
}

const QUOTA_EXCEEDED: &str = "https://iana.org/assignments/http-problem-types#quota-exceeded";
const REDUCED_CAPACITY: &str =
    "https://iana.org/assignments/http-problem-types#temporary-reduced-capacity";
