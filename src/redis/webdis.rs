//! Webdis: a command is a path of percent-encoded words, sent as the body of a `POST`; a reply is
//! `{"EVALSHA": …}`, in which an error is `[false, "…"]` and a status `[true, "OK"]`.
//!
//! Its raw replies look better suited and are not: version 0.1.9 writes integers inside an array as
//! text with the wrong length from 2^31 on, and dies of some of them. Its JSON has every integer right.
//! Arrays inside arrays come as null in both, so what we ask answers flat arrays of integers.
//!
//! **A reply may be another call's.** When a client hangs up while its command runs, version 0.1.9 gives
//! the reply to whoever has the file descriptor by then, and that connection goes on one reply late. So
//! each call carries a name, as what Webdis takes for a JSONP callback, and its reply comes wrapped in it:
//! `NAME({"EVALSHA": …});`. A reply under another name is nobody's.

use super::{json::Json, resp::Value};

/// The body for a command. Any bytes in a word are safe: only letters, digits, `-` and `_` go as they
/// are, so that no word can begin another, end the command or choose another format.
#[must_use]
pub fn body(words: &[&[u8]]) -> Vec<u8> {
    const HEX: &[u8; 16] = b"0123456789ABCDEF";
    let digit = |nibble: u8| HEX.get(usize::from(nibble)).copied().unwrap_or_default();
    let length = words
        .iter()
        .map(|word| word.len())
        .fold(0, usize::saturating_add);
    let mut body = Vec::with_capacity(length.saturating_mul(2));
    for (place, word) in words.iter().enumerate() {
        if place > 0 {
            body.push(b'/');
        }
        for byte in *word {
            if byte.is_ascii_alphanumeric() || matches!(byte, b'-' | b'_') {
                body.push(*byte);
            } else {
                body.extend_from_slice(&[b'%', digit(byte >> 4), digit(byte & 15)]);
            }
        }
    }
    body.extend_from_slice(b".json");
    body
}

/// The path that makes the reply come wrapped in `name`, which is of letters and digits.
#[must_use]
pub fn path(name: &str) -> String {
    format!("/?jsonp={name}")
}

/// What a body of Webdis holds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Unwrapped<'b> {
    /// This reply, under the name of the call.
    Own(&'b [u8]),
    /// A reply under another name.
    Foreign,
    /// Something else.
    Other,
}

/// Looks whose reply a body is.
#[must_use]
pub fn unwrap<'b>(name: &str, body: &'b [u8]) -> Unwrapped<'b> {
    let open = body.iter().position(|byte| *byte == b'(');
    let Some((by, rest)) = open.and_then(|at| body.split_at_checked(at)) else {
        return Unwrapped::Other;
    };
    let reply = rest.trim_ascii_end().strip_prefix(b"(");
    match reply.and_then(|rest| rest.strip_suffix(b");")) {
        Some(reply) if by == name.as_bytes() => Unwrapped::Own(reply),
        Some(_) if by.iter().all(u8::is_ascii_alphanumeric) => Unwrapped::Foreign,
        _ => Unwrapped::Other,
    }
}

