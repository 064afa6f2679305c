//! Path patterns, in the normal form of [`crate::request::path`].
//!
//! ```text
//! /login              this path
//! /api/  or  /api/*   this path and everything below it
//! /users/{id}/orders  one segment of any text for each {…} or *; may end in / or /* as above
//! {exact: …} {prefix: …} {template: …} {regex: …}   the same, said by name; a regex matches the whole path
//! ```

use regex_lite::Regex;

use super::{
    field::Field,
    findings::Findings,
    node::Node,
    text::{self, LONGEST_FOR_REGEX},
};
use crate::request::path::normalise;

/// A pattern that paths are held against.
#[derive(Clone, Debug)]
pub struct Pattern {
    /// As it stands in keys: the pattern's own text.
    pub text: String,
    /// What it matches.
    pub shape: Shape,
}

/// What a pattern matches.
#[derive(Clone, Debug)]
pub enum Shape {
    /// Segment by segment.
    Segments {
        /// From the left.
        segments: Vec<Segment>,
        /// Whether anything may follow.
        open: bool,
    },
    /// The whole path by a regular expression.
    Regex(Regex),
}

/// One segment of a pattern.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Segment {
    /// This text.
    Literal(String),
    /// Any text.
    Any,
}

/// The fields of a pattern written as a table.
pub const FIELDS: &[&str] = &["exact", "prefix", "template", "regex"];

const ACCEPTED: &str = "a path such as /login, /api/ (and all below it), /users/{id}/orders, or one of \
                        {exact}, {prefix}, {template}, {regex}";
const ACCEPTED_PATH: &str = "a path that begins with / and has no query";
const ACCEPTED_SEGMENT: &str = "a segment that is text, {NAME} or * as a whole; for parts of a segment \
                                use {regex: …}";

impl Pattern {
    /// Whether a path in its normal form matches.
    #[must_use]
    pub fn matches(&self, path: &str, long_matches: bool) -> bool {
        match &self.shape {
            Shape::Regex(regex) if path.len() <= LONGEST_FOR_REGEX => regex.is_match(path),
            Shape::Regex(_) => long_matches,
            Shape::Segments { segments, open } => {
                let mut rest = segments_of(path);
                for segment in segments {
                    match (segment, rest.next()) {
                        (_, None) => return false,
                        (Segment::Any, Some(_)) => {}
                        (Segment::Literal(literal), Some(found)) if literal == found => {}
                        _ => return false,
                    }
                }
                *open || rest.next().is_none()
            }
        }
    }

    /// Whether every path that `other` matches is surely matched by this one.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        match (&self.shape, &other.shape) {
            (Shape::Regex(mine), Shape::Regex(theirs)) => mine.as_str() == theirs.as_str(),
            (
                Shape::Segments {
                    segments: mine,
                    open,
                },
                Shape::Segments {
                    segments: theirs,
                    open: theirs_open,
                },
            ) => {
                let long_enough = match open {
                    true => theirs.len() >= mine.len(),
                    false => theirs.len() == mine.len() && !theirs_open,
                };
                long_enough
                    && mine
                        .iter()
                        .zip(theirs)
                        .all(|(m, t)| *m == Segment::Any || m == t)
            }
            (
                Shape::Segments {
                    segments,
                    open: true,
                },
                Shape::Regex(_),
            ) => segments.is_empty(),
            _ => false,
        }
    }
}

/// The segments of a path in its normal form; the root has none.
pub fn segments_of(path: &str) -> impl Iterator<Item = &str> {
    let below = path.strip_prefix('/').unwrap_or(path);
    let root = below.is_empty();
    below.split('/').filter(move |_| !root)
}

/// Reads one or more patterns.
pub fn read(field: &Field<'_>, any_case: bool, findings: &mut Findings) -> Option<Vec<Pattern>> {
    let fields = field.some(findings)?;
    let mut patterns = Vec::with_capacity(fields.len());
    for field in &fields {
        patterns.push(read_one(field, any_case, findings));
    }
    patterns.into_iter().collect()
}

