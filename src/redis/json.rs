//! JSON as HTTP gateways answer it: bounded in depth and size, and without fractions, which Redis does
//! not answer.

use super::resp::{MAX_DEPTH, MAX_ELEMENTS, Value};
use serde::de::{
    self, Deserialize, DeserializeSeed, Deserializer, Error, MapAccess, SeqAccess, Visitor,
};
use std::fmt;

/// One JSON value.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Json {
    /// `null`
    Null,
    /// `true`, `false`
    Flag(bool),
    /// A number without fraction or exponent, in the range of `i64`.
    Integer(i64),
    /// `"text"`
    Text(String),
    /// `[…]`
    Array(Vec<Json>),
    /// `{…}`, in the order in which it came, repeated names included.
    Table(Vec<(String, Json)>),
}

impl Json {
    /// Reads a body that is one JSON value and nothing else. `None` when it is not, is nested deeper
    /// than [`MAX_DEPTH`] below its outermost value, or has more than [`MAX_ELEMENTS`] values.
    #[must_use]
    pub fn read(body: &[u8]) -> Option<Self> {
        let mut json = serde_json::Deserializer::from_slice(body);
        let mut left = MAX_ELEMENTS;
        let value = Part {
            depth: 0,
            left: &mut left,
        }
        .deserialize(&mut json)
        .ok()?;
        json.end().ok()?;
        Some(value)
    }

    /// The reply of Redis that looks like this in JSON. Text is [`Value::Bulk`]: JSON does not tell a
    /// status from it. `None` for flags and tables, which no reply of RESP2 holds.
    #[must_use]
    pub fn reply(self) -> Option<Value> {
        Some(match self {
            Self::Null => Value::Nil,
            Self::Integer(value) => Value::Integer(value),
            Self::Text(text) => Value::Bulk(text.into_bytes()),
            Self::Array(items) => {
                let items: Option<Vec<Value>> = items.into_iter().map(Self::reply).collect();
                Value::Array(items?)
            }
            Self::Flag(_) | Self::Table(_) => return None,
        })
    }
}

/// One value inside `depth` others, of a body that may have `left` more.
struct Part<'l> {
    depth: usize,
    left: &'l mut usize,
}

impl Part<'_> {
    fn inside<E: Error>(&self) -> Result<usize, E> {
        if self.depth > MAX_DEPTH {
            return Err(E::custom("nested too deep"));
        }
        Ok(self.depth.saturating_add(1))
    }
}

impl<'de> DeserializeSeed<'de> for Part<'_> {
    type Value = Json;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<Json, D::Error> {
        *self.left = self
            .left
            .checked_sub(1)
            .ok_or_else(|| D::Error::custom("too many values"))?;
        deserializer.deserialize_any(self)
    }
}

impl<'de> Visitor<'de> for Part<'_> {
    type Value = Json;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("JSON without fractions")
    }

    fn visit_unit<E>(self) -> Result<Json, E> {
        Ok(Json::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Json, E> {
        Ok(Json::Flag(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Json, E> {
        Ok(Json::Integer(value))
    }

    fn visit_u64<E: de::Error>(self, value: u64) -> Result<Json, E> {
        i64::try_from(value).map(Json::Integer).map_err(E::custom)
    }

    fn visit_str<E>(self, text: &str) -> Result<Json, E> {
        Ok(Json::Text(text.to_owned()))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Json, A::Error> {
        let depth = self.inside()?;
        let mut items = Vec::new();
        while let Some(item) = seq.next_element_seed(Part {
            depth,
            left: &mut *self.left,
        })? {
            items.push(item);
        }
        Ok(Json::Array(items))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Json, A::Error> {
        let depth = self.inside()?;
        let mut fields = Vec::new();
        while let Some(name) = map.next_key_seed(Name)? {
            fields.push((
                name,
                map.next_value_seed(Part {
                    depth,
                    left: &mut *self.left,
                })?,
            ));
        }
        Ok(Json::Table(fields))
    }
}

/// The name of a field.
struct Name;

impl<'de> DeserializeSeed<'de> for Name {
    type Value = String;

    fn deserialize<D: Deserializer<'de>>(self, deserializer: D) -> Result<String, D::Error> {
        String::deserialize(deserializer)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    #[test]
    fn a_body_is_one_value_within_the_bounds() {
        let deepest = format!(
            "{}1{}",
            "[".repeat(MAX_DEPTH + 1),
            "]".repeat(MAX_DEPTH + 1)
        );
        assert!(Json::read(deepest.as_bytes()).is_some());
        let widest = format!("[{}1]", "1,".repeat(MAX_ELEMENTS - 2));
        assert!(Json::read(widest.as_bytes()).is_some());
        let too_deep = format!("[{deepest}]");
        let hostile = "[".repeat(100_000);
        let tables = "{\"\":".repeat(100_000);
        let too_wide = format!("[{}1]", "1,".repeat(MAX_ELEMENTS - 1));
        for body in [
            "",
            " ",
            "[1,4,0",
            "1 2",
            "4.0",
            "1e3",
            "9223372036854775808",
            "-9223372036854775809",
            "NaN",
            "tru",
            r#""\ud800""#,
            "\u{feff}1",
            "<html>",
            "1}",
            "{1:2}",
            &too_deep,
            &hostile,
            &tables,
            &too_wide,
        ] {
            let shown = body.get(..20).unwrap_or(body);
            assert_eq!(Json::read(body.as_bytes()), None, "{shown}");
        }
        assert_eq!(Json::read(b"\"\xff\""), None);
    }

    proptest! {
        #[test]
        fn any_body_is_json_or_not(
            bytes in proptest::collection::vec(any::<u8>(), 0..60),
            text in "[\\[\\]{}\",:0-9a-z\\\\. ]{0,60}",
        ) {
            let _ = Json::read(&bytes).and_then(Json::reply);
            let _ = Json::read(text.as_bytes()).and_then(Json::reply);
        }
    }
}
