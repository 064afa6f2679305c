//! The JSON Schema of a policy, for editors. Not in the filter's module.
//!
//! Names of fields and of choices are those that the readers use; what is written here is what an
//! editor shows. [`TABLES`] holds each table's fields, and a test compares them with the schema's.

use serde_json::{Map, Value, json};

use super::{
    breaker, control, cost, key, limit, local, outage, overrides, path, redis, reply, terms, text,
    when,
};
use crate::algorithm::{MAX_COST, MAX_COUNT};

/// The name of each table in `$defs`, and the fields its reader knows. The policy itself is `policy`.
pub const TABLES: &[(&str, &[&str])] = &[
    ("policy", super::FIELDS),
    ("redis", redis::FIELDS),
    ("breaker", breaker::FIELDS),
    ("control", control::FIELDS),
    ("local", local::FIELDS),
    ("reply", reply::FIELDS),
    ("reply_retry_after", reply::RETRY_AFTER_FIELDS),
    ("reply_status", reply::STATUS_FIELDS),
    ("reply_body", reply::BODY_FIELDS),
    ("limit", limit::FIELDS),
    ("when", when::FIELDS),
    ("path_table", path::FIELDS),
    ("test_table", text::FIELDS),
    ("part_table", key::PART_FIELDS),
    ("terms_table", terms::FIELDS),
    ("override", overrides::FIELDS),
    ("cost_table", cost::FIELDS),
];

/// The schema, draft 2020-12.
#[must_use]
pub fn schema() -> Value {
    let mut defs = Map::new();
    for (name, schema) in [
        ("redis", redis_section()),
        ("breaker", breaker_section()),
        ("control", control_section()),
        ("local", local_section()),
        ("reply", reply_section()),
        ("reply_retry_after", reply_retry_after()),
        ("reply_status", reply_status()),
        ("reply_body", reply_body()),
        ("limit", limit_table()),
        ("when", when_table()),
        ("path_table", path_table()),
        ("test_table", test_table()),
        ("part_table", part_table()),
        ("terms_table", terms_table()),
        ("override", override_table()),
        ("cost_table", cost_table()),
    ] {
        defs.insert(name.to_owned(), schema);
    }
    for (name, schema) in words() {
        defs.insert(name.to_owned(), schema);
    }
    let mut schema = policy();
    if let Some(object) = schema.as_object_mut() {
        object.insert(
            "$schema".to_owned(),
            json!("https://json-schema.org/draft/2020-12/schema"),
        );
        object.insert("title".to_owned(), json!("Aforo policy"));
        object.insert("$defs".to_owned(), Value::Object(defs));
    }
    schema
}

/// A field: its name, what it is, what an editor says of it.
type Entry = (&'static str, Value, &'static str);

fn table(description: &str, required: &[&str], entries: Vec<Entry>) -> Value {
    let mut properties = Map::new();
    for (name, mut schema, description) in entries {
        if let Some(object) = schema.as_object_mut() {
            object.insert("description".to_owned(), json!(description));
        }
        properties.insert(name.to_owned(), schema);
    }
    json!({
        "type": "object",
        "description": description,
        "additionalProperties": false,
        "required": required,
        "properties": properties,
    })
}

