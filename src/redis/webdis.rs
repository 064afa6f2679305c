//! Webdis: a command is a path of percent-encoded words, sent as the body of a `POST`; with the suffix
//! `.raw` the reply is Redis's own RESP.
//!
//! Its JSON is not used: an error is then an array like any other, and version 0.1.9 makes every
//! nested array null.

use super::resp::{Reader, Value};

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
    body.extend_from_slice(b".raw");
    body
}

/// The reply in a response: exactly one, and nothing after it. `None` when there is none.
#[must_use]
pub fn reply(status: u16, body: &[u8]) -> Option<Value> {
    let mut rest = body;
    let value = Reader::new().read(&mut rest).ok().flatten();
    value.filter(|_| status == 200 && rest.is_empty())
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::error::ErrorKind;
    use proptest::prelude::*;

    /// What Webdis makes of a body: cut at slashes, then decoded; the format cut off before.
    fn as_webdis_reads(body: &[u8]) -> Vec<Vec<u8>> {
        let text = std::str::from_utf8(body).unwrap();
        assert!(!text.contains(['?', '+', ' ', '\r', '\n', '\0']), "{text}");
        let (path, format) = text.rsplit_once('.').unwrap();
        assert_eq!((format, path.contains('.')), ("raw", false));
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

        #[test]
        fn any_body_is_a_reply_or_none(bytes in proptest::collection::vec(any::<u8>(), 0..200)) {
            let _ = reply(200, &bytes);
        }
    }

    #[test]
    fn b54_look_alikes_stay_apart_and_bring_no_words_of_their_own() {
        let values = [
            "a/b",
            "a/b/99999/1",
            "a.json",
            "a.raw",
            "a.png",
            ".",
            "..",
            "a?b",
            "a?callback=x",
            "a?type=text/html",
            "a+b",
            "a b",
            "a%2Fb",
            "%00",
            "\0",
            "a#b",
            ";",
            "\r\n",
            "",
        ];
        let mut bodies: Vec<_> = values
            .iter()
            .map(|value| body(&[b"EVALSHA", value.as_bytes(), b"5"]))
            .inspect(|body| assert_eq!(as_webdis_reads(body).len(), 3))
            .collect();
        bodies.sort();
        bodies.dedup();
        assert_eq!(bodies.len(), values.len());
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
            let value = reply(200, format!("-{text}\r\n").as_bytes());
            assert_eq!(value, Some(Value::Error(text.clone().into_bytes())));
            assert_ne!(ErrorKind::of(text.as_bytes()), ErrorKind::Other, "{word}");
        }
    }

    #[test]
    fn b56_only_one_whole_reply_is_one() {
        let array = Value::Array(vec![Value::Integer(1), Value::Integer(-4)]);
        assert_eq!(reply(200, b"*2\r\n:1\r\n:-4\r\n"), Some(array));
        for (status, body) in [
            (200, b"*2\r\n:1\r\n".as_slice()),
            (200, b":1\r\n:2\r\n"),
            (200, b":1\r\n "),
            (200, b"{\"EVALSHA\":[1,4,0]}"),
            (503, b":1\r\n"),
        ] {
            assert_eq!(reply(status, body), None);
        }
    }
}
