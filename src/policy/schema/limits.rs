//! A limit and the tables in it.

use serde_json::{Value, json};

use super::{def, flag, one_of, one_or_more, table, text, whole};
use crate::algorithm::{MAX_COST, MAX_COUNT};
use crate::policy::{limit, outage, when};

pub(super) fn limit_table() -> Value {
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

pub(super) fn when_table() -> Value {
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

pub(super) fn path_table() -> Value {
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

pub(super) fn test_table() -> Value {
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

pub(super) fn part_table() -> Value {
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

pub(super) fn terms_table() -> Value {
    table(
        "A rate with its burst",
        &["rate"],
        vec![
            ("rate", def("rate"), "how much is admitted"),
            ("burst", whole(1, MAX_COUNT), "units at once"),
        ],
    )
}

pub(super) fn override_table() -> Value {
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

pub(super) fn cost_table() -> Value {
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