fn one_of<T>(choices: &[(&'static str, T)]) -> Value {
    let names: Vec<_> = choices.iter().map(|(name, _)| *name).collect();
    json!({ "enum": names })
}

fn whole(least: u64, most: u64) -> Value {
    json!({ "type": "integer", "minimum": least, "maximum": most })
}

fn one_or_more(item: &Value) -> Value {
    json!({ "anyOf": [item, { "type": "array", "minItems": 1, "items": item }] })
}

fn def(name: &str) -> Value {
    json!({ "$ref": format!("#/$defs/{name}") })
}

fn text() -> Value {
    json!({ "type": "string", "minLength": 1 })
}

fn flag() -> Value {
    json!({ "type": "boolean" })
}

/// The words of the language: what is written as text.
fn words() -> Vec<(&'static str, Value)> {
    let named = key::NAMED_KINDS.join("|");
    let plain = key::PLAIN_KINDS.join("|");
    vec![
        (
            "name",
            json!({ "type": "string", "pattern": "^[A-Za-z0-9._-]{1,64}$" }),
        ),
        (
            "span",
            json!({ "type": "string", "pattern": "^[0-9]+(ms|s|m|h|d)$",
                    "description": "a time with its unit: 20ms, 10s, 1m, 2h, 30d" }),
        ),
        (
            "rate",
            json!({
                "description": "COUNT/WINDOW such as 100/1m, 5/10s, 20/500ms, 9/month; a COUNT alone \
                                for concurrency; unlimited; deny",
                "anyOf": [
                    { "type": "string",
                      "pattern": "^([0-9]+ */ *([0-9]+(ms|s|m|h|d)|second|minute|hour|day|month)\
                                  |[0-9]+|unlimited|deny)$" },
                    whole(1, MAX_COUNT),
                ],
            }),
        ),
        (
            "terms",
            json!({ "anyOf": [def("rate"), def("terms_table")] }),
        ),
        (
            "part",
            json!({
                "description": "what identifies a client",
                "anyOf": [
                    { "enum": key::PLAIN_KINDS },
                    { "type": "string", "pattern": format!("^({plain}|({named}):.+)$") },
                    def("part_table"),
                ],
            }),
        ),
        (
            "key",
            json!({ "anyOf": [def("part"), { "type": "array", "maxItems": 8, "items": def("part") }] }),
        ),
        (
            "path",
            json!({ "anyOf": [{ "type": "string", "pattern": "^/" }, def("path_table")] }),
        ),
        ("test", {
            let value = json!({ "type": ["string", "integer", "boolean"] });
            json!({ "anyOf": [one_or_more(&value), def("test_table")] })
        }),
        (
            "tests",
            json!({ "type": "object", "additionalProperties": def("test") }),
        ),
        (
            "network",
            json!({ "type": "string", "pattern": "^[0-9A-Fa-f.:]+(/[0-9]{1,3})?$",
                    "description": "a network such as 10.0.0.0/8 or 2001:db8::/32, or one address" }),
        ),
        (
            "exemptions",
            one_or_more(&json!({ "anyOf": [one_of(&when::KINDS), def("when")] })),
        ),
    ]
}

fn policy() -> Value {
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
                one_of(&super::PATH_CASES),
                "whether letter case tells paths apart",
            ),
            (
                "exempt",
                def("exemptions"),
                "requests that no limit is about",
            ),
            (
                "limits",
                json!({ "type": "array", "minItems": 1, "maxItems": super::MAX_LIMITS,
                        "items": def("limit") }),
                "the limits; all that apply to a request are asked at once",
            ),
        ],
    )
}

