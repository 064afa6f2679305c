//! The policy itself and its sections, each of which stands once.

use serde_json::{Value, json};

use super::{def, flag, one_of, table, text, whole};
use crate::policy::{MAX_LIMITS, PATH_CASES, local, outage, redis, reply};

pub(super) fn policy() -> Value {
    table(
        "Which requests are limited, by what, and how much",
        &["limits"],
        vec![
            (
                "domain",
                def("name"),
                "policies of different domains never share a count in Redis",
            ),
            ("redis", def("redis"), "how Redis is reached"),
            (
                "control",
                def("control"),
                "what is taken from Redis beside decisions",
            ),
            (
                "outage",
                one_of(&outage::ANSWERS),
                "what a request gets when Redis does not answer",
            ),
            (
                "local",
                def("local"),
                "the limiter of one worker, for outage: local",
            ),
            ("reply", def("reply"), "what the answer shows"),
            (
                "hash_key",
                json!({ "type": "string", "minLength": 16, "maxLength": 1024 }),
                "secret under which secret and long values are hashed before they go to Redis",
            ),
            (
                "ipv6_prefix",
                whole(1, 128),
                "leading bits of an IPv6 address that count; default 64",
            ),
            (
                "jwt_payload",
                text(),
                "the name under which jwt_authn keeps the verified payload; default payload",
            ),
            (
                "path_case",
                one_of(&PATH_CASES),
                "whether letter case tells paths apart",
            ),
            (
                "exempt",
                def("exemptions"),
                "requests that no limit is about",
            ),
            (
                "limits",
                json!({ "type": "array", "minItems": 1, "maxItems": MAX_LIMITS,
                        "items": def("limit") }),
                "the limits; all that apply to a request are asked at once",
            ),
        ],
    )
}

pub(super) fn redis_section() -> Value {
    table(
        "How Redis is reached",
        &[],
        vec![
            (
                "link",
                one_of(&redis::LINKS),
                "what carries the commands; default envoy",
            ),
            (
                "cluster",
                text(),
                "the Envoy cluster of the link; default aforo-link",
            ),
            (
                "authority",
                text(),
                "the host name sent to an HTTP gateway; default the cluster's name",
            ),
            (
                "topology",
                one_of(&redis::TOPOLOGIES),
                "one Redis, or Redis Cluster; default single",
            ),
            (
                "timeout",
                def("span"),
                "from asking to verdict, 1ms to 10s; default 20ms",
            ),
            (
                "remember_refusals",
                def("span"),
                "how long a worker may answer for Redis that a client is refused, up to 1m; default 0s",
            ),
            (
                "breaker",
                def("breaker"),
                "when requests stop waiting for a Redis that does not answer",
            ),
            (
                "prefix",
                def("name"),
                "the first part of every key; default aforo",
            ),
            (
                "username",
                text(),
                "for AUTH straight to Redis, and basic authentication at Webdis",
            ),
            ("password", text(), "goes with the username, or alone"),
            (
                "token",
                text(),
                "the bearer token of an Upstash-compatible gateway",
            ),
        ],
    )
}

pub(super) fn breaker_section() -> Value {
    use crate::outage::breaker::{FAILURE_PERCENT, FAILURES, LEAST_REQUESTS};
    let count = |range: &std::ops::RangeInclusive<u32>| {
        whole(u64::from(*range.start()), u64::from(*range.end()))
    };
    table(
        "When requests stop waiting for a Redis that does not answer",
        &[],
        vec![
            (
                "failures",
                count(&FAILURES),
                "this many failures in a row open it",
            ),
            (
                "failure_percent",
                count(&FAILURE_PERCENT),
                "or this share of failures in the window",
            ),
            (
                "window",
                def("span"),
                "the time over which the share is taken",
            ),
            (
                "least_requests",
                count(&LEAST_REQUESTS),
                "the share counts from this many requests on",
            ),
            (
                "retry",
                def("span"),
                "one request tries again after this time",
            ),
        ],
    )
}

pub(super) fn reply_section() -> Value {
    let families =
        json!({ "type": "array", "uniqueItems": true, "items": one_of(&reply::FAMILIES) });
    let body = json!({ "anyOf": [one_of(&reply::BODIES), def("reply_body")] });
    table(
        "What the answer shows",
        &[],
        vec![
            ("headers", families, "the header families"),
            (
                "draft",
                whole(0, 255),
                "the draft of the ratelimit-fields family",
            ),
            (
                "reset",
                one_of(&reply::RESETS),
                "whether X-RateLimit-Reset is a span or a moment",
            ),
            (
                "upstream",
                one_of(&reply::UPSTREAM),
                "what becomes of the upstream's own fields",
            ),
            ("body", body, "the body of a refusal"),
            (
                "retry_after",
                def("reply_retry_after"),
                "how Retry-After is written",
            ),
            (
                "grpc",
                one_of(&reply::GRPC),
                "the status that gRPC clients get",
            ),
            ("status", def("reply_status"), "the HTTP statuses"),
            (
                "partition_key",
                flag(),
                "whether RateLimit-Policy tells the client's part of the key, pk",
            ),
            (
                "show_shadow",
                flag(),
                "whether limits in shadow mode are shown",
            ),
            (
                "stop_envoy_retries",
                flag(),
                "whether Envoy is told not to retry a refusal",
            ),
            (
                "debug_secret",
                text(),
                "clients that send it are told why they got their answer",
            ),
        ],
    )
}

pub(super) fn control_section() -> Value {
    table(
        "What is taken from Redis beside decisions",
        &[],
        vec![
            (
                "switch",
                flag(),
                "whether the switch in Redis can turn every limit to shadow; default true",
            ),
            (
                "policy",
                flag(),
                "whether a policy pushed to Redis replaces this one; default false",
            ),
        ],
    )
}

pub(super) fn local_section() -> Value {
    let share = json!({
        "anyOf": [{ "type": "string", "pattern": "^1( */ *[0-9]{1,7})?$" }, { "const": 1 }],
    });
    table(
        "The limiter of one worker while Redis does not answer",
        &[],
        vec![
            (
                "share",
                share,
                "one worker's part of each limit, such as 1/8; default the whole",
            ),
            (
                "keys",
                whole(1, local::MAX_KEYS),
                "most keys it remembers; default 10000",
            ),
        ],
    )
}

pub(super) fn reply_retry_after() -> Value {
    let percent = json!({ "type": "string", "pattern": "^[0-9]{1,3}%$" });
    table(
        "How Retry-After is written",
        &[],
        vec![
            (
                "jitter",
                percent,
                "up to this share is added, so that clients do not return at once",
            ),
            ("max", def("span"), "never longer than this"),
            ("outage", def("span"), "when Redis does not answer"),
        ],
    )
}

pub(super) fn reply_status() -> Value {
    table(
        "The HTTP statuses",
        &[],
        vec![
            (
                "limited",
                whole(400, 599),
                "of a refusal by a limit; default 429",
            ),
            (
                "outage",
                whole(400, 599),
                "when Redis does not answer and outage is deny; default 503",
            ),
            (
                "denied",
                whole(400, 599),
                "of a refusal by a rule; default 403",
            ),
        ],
    )
}

pub(super) fn reply_body() -> Value {
    table(
        "Your own body",
        &["template"],
        vec![
            ("template", text(), "the text, with {placeholders}"),
            (
                "content_type",
                text(),
                "its type; default text/plain; charset=utf-8",
            ),
        ],
    )
}
