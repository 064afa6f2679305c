//! The JSON Schema of a policy, for editors. Not in the filter's module.
//!
//! Names of fields and of choices are those that the readers use; what is written here is what an
//! editor shows. [`TABLES`] holds each table's fields, and a test compares them with the schema's.

use serde_json::{Map, Value, json};

use super::{
    breaker, control, cost, key, limit, local, overrides, path, redis, reply, terms, text, when,
};
use crate::algorithm::MAX_COUNT;

mod limits;
mod sections;

use limits::{
    cost_table, limit_table, override_table, part_table, path_table, terms_table, test_table,
    when_table,
};
use sections::{
    breaker_section, control_section, local_section, policy, redis_section, reply_body,
    reply_retry_after, reply_section, reply_status,
};

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
