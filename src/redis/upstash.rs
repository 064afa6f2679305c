//! The Upstash REST API and servers of its kind: a command is a JSON array of strings, a reply is
//! `{"result": …}` or `{"error": "…"}`, the latter with a status of 4xx.

use super::resp::{MAX_DEPTH, MAX_ELEMENTS, Value};
use serde::de::{self, DeserializeSeed, Deserializer, MapAccess, SeqAccess, Visitor};
use std::fmt;

/// The body for a command. `None` when a word is no UTF-8, which JSON cannot carry.
#[must_use]
pub fn body(words: &[&[u8]]) -> Option<Vec<u8>> {
    let words: Result<Vec<&str>, _> = words.iter().map(|word| std::str::from_utf8(word)).collect();
    serde_json::to_vec(&words.ok()?).ok()
}

/// The reply in a response. `None` when there is none, or one that no answer of ours looks like: a
/// fraction, a boolean, a table. Text is [`Value::Bulk`]; JSON does not tell a status from it.
#[must_use]
pub fn reply(status: u16, body: &[u8]) -> Option<Value> {
    let mut json = serde_json::Deserializer::from_slice(body);
    let envelope = json.deserialize_map(Envelope).ok()?;
    json.end().ok()?;
    match (envelope, status) {
        (value @ Value::Error(_), 200 | 400..=499) => Some(value),
        (Value::Error(_), _) => None,
        (value, 200) => Some(value),
        _ => None,
    }
}

/// `{"result": …}` or `{"error": "…"}`: one of them, once, and nothing else.
struct Envelope;

impl<'de> Visitor<'de> for Envelope {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a result or an error")
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Value, A::Error> {
        let unknown = || de::Error::custom("neither a result nor an error");
        let value = match map.next_key::<String>()?.as_deref() {
            Some("result") => {
                let mut left = MAX_ELEMENTS;
                map.next_value_seed(Element {
                    depth: 0,
                    left: &mut left,
                })?
            }
            Some("error") => Value::Error(map.next_value::<String>()?.into_bytes()),
            _ => return Err(unknown()),
        };
        match map.next_key::<String>()? {
            None => Ok(value),
            Some(_) => Err(unknown()),
        }
    }
}

/// One value inside `depth` arrays, of a reply that may have `left` more.
struct Element<'l> {
    depth: usize,
    left: &'l mut usize,
}

