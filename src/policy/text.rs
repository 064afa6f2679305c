//! What a value may be asked to be: present, equal, a prefix, a regular expression.

use regex_lite::{Regex, RegexBuilder};

use super::{field::Field, findings::Findings, node::Node};

/// Longer values are not run through a regular expression: its time grows with them. They count as
/// matching where that applies a limit, and as not matching where that lifts one.
pub const LONGEST_FOR_REGEX: usize = 1_024;
/// Most bytes of a compiled regular expression, which bounds the time of a match.
const LARGEST_REGEX: usize = 32 * 1_024;
/// Longest regular expression as written.
const LONGEST_REGEX: usize = 1_024;

/// What is asked of a value.
#[derive(Clone, Debug)]
pub enum Test {
    /// It is there and not empty.
    Present,
    /// It is absent or empty.
    Absent,
    /// It is one of these byte for byte.
    Equals(Vec<Vec<u8>>),
    /// It begins so.
    Prefix(String),
    /// It ends so.
    Suffix(String),
    /// The whole of it matches; bytes that are no UTF-8 count as U+FFFD.
    Regex(Regex),
}

/// The fields of a test written as a table.
pub const FIELDS: &[&str] = &["present", "equals", "prefix", "suffix", "regex"];

const ACCEPTED: &str = "the value itself, a list of values, or one of {present: true}, {equals}, {prefix}, \
                        {suffix}, {regex}";

impl Test {
    /// Whether the value passes. `long_matches`: what a regex says of a value it does not read.
    #[must_use]
    pub fn passes(&self, value: Option<&[u8]>, long_matches: bool) -> bool {
        let Some(value) = value.filter(|value| !value.is_empty()) else {
            return matches!(self, Self::Absent);
        };
        match self {
            Self::Present => true,
            Self::Absent => false,
            Self::Equals(values) => values.iter().any(|known| known == value),
            Self::Prefix(prefix) => value.starts_with(prefix.as_bytes()),
            Self::Suffix(suffix) => value.ends_with(suffix.as_bytes()),
            Self::Regex(_) if value.len() > LONGEST_FOR_REGEX => long_matches,
            Self::Regex(regex) => regex.is_match(&String::from_utf8_lossy(value)),
        }
    }

    /// Whether every value that passes `other` surely passes this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (self, other) {
            (Self::Present, Self::Absent) => false,
            (Self::Present, _) | (Self::Absent, Self::Absent) => true,
            (Self::Regex(mine), Self::Regex(theirs)) => mine.as_str() == theirs.as_str(),
            (Self::Prefix(mine), Self::Prefix(theirs)) => theirs.starts_with(mine.as_str()),
            (Self::Suffix(mine), Self::Suffix(theirs)) => theirs.ends_with(mine.as_str()),
            (test, Self::Equals(values)) => {
                values.iter().all(|value| test.passes(Some(value), false))
            }
            _ => false,
        }
    }
}

/// Reads what is asked of one value. `typed`: the value may be an Envoy attribute that is no text.
pub fn read(field: &Field<'_>, typed: bool, findings: &mut Findings) -> Option<Test> {
    let Node::Table(_) = field.node else {
        return read_values(field, typed, findings);
    };
    let table = field.table(FIELDS, findings)?;
    let mut fields = table.fields();
    let (Some((kind, inner)), None) = (fields.next(), fields.next()) else {
        findings.error(&table.path, "not exactly one of them", FIELDS.join(", "));
        return None;
    };
    match kind {
        "present" => inner.boolean(findings).map(|present| match present {
            true => Test::Present,
            false => Test::Absent,
        }),
        "equals" => read_values(&inner, typed, findings),
        "prefix" => inner
            .text(findings)
            .map(|text| Test::Prefix(text.to_owned())),
        "suffix" => inner
            .text(findings)
            .map(|text| Test::Suffix(text.to_owned())),
        "regex" => regex(&inner, false, findings).map(Test::Regex),
        // An unknown field: reported with the table.
        _ => None,
    }
}

