//! What is wrong with a policy: every error of a file at once, each with its place.
//!
//! A reader of a section gets `&mut Findings`, reports what it sees and goes on, so that one run
//! tells everything. A policy is made only when no error was reported.

use std::fmt;

/// Most errors that are kept of one file; more are counted, not shown.
const MAX_ERRORS: usize = 100;
/// Most bytes of a found value that are shown.
const MAX_SHOWN: usize = 60;

/// Where in the policy something is: `limits[2].rate`. The root is empty.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Path(String);

impl Path {
    /// The field `name` below this place.
    #[must_use]
    pub fn field(&self, name: &str) -> Self {
        let plain = !name.is_empty()
            && name.len() <= MAX_SHOWN
            && name
                .bytes()
                .all(|b| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-'));
        Self(match (plain, self.0.is_empty()) {
            (true, true) => name.to_owned(),
            (true, false) => format!("{}.{name}", self.0),
            (false, _) => format!("{}[{}]", self.0, shown(name)),
        })
    }

    /// The element `index`, counted from 0, below this place.
    #[must_use]
    pub fn index(&self, index: usize) -> Self {
        Self(format!("{}[{index}]", self.0))
    }
}

impl fmt::Display for Path {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(if self.0.is_empty() { "policy" } else { &self.0 })
    }
}

/// One thing that a policy may not say.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Error {
    /// Where.
    pub path: Path,
    /// What was found there, as one would write it; never a secret.
    pub found: String,
    /// What is accepted there.
    pub accepted: String,
    /// The known name that the found one resembles.
    pub suggestion: Option<&'static str>,
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{}: found {}; accepted: {}",
            self.path, self.found, self.accepted
        )?;
        match self.suggestion {
            Some(name) => write!(f, " (did you mean {name:?}?)"),
            None => Ok(()),
        }
    }
}

/// Why a policy was refused: at least one error, in the file's order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Errors {
    list: Vec<Error>,
    unshown: usize,
}

impl Errors {
    /// The errors, at most 100.
    #[must_use]
    pub fn list(&self) -> &[Error] {
        &self.list
    }

    /// How many errors more there are.
    #[must_use]
    pub const fn unshown(&self) -> usize {
        self.unshown
    }
}

impl fmt::Display for Errors {
    /// One error a line.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        for (i, error) in self.list.iter().enumerate() {
            if i > 0 {
                f.write_str("\n")?;
            }
            error.fmt(f)?;
        }
        if self.unshown > 0 {
            write!(f, "\n… and {} more", self.unshown)?;
        }
        Ok(())
    }
}

impl std::error::Error for Errors {}

/// Something that a policy may say and probably does not mean.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Warning {
    /// Where.
    pub path: Path,
    /// What follows from it.
    pub text: String,
}

impl fmt::Display for Warning {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}: {}", self.path, self.text)
    }
}

/// Collects what is found while a policy is read.
#[derive(Debug, Default)]
pub struct Findings {
    errors: Vec<Error>,
    unshown: usize,
    warnings: Vec<Warning>,
}

impl Findings {
    /// Something else was found than is accepted.
    #[cold]
    #[inline(never)]
    pub fn error(&mut self, path: &Path, found: impl Into<String>, accepted: impl Into<String>) {
        self.push(Error {
            path: path.clone(),
            found: found.into(),
            accepted: accepted.into(),
            suggestion: None,
        });
    }

    /// `found` is none of `known`.
    #[cold]
    #[inline(never)]
    pub fn unknown(
        &mut self,
        path: &Path,
        what: &str,
        found: &str,
        known: impl Iterator<Item = &'static str> + Clone,
    ) {
        let accepted = known.clone().collect::<Vec<_>>().join(", ");
        let suggestion = nearest(found, known.clone()).or_else(|| other_word(found, known));
        let found = format!("{what} {}", shown(found));
        self.push(Error {
            path: path.clone(),
            found,
            accepted,
            suggestion,
        });
    }

    /// Accepted, but worth a word.
    #[cold]
    #[inline(never)]
    pub fn warning(&mut self, path: &Path, text: impl Into<String>) {
        self.warnings.push(Warning {
            path: path.clone(),
            text: text.into(),
        });
    }

    /// Whether anything was refused so far.
    #[must_use]
    pub fn refused(&self) -> bool {
        !self.errors.is_empty()
    }

    /// The errors, or the warnings when there is none.
    ///
    /// # Errors
    /// Everything reported with [`Findings::error`] and [`Findings::unknown`].
    pub fn finish(self) -> Result<Vec<Warning>, Errors> {
        if self.errors.is_empty() {
            Ok(self.warnings)
        } else {
            Err(self.into_errors())
        }
    }

    /// The errors alone.
    #[must_use]
    pub fn into_errors(self) -> Errors {
        Errors {
            list: self.errors,
            unshown: self.unshown,
        }
    }

    #[cold]
    #[inline(never)]
    fn push(&mut self, error: Error) {
        // A number of the limit is checked again with each plan: once is enough.
        if self.errors.contains(&error) {
            return;
        }
        if self.errors.len() < MAX_ERRORS {
            self.errors.push(error);
        } else {
            self.unshown = self.unshown.saturating_add(1);
        }
    }
}

