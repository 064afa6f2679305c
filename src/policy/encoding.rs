//! The forms in which Envoy passes a plugin's configuration.
//!
//! A `StringValue` or `BytesValue` comes as its text. A `google.protobuf.Struct`, which is what one
//! writes as plain YAML in an Envoy file, comes as the message's wire form (Envoy's reference says
//! JSON; 1.40 does not do that), so it is turned into JSON here.

use serde_json::{Map, Number, Value};
use std::borrow::Cow;

/// Messages in messages; a policy needs about six.
const DEEPEST: u32 = 32;

/// The configuration as JSON text. What is not a `Struct` is returned as it came.
#[must_use]
pub fn json_text(bytes: &[u8]) -> Cow<'_, [u8]> {
    // The first field's tag. It is also a newline, so JSON may begin like that; but JSON is never a
    // whole message.
    if bytes.first() != Some(&0x0a) {
        return Cow::Borrowed(bytes);
    }
    let text = fields(bytes, DEEPEST).and_then(|object| serde_json::to_vec(&object).ok());
    text.map_or(Cow::Borrowed(bytes), Cow::Owned)
}

/// A field of a message, as far as `Struct` has them.
enum Field<'a> {
    Varint(u64),
    Double(f64),
    Bytes(&'a [u8]),
}

/// `Struct`: field 1 is a map entry, of which field 1 is the name and field 2 the value.
fn fields(mut message: &[u8], depth: u32) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let mut object = Map::new();
    while !message.is_empty() {
        let (1, Field::Bytes(mut entry)) = next(&mut message)? else {
            return None;
        };
        let (mut name, mut value) = (String::new(), Value::Null);
        while !entry.is_empty() {
            match next(&mut entry)? {
                (1, Field::Bytes(text)) => name = str::from_utf8(text).ok()?.to_owned(),
                (2, Field::Bytes(inner)) => value = one(inner, depth)?,
                _ => return None,
            }
        }
        object.insert(name, value);
    }
    Some(Value::Object(object))
}

/// `Value`: one of six fields.
fn one(mut message: &[u8], depth: u32) -> Option<Value> {
    let depth = depth.checked_sub(1)?;
    let mut value = Value::Null;
    while !message.is_empty() {
        value = match next(&mut message)? {
            (1, Field::Varint(0)) => Value::Null,
            (2, Field::Double(number)) => Value::Number(number_of(number)?),
            (3, Field::Bytes(text)) => Value::String(str::from_utf8(text).ok()?.to_owned()),
            (4, Field::Varint(flag)) => Value::Bool(flag != 0),
            (5, Field::Bytes(inner)) => fields(inner, depth)?,
            (6, Field::Bytes(inner)) => list(inner, depth)?,
            _ => return None,
        };
    }
    Some(value)
}

/// `ListValue`: field 1 is an element.
fn list(mut message: &[u8], depth: u32) -> Option<Value> {
    let mut elements = Vec::new();
    while !message.is_empty() {
        let (1, Field::Bytes(element)) = next(&mut message)? else {
            return None;
        };
        elements.push(one(element, depth)?);
    }
    Some(Value::Array(elements))
}

/// A `Struct` has doubles only; a whole one is meant as an integer.
fn number_of(number: f64) -> Option<Number> {
    const EXACT: f64 = 9_007_199_254_740_992.0;
    if number.fract() == 0.0 && number.abs() <= EXACT {
        #[expect(clippy::cast_possible_truncation, reason = "whole, and within 2^53")]
        return Some(Number::from(number as i64));
    }
    Number::from_f64(number)
}

/// Takes one field off a message: its number and what it holds.
fn next<'a>(message: &mut &'a [u8]) -> Option<(u64, Field<'a>)> {
    let tag = varint(message)?;
    let field = match tag & 7 {
        0 => Field::Varint(varint(message)?),
        1 => {
            let (bytes, rest) = message.split_first_chunk::<8>()?;
            *message = rest;
            Field::Double(f64::from_le_bytes(*bytes))
        }
        2 => {
            let length = usize::try_from(varint(message)?).ok()?;
            let (bytes, rest) = message.split_at_checked(length)?;
            *message = rest;
            Field::Bytes(bytes)
        }
        _ => return None,
    };
    Some((tag >> 3, field))
}

fn varint(message: &mut &[u8]) -> Option<u64> {
    let mut value = 0_u64;
    for shift in (0..64).step_by(7) {
        let (byte, rest) = message.split_first()?;
        *message = rest;
        value |= u64::from(byte & 0x7f).checked_shl(shift)?;
        if byte & 0x80 == 0 {
            return Some(value);
        }
    }
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;
    use serde_json::json;

    fn put_varint(out: &mut Vec<u8>, mut value: u64) {
        while value > 0x7f {
            out.push((value & 0x7f) as u8 | 0x80);
            value >>= 7;
        }
        out.push(value as u8);
    }

    fn put(out: &mut Vec<u8>, number: u64, bytes: &[u8]) {
        put_varint(out, number << 3 | 2);
        put_varint(out, bytes.len() as u64);
        out.extend_from_slice(bytes);
    }

    fn encode_struct(object: &Map<String, Value>) -> Vec<u8> {
        let mut out = Vec::new();
        for (name, value) in object {
            let mut entry = Vec::new();
            put(&mut entry, 1, name.as_bytes());
            put(&mut entry, 2, &encode(value));
            put(&mut out, 1, &entry);
        }
        out
    }

    fn encode(value: &Value) -> Vec<u8> {
        let mut out = Vec::new();
        match value {
            Value::Null => out.extend([0x08, 0]),
            Value::Bool(flag) => out.extend([0x20, u8::from(*flag)]),
            Value::Number(number) => {
                out.push(0x11);
                out.extend(number.as_f64().unwrap().to_le_bytes());
            }
            Value::String(text) => put(&mut out, 3, text.as_bytes()),
            Value::Object(object) => put(&mut out, 5, &encode_struct(object)),
            Value::Array(elements) => {
                let mut list = Vec::new();
                for element in elements {
                    put(&mut list, 1, &encode(element));
                }
                put(&mut out, 6, &list);
            }
        }
        out
    }

    #[test]
    fn a_struct_becomes_the_json_it_was_written_as() {
        let policy = json!({
            "outage": "allow", "limits": [{"name": "a", "burst": 20, "share": 0.5, "key": []}],
            "none": null, "on": true, "long": "x".repeat(300),
        });
        let bytes = encode_struct(policy.as_object().unwrap());
        assert_eq!(
            serde_json::from_slice::<Value>(&json_text(&bytes)).unwrap(),
            policy
        );
    }

    #[test]
    fn json_passes_through_whatever_it_begins_with() {
        for text in ["{}", "\n{\n \"a\": 1}", " {}", "", "\n", "\n\n", "null"] {
            assert_eq!(&*json_text(text.as_bytes()), text.as_bytes());
        }
    }

    #[test]
    fn a_struct_that_is_too_deep_is_not_followed() {
        let mut bytes = Vec::new();
        for _ in 0..2_000 {
            let (mut value, mut entry, mut outer) = (Vec::new(), Vec::new(), Vec::new());
            put(&mut value, 5, &bytes);
            put(&mut entry, 1, b"a");
            put(&mut entry, 2, &value);
            put(&mut outer, 1, &entry);
            bytes = outer;
        }
        assert_eq!(&*json_text(&bytes), &bytes[..]);
    }

    proptest! {
        #[test]
        fn no_bytes_make_it_panic(mut bytes: Vec<u8>) {
            bytes.insert(0, 0x0a);
            let _ = json_text(&bytes);
        }
    }
}