impl<'de> DeserializeSeed<'de> for Element<'_> {
    type Value = Value;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Value, D::Error> {
        *self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| de::Error::custom("too many values"))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Element<'_> {
    type Value = Value;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("text, an integer, null or an array of these")
    }

    fn visit_unit<E>(self) -> Result<Value, E> {
        Ok(Value::Nil)
    }

    fn visit_i64<E>(self, value: i64) -> Result<Value, E> {
        Ok(Value::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Value, E> {
        i64::try_from(value).map(Value::Integer).map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> Result<Value, E> {
        Ok(Value::Bulk(text.as_bytes().to_vec()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Value, A::Error> {
        if self.depth >= MAX_DEPTH {
            return Err(de::Error::custom("nested too deep"));
        }
        let depth = self.depth.saturating_add(1);
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Element {
            depth,
            left: &mut *self.left,
        })? {
            items.push(item);
        }
        Ok(Value::Array(items))
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::error::ErrorKind;
    use proptest::prelude::*;

    fn numbers(numbers: &[i64]) -> Option<Value> {
        Some(Value::Array(
            numbers.iter().copied().map(Value::Integer).collect(),
        ))
    }

    fn result(json: &str) -> Option<Value> {
        reply(200, format!(r#"{{"result":{json}}}"#).as_bytes())
    }

    #[test]
    fn a_result_is_what_redis_said() {
        assert_eq!(result("[1,4,0]"), numbers(&[1, 4, 0]));
        assert_eq!(
            result("[1,-9223372036854775808,0]"),
            numbers(&[1, i64::MIN, 0])
        );
        assert_eq!(result("null"), Some(Value::Nil));
        assert_eq!(result(r#""OK""#), Some(Value::Bulk(b"OK".to_vec())));
        assert_eq!(
            result(r#""a\u00e9\n""#),
            Some(Value::Bulk("aé\n".as_bytes().to_vec()))
        );
        let nested = Value::Array(vec![Value::Nil, Value::Array(vec![Value::Integer(1)])]);
        assert_eq!(result("[null,[1]]"), Some(nested));
    }

    #[test]
    fn b05_errors_come_with_4xx_or_200_and_are_told_apart() {
        for (status, text, kind) in [
            (
                400,
                "NOSCRIPT No matching script. Please use EVAL.",
                ErrorKind::NoScript,
            ),
            (400, "OOM command not allowed", ErrorKind::Oom),
            (
                401,
                "WRONGPASS invalid or missing auth token",
                ErrorKind::WrongPass,
            ),
            (200, "READONLY You can't write", ErrorKind::ReadOnly),
        ] {
            let value = reply(status, format!(r#"{{"error":"{text}"}}"#).as_bytes());
            assert_eq!(value, Some(Value::Error(text.as_bytes().to_vec())));
            assert_eq!(ErrorKind::of(text.as_bytes()), kind);
        }
        assert_eq!(reply(500, br#"{"error":"no connection"}"#), None);
    }

    #[test]
    fn b56_a_body_of_another_shape_is_no_reply() {
        let deep = format!(
            "{}1{}",
            "[".repeat(MAX_DEPTH + 1),
            "]".repeat(MAX_DEPTH + 1)
        );
        let deepest = format!("{}{}", "[".repeat(50_000), "]".repeat(50_000));
        let wide = format!("[{}1]", "1,".repeat(MAX_ELEMENTS - 1));
        for json in [
            "[1,4.0,0]",
            "[1,true,0]",
            "[1,{},0]",
            "9223372036854775808",
            "1e3",
            "[1,4,0",
            "1} ",
            r#"1,"more":1"#,
            r#"1,"result":2"#,
            r#"1,"error":"x""#,
            r#""\ud800""#,
            &deep,
            &deepest,
            &wide,
        ] {
            let shown = json.get(..20).unwrap_or(json);
            assert_eq!(result(json), None, "{shown}");
        }
        for body in [
            "",
            "[]",
            "[1,4,0]",
            "{}",
            "null",
            r#"{"error":5}"#,
            r#"{"error":null}"#,
            r#"{"EVALSHA":[1,4,0]}"#,
            r#"{"Result":[1,4,0]}"#,
            "\u{feff}{\"result\":1}",
            r#"{"result":1}{"result":1}"#,
            "<html>",
            r#"[{"result":1}]"#,
        ] {
            assert_eq!(reply(200, body.as_bytes()), None, "{body}");
        }
        let widest = format!("[{}1]", "1,".repeat(MAX_ELEMENTS - 2));
        assert!(result(&widest).is_some());
        assert_eq!(reply(201, br#"{"result":1}"#), None);
    }

    proptest! {
        #[test]
        fn b54_words_arrive_as_they_are_or_not_at_all(
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..20), 1..6),
            texts in proptest::collection::vec(any::<String>(), 1..6),
        ) {
            let bytes: Vec<&[u8]> = texts.iter().map(String::as_bytes).collect();
            let read: Vec<String> = serde_json::from_slice(&body(&bytes).unwrap()).unwrap();
            prop_assert_eq!(read, texts);
            let bytes: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            let carried = words.iter().all(|word| std::str::from_utf8(word).is_ok());
            prop_assert_eq!(body(&bytes).is_some(), carried);
        }

        #[test]
        fn any_body_is_a_reply_or_none(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            json in "[\\[\\]{}\",:0-9a-z\\\\. ]{0,60}",
        ) {
            let _ = reply(200, &bytes);
            let _ = result(&json);
        }
    }
}
