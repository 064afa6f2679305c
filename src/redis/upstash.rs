//! The Upstash REST API and servers of its kind: a command is a JSON array of strings, a reply is
//! `{"result": …}` or `{"error": "…"}`, the latter with a status of 4xx.

use super::{json::Json, resp::Value};

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
    let Some(Json::Table(fields)) = Json::read(body) else {
        return None;
    };
    let [(name, content)] = <[_; 1]>::try_from(fields).ok()?;
    match (name.as_str(), content, status) {
        ("error", Json::Text(text), 200 | 400..=499) => Some(Value::Error(text.into_bytes())),
        ("result", result, 200) => result.reply(),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::{error::ErrorKind, resp::MAX_DEPTH};
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
    }
}
