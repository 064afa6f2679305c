//! The policy's JSON as it was written: order kept, repeated fields kept, so that both can be judged.

use std::fmt;

use serde::de::{Deserialize, Deserializer, MapAccess, SeqAccess, Visitor};

use super::findings::{Findings, Path, shown};

/// One JSON value.
#[derive(Clone, Debug, PartialEq)]
pub enum Node {
    /// `null`
    Null,
    /// `true`, `false`
    Bool(bool),
    /// A number without fraction that fits; Envoy writes every number as a double, so `5.0` is 5.
    Integer(i64),
    /// Any other number.
    Number(f64),
    /// `"text"`
    Text(String),
    /// `[…]`
    List(Vec<Node>),
    /// `{…}` in the file's order, repeated names included.
    Table(Vec<(String, Node)>),
}

impl Node {
    /// The value as one would write it, cut when long.
    #[must_use]
    pub fn shown(&self) -> String {
        match self {
            Self::Null => "null".to_owned(),
            Self::Bool(value) => value.to_string(),
            Self::Integer(value) => value.to_string(),
            Self::Number(value) => value.to_string(),
            Self::Text(text) => shown(text),
            Self::List(list) if list.is_empty() => "an empty list".to_owned(),
            Self::List(_) => "a list".to_owned(),
            Self::Table(table) if table.is_empty() => "an empty table".to_owned(),
            Self::Table(_) => "a table".to_owned(),
        }
    }

    /// What kind of value it is, for messages that must not show it.
    #[must_use]
    pub const fn kind(&self) -> &'static str {
        match self {
            Self::Null => "null",
            Self::Bool(_) => "true or false",
            Self::Integer(_) | Self::Number(_) => "a number",
            Self::Text(_) => "a text",
            Self::List(_) => "a list",
            Self::Table(_) => "a table",
        }
    }

    /// Reports every field that stands twice in one table, anywhere below `path`.
    pub fn refuse_repeated(&self, path: &Path, findings: &mut Findings) {
        match self {
            Self::List(list) => {
                for (i, node) in list.iter().enumerate() {
                    node.refuse_repeated(&path.index(i), findings);
                }
            }
            Self::Table(table) => {
                let mut seen = std::collections::HashSet::new();
                for (name, node) in table {
                    let path = path.field(name);
                    if !seen.insert(name) {
                        findings.error(&path, "the field a second time", "each field once");
                    }
                    node.refuse_repeated(&path, findings);
                }
            }
            _ => {}
        }
    }
}

impl<'de> Deserialize<'de> for Node {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        deserializer.deserialize_any(NodeVisitor)
    }
}

struct NodeVisitor;

impl<'de> Visitor<'de> for NodeVisitor {
    type Value = Node;

    fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("a value")
    }

    fn visit_unit<E>(self) -> Result<Node, E> {
        Ok(Node::Null)
    }

    fn visit_bool<E>(self, value: bool) -> Result<Node, E> {
        Ok(Node::Bool(value))
    }

    fn visit_i64<E>(self, value: i64) -> Result<Node, E> {
        Ok(Node::Integer(value))
    }

    fn visit_u64<E>(self, value: u64) -> Result<Node, E> {
        #[expect(
            clippy::cast_precision_loss,
            reason = "beyond i64 it is only shown and refused"
        )]
        Ok(i64::try_from(value).map_or(Node::Number(value as f64), Node::Integer))
    }

    fn visit_f64<E>(self, value: f64) -> Result<Node, E> {
        // Whole doubles up to 2^53 are exactly the integer that was meant.
        #[expect(
            clippy::cast_possible_truncation,
            reason = "checked to be whole and within 2^53"
        )]
        Ok(
            if value.fract() == 0.0 && value.abs() <= 9_007_199_254_740_992.0 {
                Node::Integer(value as i64)
            } else {
                Node::Number(value)
            },
        )
    }

    fn visit_str<E>(self, value: &str) -> Result<Node, E> {
        Ok(Node::Text(value.to_owned()))
    }

    fn visit_string<E>(self, value: String) -> Result<Node, E> {
        Ok(Node::Text(value))
    }

    fn visit_seq<A: SeqAccess<'de>>(self, mut seq: A) -> Result<Node, A::Error> {
        let mut list = Vec::new();
        while let Some(node) = seq.next_element()? {
            list.push(node);
        }
        Ok(Node::List(list))
    }

    fn visit_map<A: MapAccess<'de>>(self, mut map: A) -> Result<Node, A::Error> {
        let mut table = Vec::new();
        while let Some(entry) = map.next_entry()? {
            table.push(entry);
        }
        Ok(Node::Table(table))
    }
}