/// The reply in a response. `None` when there is none, or one that no answer of ours looks like.
#[must_use]
pub fn reply(status: u16, body: &[u8]) -> Option<Value> {
    let Some(Json::Table(fields)) = Json::read(body).filter(|_| status == 200) else {
        return None;
    };
    // The one name is the command's.
    let [(_, content)] = <[_; 1]>::try_from(fields).ok()?;
    match content {
        Json::Array(items) if matches!(items.first(), Some(Json::Flag(_))) => {
            match <[_; 2]>::try_from(items).ok()? {
                [Json::Flag(false), Json::Text(text)] => Some(Value::Error(text.into_bytes())),
                [Json::Flag(true), Json::Text(text)] => Some(Value::Status(text.into_bytes())),
                _ => None,
            }
        }
        content => content.reply(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::error::ErrorKind;
    use proptest::prelude::*;
    use support::hostile::LOOK_ALIKES;

    /// What Webdis makes of a body: cut at slashes, then decoded; the format cut off before.
    fn as_webdis_reads(body: &[u8]) -> Vec<Vec<u8>> {
        let text = std::str::from_utf8(body).unwrap();
        assert!(!text.contains(['?', '+', ' ', '\r', '\n', '\0']), "{text}");
        let (path, format) = text.rsplit_once('.').unwrap();
        assert_eq!((format, path.contains('.')), ("json", false));
        let decode = |word: &str| {
            let mut parts = word.split('%');
            let mut bytes = parts.next().unwrap().as_bytes().to_vec();
            for part in parts {
                bytes.push(u8::from_str_radix(&part[..2], 16).unwrap());
                bytes.extend(&part.as_bytes()[2..]);
            }
            bytes
        };
        path.split('/').map(decode).collect()
    }

    proptest! {
        #[test]
        fn b54_any_words_arrive_as_they_are(
            words in proptest::collection::vec(proptest::collection::vec(any::<u8>(), 0..40), 1..6),
        ) {
            let words: Vec<&[u8]> = words.iter().map(Vec::as_slice).collect();
            prop_assert_eq!(as_webdis_reads(&body(&words)), words);
        }
    }

    #[test]
    fn b54_look_alikes_stay_apart_and_bring_no_words_of_their_own() {
        let mut bodies: Vec<_> = LOOK_ALIKES
            .iter()
            .map(|value| body(&[b"EVALSHA", value.as_bytes(), b"5"]))
            .inspect(|body| assert_eq!(as_webdis_reads(body).len(), 3))
            .collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), LOOK_ALIKES.len());
    }

    #[test]
    fn a_reply_is_own_foreign_or_none() {
        let of = |body: &str| match unwrap("a1", body.as_bytes()) {
            Unwrapped::Own(reply) => String::from_utf8_lossy(reply).into_owned(),
            other => format!("{other:?}"),
        };
        assert_eq!(of("a1({\"GET\":null});\n"), "{\"GET\":null}");
        assert_eq!(of("a1({\"GET\":\"x);\"});"), "{\"GET\":\"x);\"}");
        assert_eq!(of("a2({\"GET\":null});"), "Foreign");
        assert_eq!(of("a11({});"), "Foreign");
        for body in ["", "{\"GET\":\"(\"}", "a1({}", "a1(", "(", "<a>(b);", ");"] {
            assert_eq!(of(body), "Other", "{body}");
        }
    }

    #[test]
    fn b05_an_error_of_redis_in_a_200_is_an_error() {
        for word in [
            "NOSCRIPT",
            "READONLY",
            "OOM",
            "LOADING",
            "MASTERDOWN",
            "CLUSTERDOWN",
            "BUSY",
            "NOAUTH",
            "NOPERM",
            "WRONGTYPE",
            "ERR unknown command",
        ] {
            let text = format!("{word} and more");
            let value = reply(200, format!(r#"{{"EVALSHA":[false,"{text}"]}}"#).as_bytes());
            assert_eq!(value, Some(Value::Error(text.clone().into_bytes())));
            assert_ne!(ErrorKind::of(text.as_bytes()), ErrorKind::Other, "{word}");
        }
    }

    #[test]
    fn b56_only_the_shapes_of_a_reply_are_one() {
        let result = |json: &str| reply(200, format!(r#"{{"EVALSHA":{json}}}"#).as_bytes());
        let array = |items: &[i64]| {
            Some(Value::Array(
                items.iter().copied().map(Value::Integer).collect(),
            ))
        };
        assert_eq!(result("[1,4,0]"), array(&[1, 4, 0]));
        assert_eq!(
            result("[1,-9223372036854775808,0]"),
            array(&[1, i64::MIN, 0])
        );
        assert_eq!(reply(200, br#"{"evalsha":[1]}"#), array(&[1]));
        assert_eq!(
            result(r#"[true,"OK"]"#),
            Some(Value::Status(b"OK".to_vec()))
        );
        assert_eq!(result("null"), Some(Value::Nil));
        assert_eq!(result("7"), Some(Value::Integer(7)));
        assert_eq!(result(r#""7""#), Some(Value::Bulk(b"7".to_vec())));
        assert_eq!(result("[null]"), Some(Value::Array(vec![Value::Nil])));
        for json in [
            "[1,4.0,0]",
            "[false]",
            "[true]",
            "[false,5]",
            r#"[false,"a","b"]"#,
            r#"[1,false]"#,
            "true",
            "{}",
            "[[true]]",
            r#"1,"more":2"#,
        ] {
            assert_eq!(result(json), None, "{json}");
        }
        for body in ["[1,4,0]", "{}", "5", ":1\r\n", "*1\r\n:1\r\n"] {
            assert_eq!(reply(200, body.as_bytes()), None, "{body}");
        }
        assert_eq!(reply(503, br#"{"EVALSHA":[1]}"#), None);
    }
}
