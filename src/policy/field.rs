//! Reading tables and fields: each reader names its fields once, and what it does not know, or what
//! has another shape, is reported with its place.

use std::ops::RangeInclusive;

use super::{
    findings::{Findings, Path},
    node::Node,
    rate,
};
use crate::units::Micros;

/// A table whose fields are all known.
#[derive(Debug)]
pub struct Table<'a> {
    entries: &'a [(String, Node)],
    /// Where it is.
    pub path: Path,
}

/// One value and its place.
#[derive(Clone, Debug)]
pub struct Field<'a> {
    /// The value.
    pub node: &'a Node,
    /// Where it is.
    pub path: Path,
}

impl<'a> Table<'a> {
    /// The field of that name; `None` when it was left out.
    #[must_use]
    pub fn get(&self, name: &str) -> Option<Field<'a>> {
        let (_, node) = self.entries.iter().find(|(known, _)| known == name)?;
        Some(Field {
            node,
            path: self.path.field(name),
        })
    }

    /// The field of that name; reports when it was left out.
    pub fn require(&self, name: &str, findings: &mut Findings) -> Option<Field<'a>> {
        let field = self.get(name);
        if field.is_none() {
            findings.error(&self.path.field(name), "nothing", "this field is required");
        }
        field
    }

    /// Every field, in the file's order.
    pub fn fields(&self) -> impl Iterator<Item = (&'a str, Field<'a>)> {
        self.entries.iter().map(|(name, node)| {
            (
                name.as_str(),
                Field {
                    node,
                    path: self.path.field(name),
                },
            )
        })
    }
}

impl<'a> Field<'a> {
    /// The field as a table with these fields and no others.
    pub fn table(
        &self,
        fields: &'static [&'static str],
        findings: &mut Findings,
    ) -> Option<Table<'a>> {
        let table = self.any_table(findings)?;
        for (name, field) in table.fields() {
            if !fields.contains(&name) {
                // The value is not shown: it may be a password under a misspelt name.
                findings.unknown(
                    &field.path,
                    "the unknown field",
                    name,
                    fields.iter().copied(),
                );
            }
        }
        Some(table)
    }

    /// The field as a table whose names are the policy's own.
    pub fn any_table(&self, findings: &mut Findings) -> Option<Table<'a>> {
        match self.node {
            Node::Table(entries) => Some(Table {
                entries,
                path: self.path.clone(),
            }),
            _ => self.refuse("a table", findings),
        }
    }

    /// The elements of a list; a single value stands for a list of itself.
    pub fn one_or_more(&self) -> Vec<Field<'a>> {
        match self.node {
            Node::List(_) => self.elements(),
            _ => vec![self.clone()],
        }
    }

    /// The elements of a list that is not empty; a single value stands for a list of itself.
    pub fn some(&self, findings: &mut Findings) -> Option<Vec<Field<'a>>> {
        let fields = self.one_or_more();
        if fields.is_empty() {
            return self.refuse("at least one element", findings);
        }
        Some(fields)
    }

    /// The elements of a list of `count` elements.
    pub fn list(
        &self,
        count: RangeInclusive<usize>,
        findings: &mut Findings,
    ) -> Option<Vec<Field<'a>>> {
        match self.node {
            Node::List(list) if count.contains(&list.len()) => Some(self.elements()),
            Node::List(list) => {
                let accepted = format!("{} to {} elements", count.start(), count.end());
                findings.error(&self.path, format!("{} elements", list.len()), accepted);
                None
            }
            _ => self.refuse("a list", findings),
        }
    }

    /// Whether it is a table.
    #[must_use]
    pub const fn is_table(&self) -> bool {
        matches!(self.node, Node::Table(_))
    }

    /// The text, if it is one; reports nothing.
    #[must_use]
    pub fn peek_text(&self) -> Option<&'a str> {
        match self.node {
            Node::Text(text) => Some(text),
            _ => None,
        }
    }

    /// Text that is not empty.
    pub fn text(&self, findings: &mut Findings) -> Option<&'a str> {
        match self.node {
            Node::Text(text) if !text.is_empty() => Some(text),
            _ => self.refuse("text that is not empty", findings),
        }
    }

    /// Text of `length` bytes that a message must not show.
    pub fn secret(
        &self,
        length: RangeInclusive<usize>,
        findings: &mut Findings,
    ) -> Option<&'a str> {
        let accepted = format!("text of {} to {} bytes", length.start(), length.end());
        match self.node {
            Node::Text(text) if length.contains(&text.len()) => Some(text),
            Node::Text(text) => {
                findings.error(&self.path, format!("{} bytes", text.len()), accepted);
                None
            }
            other => {
                findings.error(&self.path, other.kind(), accepted);
                None
            }
        }
    }

    /// A name that goes into Redis keys, metrics and headers as it is.
    pub fn name(&self, findings: &mut Findings) -> Option<&'a str> {
        match self.node {
            Node::Text(text) if is_name(text) => Some(text),
            _ => self.refuse("1 to 64 of the characters A-Z a-z 0-9 . _ -", findings),
        }
    }

    /// A whole number in `range`.
    pub fn integer(&self, range: RangeInclusive<u64>, findings: &mut Findings) -> Option<u64> {
        let value = match self.node {
            Node::Integer(value) => u64::try_from(*value)
                .ok()
                .filter(|value| range.contains(value)),
            _ => None,
        };
        value.or_else(|| {
            self.refuse(
                &format!("a whole number, {} to {}", range.start(), range.end()),
                findings,
            )
        })
    }

    /// `true` or `false`.
    pub fn boolean(&self, findings: &mut Findings) -> Option<bool> {
        match self.node {
            Node::Bool(value) => Some(*value),
            _ => self.refuse("true or false", findings),
        }
    }

    /// A span of time with its unit, such as `20ms`, in `range`.
    pub fn span(&self, range: RangeInclusive<Micros>, findings: &mut Findings) -> Option<Micros> {
        let span = match self.node {
            Node::Text(text) => rate::span(text).filter(|span| range.contains(span)),
            _ => None,
        };
        span.or_else(|| {
            let (least, most) = (range.start(), range.end());
            let accepted = format!("a time with its unit (ms s m h d), {least} to {most}");
            self.refuse(&accepted, findings)
        })
    }

    /// One of the named choices.
    pub fn choice<T: Clone>(
        &self,
        choices: &[(&'static str, T)],
        findings: &mut Findings,
    ) -> Option<T> {
        let names = choices.iter().map(|(name, _)| *name);
        match self.node {
            Node::Text(text) => {
                let choice = choices.iter().find(|(name, _)| name == text);
                if choice.is_none() {
                    findings.unknown(&self.path, "the unknown value", text, names);
                }
                choice.map(|(_, value)| value.clone())
            }
            _ => self.refuse(&names.collect::<Vec<_>>().join(", "), findings),
        }
    }

    /// Reports that something else is accepted here. Always `None`.
    #[cold]
    pub fn refuse<T>(&self, accepted: &str, findings: &mut Findings) -> Option<T> {
        findings.error(&self.path, self.node.shown(), accepted);
        None
    }

    fn elements(&self) -> Vec<Field<'a>> {
        match self.node {
            Node::List(list) => list
                .iter()
                .enumerate()
                .map(|(i, node)| Field {
                    node,
                    path: self.path.index(i),
                })
                .collect(),
            _ => Vec::new(),
        }
    }
}

/// Whether the text may stand in Redis keys, metrics and headers as it is.
#[must_use]
pub fn is_name(text: &str) -> bool {
    (1..=64).contains(&text.len())
        && text
            .bytes()
            .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'.' | b'_' | b'-'))
}
