//! What clients send to be taken for somebody else, or for more than a value.

/// Values that mean something to an HTTP gateway, or look like one another there. All differ.
pub const LOOK_ALIKES: [&str; 31] = [
    "",
    "a",
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
    "a%2fb",
    "%00",
    "\0",
    "a\0",
    "a\\u0000",
    "%0d%0a",
    "\r\n",
    "a#b",
    ";",
    "\"",
    "\\",
    "é",
    "{}",
    "[]",
    "null",
    "%",
];

/// Those of them that a header field can have as its value, and a long one.
#[must_use]
pub fn header_values() -> Vec<String> {
    let control = |value: &&str| value.chars().any(|c| c.is_ascii_control());
    let mut values: Vec<String> = LOOK_ALIKES
        .iter()
        .filter(|value| !value.is_empty() && !control(value))
        .map(|&value| value.to_owned())
        .collect();
    values.push("%".repeat(8 * 1024));
    values
}
