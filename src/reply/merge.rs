//! Our fields beside those an upstream sends: one set on the wire, never two values of one field.

use super::{
    fields::Fields,
    settings::{Settings, Theirs},
};

/// What the host does to the response's headers, in this order.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Edit {
    /// Removes every line of this field, if there is one.
    Remove(&'static str),
    /// Makes this the field's one line, whatever was there.
    Set(&'static str, String),
}

/// Every field that tells where a client stands, of any family. `Retry-After` is none of them: an
/// upstream's 503 keeps its own.
pub const STATE_FIELDS: [&str; 8] = [
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit-limit",
    "ratelimit-remaining",
    "ratelimit-reset",
    "ratelimit-policy",
    "ratelimit",
];

/// The edits to a response that this filter let through. `status` is the response's; `theirs` reads
/// one of its header fields, several lines joined by a comma. Call it once a response, and not for a
/// reply of this filter's own, which carries its fields already.
///
/// - An informational response (1xx), or nothing to tell: no edits.
/// - The upstream sends none of [`STATE_FIELDS`]: ours are added.
/// - It does: the whole set of one side stays, as [`Theirs`] says. An upstream's own 429 keeps its
///   set under every rule: it explains that refusal, ours does not.
#[must_use]
pub fn merge(
    settings: &Settings,
    ours: Fields,
    status: u32,
    theirs: &dyn Fn(&str) -> Option<Vec<u8>>,
) -> Vec<Edit> {
    if ours.is_empty() || (100..200).contains(&status) {
        return Vec::new();
    }
    let rule = settings.parts().theirs;
    // Under `replace` nothing of theirs is read: every call to the host costs, and this is the rule
    // that nearly every response meets.
    if status == 429 || rule != Theirs::Replace {
        let present: Vec<(&'static str, Vec<u8>)> = STATE_FIELDS
            .into_iter()
            .filter_map(|name| Some((name, theirs(name)?)))
            .collect();
        let theirs_stand = match rule {
            _ if status == 429 => !present.is_empty(),
            Theirs::Replace => false,
            Theirs::Keep => !present.is_empty(),
            Theirs::Stricter => is_stricter(&present, &ours),
        };
        if theirs_stand {
            return Vec::new();
        }
    }
    let is_ours = |name: &str| ours.iter().any(|(ours, _)| *ours == name);
    let removed = STATE_FIELDS
        .into_iter()
        .filter(|name| !is_ours(name))
        .map(Edit::Remove);
    let mut edits: Vec<Edit> = removed.collect();
    edits.extend(ours.into_iter().map(|(name, value)| Edit::Set(name, value)));
    edits
}

/// Whether what the upstream says remains is less than what we say. A set that cannot be read is
/// ignored.
fn is_stricter(theirs: &[(&'static str, Vec<u8>)], ours: &Fields) -> bool {
    let theirs = theirs
        .iter()
        .filter_map(|(name, value)| remaining(name, value))
        .min();
    let ours = ours
        .iter()
        .filter_map(|(name, value)| remaining(name, value.as_bytes()))
        .min();
    matches!((theirs, ours), (Some(theirs), Some(ours)) if theirs < ours)
}

/// The least that one field says remains.
fn remaining(name: &str, value: &[u8]) -> Option<u64> {
    match name {
        "x-ratelimit-remaining" | "ratelimit-remaining" => value
            .split(|byte| *byte == b',')
            .filter_map(leading_integer)
            .min(),
        "ratelimit" => parameters(value)
            .into_iter()
            .filter_map(remaining_parameter)
            .min(),
        _ => None,
    }
}

/// The pieces of a structured field between separators that stand outside of strings.
fn parameters(value: &[u8]) -> Vec<&[u8]> {
    let (mut quoted, mut escaped) = (false, false);
    value
        .split(|byte| {
            let separator = !quoted && matches!(byte, b';' | b',');
            match byte {
                _ if escaped => escaped = false,
                b'\\' if quoted => escaped = true,
                b'"' => quoted = !quoted,
                _ => {}
            }
            separator
        })
        .collect()
}

/// `r=12`, or `remaining=12` of the seventh draft.
fn remaining_parameter(parameter: &[u8]) -> Option<u64> {
    let parameter = parameter.trim_ascii();
    let value = parameter
        .strip_prefix(b"r=")
        .or_else(|| parameter.strip_prefix(b"remaining="))?;
    leading_integer(value)
}

/// The digits a value begins with.
fn leading_integer(value: &[u8]) -> Option<u64> {
    let value = value.trim_ascii_start();
    let digits = value.split(|byte| !byte.is_ascii_digit()).next()?;
    str::from_utf8(digits).ok()?.parse().ok()
}