fn read_values(field: &Field<'_>, typed: bool, findings: &mut Findings) -> Option<Test> {
    let mut values = Vec::new();
    for field in field.some(findings)? {
        match field.node {
            Node::Text(text) if !text.is_empty() => values.push(text.clone().into_bytes()),
            Node::Integer(number) => {
                values.push(number.to_string().into_bytes());
                if typed {
                    // An attribute's integer, and a number of a protobuf `Struct`.
                    values.push(number.to_le_bytes().to_vec());
                    #[expect(clippy::cast_precision_loss, reason = "a Struct holds no better")]
                    values.push((*number as f64).to_le_bytes().to_vec());
                }
            }
            Node::Bool(value) => {
                values.push(value.to_string().into_bytes());
                if typed {
                    values.push(vec![u8::from(*value)]);
                }
            }
            _ => return field.refuse(ACCEPTED, findings),
        }
    }
    Some(Test::Equals(values))
}

/// Reads a regular expression that must match the whole of a value.
pub fn regex(field: &Field<'_>, any_case: bool, findings: &mut Findings) -> Option<Regex> {
    let text = field.text(findings)?;
    if text.len() > LONGEST_REGEX {
        return field.refuse("a regular expression of at most 1024 bytes", findings);
    }
    // Judged alone first, so that `a)(b` does not become valid inside the anchors.
    let whole = format!("^(?:{text})$");
    let built = Regex::new(text).and_then(|_| {
        RegexBuilder::new(&whole)
            .case_insensitive(any_case)
            .dot_matches_new_line(true)
            .size_limit(LARGEST_REGEX)
            .build()
    });
    match built {
        Ok(regex) => Some(regex),
        Err(error) => {
            let accepted = format!("a regular expression ({error})");
            field.refuse(&accepted, findings)
        }
    }
}

/// A text in which `*` stands for any bytes and `?` for one.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Glob(Vec<u8>);

impl Glob {
    /// A glob; `None` for text without `*` and `?`, which is only equal to itself.
    #[must_use]
    pub fn new(text: &str) -> Option<Self> {
        text.contains(['*', '?'])
            .then(|| Self(text.as_bytes().to_vec()))
    }

    /// Whether the whole value matches. Time: at most its length times the glob's.
    #[must_use]
    pub fn matches(&self, value: &[u8]) -> bool {
        let (mut glob, mut rest) = (self.0.as_slice(), value);
        // Where to go on when the text after the last `*` does not fit: one byte further.
        let mut again: Option<(&[u8], &[u8])> = None;
        loop {
            match (glob, rest) {
                ([], []) => return true,
                ([b'*', after @ ..], _) => {
                    again = Some((after, rest));
                    glob = after;
                    continue;
                }
                ([b'?', after @ ..], [_, more @ ..]) => {
                    (glob, rest) = (after, more);
                    continue;
                }
                ([byte, after @ ..], [found, more @ ..]) if byte == found => {
                    (glob, rest) = (after, more);
                    continue;
                }
                _ => {}
            }
            match again {
                Some((after, [_, more @ ..])) => {
                    again = Some((after, more));
                    (glob, rest) = (after, more);
                }
                _ => return false,
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn globs_match_the_whole_value() {
        for (glob, value, matches) in [
            ("acme-*", "acme-1", true),
            ("acme-*", "acme-", true),
            ("acme-*", "xacme-1", false),
            ("*-eu", "a-eu-eu", true),
            ("a*b*c", "aXbYc", true),
            ("a*b*c", "aXbY", false),
            ("a?c", "abc", true),
            ("a?c", "ac", false),
            ("*", "", true),
            ("?", "", false),
        ] {
            assert_eq!(
                Glob::new(glob).unwrap().matches(value.as_bytes()),
                matches,
                "{glob} {value}"
            );
        }
        assert_eq!(Glob::new("acme"), None);
    }

    #[test]
    fn a_glob_of_many_stars_is_not_slow() {
        let glob = Glob::new(&"*a".repeat(100)).unwrap();
        assert!(!glob.matches(&[b'b'; 60_000]));
        assert!(!glob.matches(&[[b'a'; 600], [b'b'; 600]].concat()));
    }
}