/// `text` in quotes, control characters escaped, cut after 60 bytes.
#[must_use]
pub fn shown(text: &str) -> String {
    if text.len() <= MAX_SHOWN {
        return format!("{text:?}");
    }
    let mut end = MAX_SHOWN;
    while !text.is_char_boundary(end) {
        end = end.saturating_sub(1);
    }
    format!("{:?}…", text.get(..end).unwrap_or_default())
}

/// The known name that `found` most resembles, if any does.
fn nearest(found: &str, known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    if found.len() > MAX_SHOWN {
        return None;
    }
    let plain = |name: &str| -> Vec<u8> {
        name.bytes()
            .filter(u8::is_ascii_alphanumeric)
            .map(|b| b.to_ascii_lowercase())
            .collect()
    };
    let found = plain(found);
    let far = found.len().div_ceil(3).min(3);
    known
        .map(|name| (distance(&found, &plain(name)), name))
        .filter(|(away, _)| *away <= far)
        .min_by_key(|(away, _)| *away)
        .map(|(_, name)| name)
}

/// The known name for what others call `found`.
fn other_word(found: &str, mut known: impl Iterator<Item = &'static str>) -> Option<&'static str> {
    let found: String = found
        .chars()
        .filter(char::is_ascii_alphanumeric)
        .collect::<String>()
        .to_ascii_lowercase();
    let (_, name) = OTHER_WORDS
        .iter()
        .find(|(words, _)| words.contains(&found.as_str()))?;
    known.find(|known| known == name)
}

/// What other limiters call our fields and values.
const OTHER_WORDS: &[(&[&str], &str)] = &[
    (
        &[
            "limit",
            "limt",
            "requests",
            "quota",
            "window",
            "windowseconds",
            "period",
            "interval",
        ],
        "rate",
    ),
    (
        &[
            "failmode",
            "failopen",
            "failclosed",
            "failuremode",
            "failuremodedeny",
            "onerror",
        ],
        "outage",
    ),
    (&["identity", "by", "keys", "descriptors", "source"], "key"),
    (
        &["match", "matches", "if", "conditions", "route", "selector"],
        "when",
    ),
    (&["rules", "policies", "ratelimits"], "limits"),
    (&["capacity", "bucket", "maxtokens"], "burst"),
    (&["id", "title"], "name"),
    (&["fallback", "missingkey", "default"], "missing"),
    (&["dryrun", "shadowmode", "enabled", "disabled"], "mode"),
    (&["namespace", "scope"], "domain"),
    (
        &["cidr", "clients", "client", "remoteaddress", "sourceip"],
        "ip",
    ),
    (&["paths", "url", "uri", "pathprefix"], "path"),
    (&["slidingwindowlog", "log"], "sliding-log"),
    (
        &["slidingwindowcounter", "slidingcounter"],
        "sliding-window",
    ),
    (&["fixedwindowcounter", "fixed", "counter"], "fixed-window"),
    (&["leakybucket", "leaky"], "gcra"),
    (&["tokens", "bucket"], "token-bucket"),
    (&["inflight", "concurrent", "connections"], "concurrency"),
    (&["closed", "block", "reject", "refuse", "false"], "deny"),
    (&["open", "pass", "true"], "allow"),
    (&["dry", "observe", "logonly", "monitor"], "shadow"),
    (&["on", "true", "enforced"], "enforce"),
];

/// How many single letters must be changed, added, dropped or swapped with their neighbour.
fn distance(a: &[u8], b: &[u8]) -> usize {
    let mut before: Vec<usize> = Vec::new();
    let mut above: Vec<usize> = (0..=b.len()).collect();
    let mut previous_a = None;
    for (i, x) in a.iter().enumerate() {
        let mut row = Vec::with_capacity(above.len());
        row.push(i.saturating_add(1));
        let mut previous_b = None;
        for (j, y) in b.iter().enumerate() {
            let at = |row: &[usize], j: usize| row.get(j).copied().unwrap_or(usize::MAX);
            let right = j.saturating_add(1);
            let changed = at(&above, j).saturating_add(usize::from(x != y));
            let dropped = at(&above, right).saturating_add(1);
            let added = at(&row, j).saturating_add(1);
            let mut best = changed.min(dropped).min(added);
            if previous_a == Some(y) && previous_b == Some(x) {
                best = best.min(at(&before, j.saturating_sub(1)).saturating_add(1));
            }
            row.push(best);
            previous_b = Some(y);
        }
        before = std::mem::replace(&mut above, row);
        previous_a = Some(x);
    }
    above.last().copied().unwrap_or(usize::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_misspelt_name_is_recognised() {
        let known = [
            "sliding-log",
            "sliding-window",
            "fixed-window",
            "rate",
            "redis",
        ];
        for (found, suggestion) in [
            ("sliding_log", Some("sliding-log")),
            ("SlidingWindow", Some("sliding-window")),
            ("rtae", Some("rate")),
            ("Redis", Some("redis")),
            ("reddis", Some("redis")),
            ("banana", None),
            ("", None),
        ] {
            assert_eq!(nearest(found, known.into_iter()), suggestion, "{found}");
        }
    }

    #[test]
    fn places_are_written_as_one_would_look_for_them() {
        let path = Path::default().field("limits").index(2).field("rate");
        assert_eq!(path.to_string(), "limits[2].rate");
        assert_eq!(Path::default().to_string(), "policy");
        assert_eq!(Path::default().field("a b\n").to_string(), r#"["a b\n"]"#);
    }
}
