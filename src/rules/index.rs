//! Finds the limits that a path may be about without looking at the others.
//!
//! A tree of path segments, built when the policy loads. A limit without a path, or with a regular
//! expression for one, is a candidate of every request.

use crate::policy::{
    Limit, Mode,
    path::{Segment, Shape},
};

/// One way in which a limit may apply.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub struct Entry {
    /// Index into the policy's limits.
    pub limit: u32,
    /// Index into the limit's `when`.
    pub alternative: u32,
    /// Index into the paths of that alternative, when it has paths.
    pub pattern: Option<u32>,
    /// Whether the path is known to match the pattern.
    pub verified: bool,
}

/// The limits by the paths they are about. Limits that are `off` are not in it.
#[derive(Clone, Debug, Default)]
pub struct Index {
    /// Candidates of every request, in order.
    always: Vec<Entry>,
    nodes: Vec<Node>,
}

#[derive(Clone, Debug, Default)]
struct Node {
    /// The nodes below, by their segment, in the order of the text.
    literal: Vec<(Box<str>, usize)>,
    /// The node below for a segment of any text.
    any: Option<usize>,
    /// For a path that ends here.
    here: Vec<Entry>,
    /// For a path that ends here or goes on.
    open: Vec<Entry>,
}

impl Index {
    /// The index of these limits.
    #[must_use]
    pub fn new(limits: &[Limit]) -> Self {
        let mut index = Self {
            always: Vec::new(),
            nodes: vec![Node::default()],
        };
        let number = |i: usize| u32::try_from(i).unwrap_or(u32::MAX);
        for (i, limit) in limits
            .iter()
            .enumerate()
            .filter(|(_, limit)| limit.mode != Mode::Off)
        {
            let entry = Entry {
                limit: number(i),
                alternative: 0,
                pattern: None,
                verified: true,
            };
            if limit.when.is_empty() {
                index.always.push(entry);
            }
            for (j, when) in limit.when.iter().enumerate() {
                let entry = Entry {
                    alternative: number(j),
                    ..entry
                };
                if when.paths.is_empty() {
                    index.always.push(entry);
                }
                for (k, pattern) in when.paths.iter().enumerate() {
                    let entry = Entry {
                        pattern: Some(number(k)),
                        ..entry
                    };
                    match &pattern.shape {
                        Shape::Regex(_) => index.always.push(Entry {
                            verified: false,
                            ..entry
                        }),
                        Shape::Segments { segments, open } => index.insert(segments, *open, entry),
                    }
                }
            }
        }
        index
    }

    /// Whether any limit is found by its path.
    #[must_use]
    pub fn asks_for_path(&self) -> bool {
        self.nodes.len() > 1
            || self
                .nodes
                .iter()
                .any(|root| !root.here.is_empty() || !root.open.is_empty())
    }

    /// Appends every entry whose pattern the path matches, and those that must be looked at with any
    /// path, in the policy's order.
    pub fn candidates(&self, path: Option<&str>, out: &mut Vec<Entry>) {
        out.extend_from_slice(&self.always);
        let before = out.len();
        if let (Some(path), Some(root)) = (path, self.nodes.first()) {
            self.descend(root, path, out);
        }
        if out.len() > before {
            out.sort_unstable();
        }
    }

    /// `rest`: what of the path is below the node, with its first slash; empty or `/` at its end.
    fn descend(&self, node: &Node, rest: &str, out: &mut Vec<Entry>) {
        out.extend_from_slice(&node.open);
        let below = rest.strip_prefix('/').unwrap_or(rest);
        if below.is_empty() {
            out.extend_from_slice(&node.here);
            return;
        }
        let (segment, rest) = below
            .find('/')
            .map_or((below, ""), |slash| below.split_at(slash));
        let literal = node
            .literal
            .binary_search_by(|(text, _)| (**text).cmp(segment));
        let literal = literal
            .ok()
            .and_then(|at| node.literal.get(at))
            .map(|(_, next)| *next);
        // At most one literal and one variable step a segment: the walk meets each node once.
        for next in literal.into_iter().chain(node.any) {
            if let Some(next) = self.nodes.get(next) {
                self.descend(next, rest, out);
            }
        }
    }

    fn insert(&mut self, segments: &[Segment], open: bool, entry: Entry) {
        let mut at = 0;
        for segment in segments {
            at = self.step(at, segment);
        }
        if let Some(node) = self.nodes.get_mut(at) {
            if open {
                node.open.push(entry)
            } else {
                node.here.push(entry)
            }
        }
    }

    /// The node below `at` for that segment, made when there is none.
    fn step(&mut self, at: usize, segment: &Segment) -> usize {
        let new = self.nodes.len();
        let Some(node) = self.nodes.get_mut(at) else {
            return at;
        };
        let next = match segment {
            Segment::Any => *node.any.get_or_insert(new),
            Segment::Literal(text) => {
                let found = node
                    .literal
                    .binary_search_by(|(known, _)| (**known).cmp(text));
                match found {
                    Ok(place) => node.literal.get(place).map_or(new, |(_, next)| *next),
                    Err(place) => {
                        node.literal.insert(place, (text.as_str().into(), new));
                        new
                    }
                }
            }
        };
        if next == new {
            self.nodes.push(Node::default());
        }
        next
    }
}