fn redis_section() -> Value {
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

fn breaker_section() -> Value {
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

fn reply_section() -> Value {
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

fn control_section() -> Value {
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

fn local_section() -> Value {
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

fn reply_retry_after() -> Value {
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

fn reply_status() -> Value {
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

fn reply_body() -> Value {
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

fn limit_table() -> Value {
    let share = json!({ "type": "number", "minimum": 0, "maximum": 100 });
    let cost = json!({ "anyOf": [whole(1, MAX_COST), def("cost_table")] });
    let missing = json!({ "anyOf": [{ "enum": ["deny", "skip", "shared"] }, def("key")] });
    let mode = json!({ "enum": ["enforce", "shadow", "off", false] });
    let align = json!({ "type": "string",
                        "pattern": "^(first-hit|utc([+-][0-9]{1,2}(:[0-5][0-9])?)?)$" });
    let plans = json!({ "type": "object", "required": ["by"], "minProperties": 2,
                        "properties": { "by": def("part") }, "additionalProperties": def("terms") });
    let overrides = json!({ "type": "array", "minItems": 1, "items": def("override") });
    table(
        "One limit",
        &["name", "key", "algorithm", "rate"],
        vec![
            ("name", def("name"), "in keys, metrics and headers; unique"),
            (
                "when",
                one_or_more(&def("when")),
                "which requests it is about; left out, all",
            ),
            ("exempt", def("exemptions"), "which of them it leaves out"),
            (
                "group",
                def("name"),
                "of a group, only the first limit that applies is asked",
            ),
            (
                "key",
                def("key"),
                "what identifies a client; [] is one bucket for all",
            ),
            (
                "ipv6_prefix",
                whole(1, 128),
                "leading bits of an IPv6 address that count, for this limit",
            ),
            ("secret", flag(), "whether all parts of the key are hashed"),
            (
                "missing",
                missing,
                "what stands in for an absent or empty part; default ip",
            ),
            ("algorithm", one_of(&limit::ALGORITHMS), "how it counts"),
            ("rate", def("rate"), "how much it admits"),
            (
                "burst",
                whole(1, MAX_COUNT),
                "units at once, for token-bucket and gcra; default the count",
            ),
            (
                "align",
                align,
                "how the windows of fixed-window are laid; default utc",
            ),
            (
                "lease",
                def("span"),
                "for concurrency: how long a request counts at most; default 1m",
            ),
            (
                "plans",
                plans,
                "rates by the name of a plan that the request carries",
            ),
            (
                "overrides",
                overrides,
                "rates of single clients; the first that matches counts",
            ),
            ("cost", cost, "units a request takes; default 1"),
            (
                "mode",
                mode,
                "shadow counts and refuses nothing; off does nothing",
            ),
            (
                "enforce_percent",
                share,
                "the share of keys for which a refusal refuses; default 100",
            ),
            (
                "outage",
                one_of(&outage::ANSWERS),
                "its own answer when Redis does not answer",
            ),
            (
                "local",
                def("terms"),
                "what one worker admits then, in place of its share of the limit",
            ),
        ],
    )
}

fn when_table() -> Value {
    let method = json!({ "type": "string", "pattern": "^[^a-z]{1,32}$" });
    table(
        "Conditions that must all hold",
        &[],
        vec![
            (
                "path",
                one_or_more(&def("path")),
                "/login, /api/ and all below, /users/{id}/orders",
            ),
            ("methods", one_or_more(&method), "one of these methods"),
            (
                "hosts",
                one_or_more(&text()),
                "one of these hosts; *.example.com is all below it",
            ),
            ("headers", def("tests"), "headers by name"),
            ("query", def("tests"), "query parameters by name"),
            ("cookies", def("tests"), "cookies by name"),
            ("claims", def("tests"), "claims of the verified JWT by name"),
            ("properties", def("tests"), "Envoy attributes by name"),
            (
                "ip",
                one_or_more(&def("network")),
                "the client's address in one of these networks",
            ),
            (
                "is",
                one_or_more(&one_of(&when::KINDS)),
                "one of these known kinds of request",
            ),
            ("not", one_or_more(&def("when")), "none of these"),
        ],
    )
}

fn path_table() -> Value {
    table(
        "A path pattern, said by name",
        &[],
        vec![
            ("exact", text(), "this path"),
            ("prefix", text(), "this path and everything below it"),
            (
                "template",
                text(),
                "one segment of any text for each {NAME}",
            ),
            ("regex", text(), "the whole path, by a regular expression"),
        ],
    )
}

fn test_table() -> Value {
    let value = json!({ "type": ["string", "integer", "boolean"] });
    table(
        "What is asked of a value",
        &[],
        vec![
            ("present", flag(), "whether it is there and not empty"),
            ("equals", one_or_more(&value), "it is one of these"),
            ("prefix", text(), "it begins so"),
            ("suffix", text(), "it ends so"),
            ("regex", text(), "the whole of it, by a regular expression"),
        ],
    )
}

fn part_table() -> Value {
    let steps = json!({ "anyOf": [text(), { "type": "array", "minItems": 1, "maxItems": 16,
                                             "items": text() }] });
    table(
        "A part of a key, with whether it is secret",
        &[],
        vec![
            ("header", text(), "a header"),
            ("cookie", text(), "a cookie"),
            ("query", text(), "a query parameter"),
            (
                "claim",
                steps.clone(),
                "a claim of the verified JWT; a list when names hold dots",
            ),
            (
                "property",
                steps,
                "an Envoy attribute; a list when names hold dots",
            ),
            ("secret", flag(), "whether its value is hashed"),
        ],
    )
}

fn terms_table() -> Value {
    table(
        "A rate with its burst",
        &["rate"],
        vec![
            ("rate", def("rate"), "how much is admitted"),
            ("burst", whole(1, MAX_COUNT), "units at once"),
        ],
    )
}

fn override_table() -> Value {
    let value = json!({ "type": ["string", "integer"] });
    table(
        "The rate of single clients",
        &["match", "rate"],
        vec![
            (
                "match",
                one_or_more(&value),
                "the client's value, a glob with * and ?, or a network",
            ),
            (
                "by",
                def("part"),
                "what `match` is about; default the only part of the key",
            ),
            ("rate", def("rate"), "how much is admitted"),
            ("burst", whole(1, MAX_COUNT), "units at once"),
        ],
    )
}

fn cost_table() -> Value {
    table(
        "A cost that the request names",
        &["header", "max"],
        vec![
            ("header", text(), "the header that holds it"),
            (
                "default",
                whole(0, MAX_COST),
                "without the header, or when it is no number; default 1",
            ),
            ("min", whole(0, MAX_COST), "less counts as this; default 1"),
            ("max", whole(1, MAX_COST), "more counts as this"),
        ],
    )
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use super::*;

    #[test]
    fn the_schema_has_the_fields_that_the_readers_know() {
        let schema = schema();
        for (name, fields) in TABLES {
            let table = if *name == "policy" {
                &schema
            } else {
                &schema["$defs"][name]
            };
            let written: BTreeSet<&str> = table["properties"]
                .as_object()
                .unwrap()
                .keys()
                .map(String::as_str)
                .collect();
            assert_eq!(written, fields.iter().copied().collect(), "{name}");
            assert_eq!(table["additionalProperties"], false, "{name}");
        }
    }

    #[test]
    fn every_reference_leads_somewhere() {
        fn references(value: &Value, out: &mut Vec<String>) {
            match value {
                Value::Object(object) => {
                    for (name, value) in object {
                        match (name.as_str(), value) {
                            ("$ref", Value::String(text)) => out.push(text.clone()),
                            _ => references(value, out),
                        }
                    }
                }
                Value::Array(list) => list.iter().for_each(|value| references(value, out)),
                _ => {}
            }
        }
        let schema = schema();
        let mut found = Vec::new();
        references(&schema, &mut found);
        for reference in found {
            let name = reference.strip_prefix("#/$defs/").unwrap();
            assert!(schema["$defs"][name].is_object(), "{reference}");
        }
    }
}