fn read_one(field: &Field<'_>, any_case: bool, findings: &mut Findings) -> Option<Pattern> {
    let (kind, field) = match field.node {
        Node::Text(_) => ("", field.clone()),
        Node::Table(_) => {
            let table = field.table(FIELDS, findings)?;
            let mut fields = table.fields();
            match (fields.next(), fields.next()) {
                (Some((kind, field)), None) if FIELDS.contains(&kind) => (kind, field),
                (Some((kind, _)), None) if !FIELDS.contains(&kind) => return None,
                _ => return table_of_one(&table.path, findings),
            }
        }
        _ => return field.refuse(ACCEPTED, findings),
    };
    let text = field.text(findings)?;
    if kind == "regex" {
        let regex = text::regex(&field, any_case, findings)?;
        return Some(Pattern {
            text: text.to_owned(),
            shape: Shape::Regex(regex),
        });
    }
    if !text.starts_with('/') || text.contains(['?', '#']) {
        return field.refuse(ACCEPTED_PATH, findings);
    }
    let (path, open) = match kind {
        "exact" => (text, false),
        "prefix" => (text, true),
        _ => match text.strip_suffix("/*").or_else(|| text.strip_suffix('/')) {
            Some(path) => (path, true),
            None => (text, false),
        },
    };
    let mut normal = normalise(path.as_bytes()).text;
    if any_case {
        normal.make_ascii_lowercase();
    }
    let mut segments = Vec::new();
    for segment in segments_of(&normal) {
        let variable = segment == "*" || (segment.starts_with('{') && segment.ends_with('}'));
        if matches!(kind, "exact" | "prefix") || !segment.contains(['{', '}', '*']) {
            segments.push(Segment::Literal(segment.to_owned()));
        } else if variable
            && !segment
                .get(1..segment.len().saturating_sub(1))
                .unwrap_or_default()
                .contains(['{', '}', '*'])
        {
            segments.push(Segment::Any);
        } else {
            return field.refuse(ACCEPTED_SEGMENT, findings);
        }
    }
    let text = if open {
        format!("{}/*", normal.trim_end_matches('/'))
    } else {
        normal
    };
    Some(Pattern {
        text,
        shape: Shape::Segments { segments, open },
    })
}

fn table_of_one(path: &super::findings::Path, findings: &mut Findings) -> Option<Pattern> {
    findings.error(
        path,
        "not exactly one of them",
        "one of exact, prefix, template, regex",
    );
    None
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::policy::findings::Path;

    fn pattern(text: &str) -> Option<Pattern> {
        let node = match text.strip_prefix('~') {
            Some(regex) => Node::Table(vec![("regex".to_owned(), Node::Text(regex.to_owned()))]),
            None => Node::Text(text.to_owned()),
        };
        let field = Field {
            node: &node,
            path: Path::default(),
        };
        read_one(&field, false, &mut Findings::default())
    }

    #[test]
    fn patterns_match_whole_segments() {
        for (text, matching, others) in [
            (
                "/login",
                &["/login"][..],
                &["/login/x", "/loginX", "/", "/LOGIN"][..],
            ),
            (
                "/api/",
                &["/api", "/api/x", "/api/x/y"],
                &["/apix", "/", "/x/api"],
            ),
            ("/api/*", &["/api", "/api/x", "/api/x/y"], &["/apix"]),
            ("/", &["/", "/x", "/x/y"], &[]),
            (
                "/users/{id}/orders",
                &["/users/7/orders"],
                &["/users/orders", "/users/7/orders/1"],
            ),
            (
                "/users/{id}/",
                &["/users/7", "/users/7/orders"],
                &["/users"],
            ),
            ("/a/*/c", &["/a/b/c"], &["/a/c", "/a/b/b/c"]),
            ("/caf\u{e9}", &["/caf%C3%A9"], &[]),
            ("~/v[0-9]+/.*", &["/v1/x"], &["/x/v1/x", "/v1"]),
        ] {
            let pattern = pattern(text).unwrap();
            for path in matching {
                assert!(pattern.matches(path, true), "{text} {path}");
            }
            for path in others {
                assert!(!pattern.matches(path, true), "{text} {path}");
            }
        }
    }

    #[test]
    fn what_is_no_pattern_is_refused() {
        for text in [
            "login",
            "",
            "/a?b",
            "/a#b",
            "*",
            "/{id}.json",
            "/a{b}",
            "/{{x}}",
            "~(",
            "/a*",
        ] {
            assert!(pattern(text).is_none(), "{text}");
        }
    }

    #[test]
    fn a_wider_pattern_covers_a_narrower_one() {
        for (wide, narrow, covers) in [
            ("/a/", "/a/b", true),
            ("/a/", "/a", true),
            ("/a/", "/ab", false),
            ("/a", "/a/", false),
            ("/a/{x}", "/a/b", true),
            ("/a/b", "/a/{x}", false),
            ("/", "~.*", true),
            ("~.*", "/a", false),
        ] {
            assert_eq!(
                pattern(wide).unwrap().covers(&pattern(narrow).unwrap()),
                covers,
                "{wide} {narrow}"
            );
        }
    }
}
