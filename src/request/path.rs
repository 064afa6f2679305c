//! The normal form of a path, in which rules match and keys are built: one resource, one spelling.
//!
//! 1. What follows `?` or `#` is dropped, and so are the scheme and host of an absolute form.
//! 2. `\`, `%2F` and `%5C` are `/`: some upstreams take them for one, and a rule must not be escaped.
//! 3. Parameters of a segment (`;v=1`) are dropped.
//! 4. `%XX` of a printable ASCII character is that character, but `%25`, `%3F` and `%23` stay; any
//!    other byte, escaped or raw, is written `%XX` with capital digits. Nothing is decoded twice.
//! 5. Empty segments and `.` are dropped, `..` takes the segment before it away.
//! 6. There is no slash at the end, but for the root, `/`.
//!
//! Letter case is kept: two cases may be two resources.

use super::pairs::hex_pair;

/// A path in its normal form.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct NormalPath {
    /// The normal form: printable ASCII that begins with `/`, or `*`.
    pub text: String,
    /// Whether it was written in its normal form (a query, or one slash at its end, aside). Another
    /// spelling may be read differently by the upstream, so it never lifts a limit.
    pub plain: bool,
}

/// Brings a path into its normal form.
#[must_use]
pub fn normalise(raw: &[u8]) -> NormalPath {
    let whole = raw
        .split(|b| matches!(b, b'?' | b'#'))
        .next()
        .unwrap_or_default();
    if whole == b"*" {
        return NormalPath {
            text: "*".to_owned(),
            plain: true,
        };
    }
    if is_normal(whole) {
        let end = if whole.len() > 1 {
            b"/".as_slice()
        } else {
            b""
        };
        let text = whole.strip_suffix(end).unwrap_or(whole);
        // It is ASCII, so nothing is lost.
        let text = String::from_utf8_lossy(text).into_owned();
        return NormalPath { text, plain: true };
    }
    let path = without_origin(whole);
    let mut text = String::with_capacity(path.len().saturating_add(1));
    let mut rest = path;
    let mut in_parameters = false;
    text.push('/');
    loop {
        let (token, after) = next(rest);
        rest = after;
        match token {
            Token::Separator | Token::End => {
                close_segment(&mut text);
                in_parameters = false;
                if token == Token::End {
                    break;
                }
            }
            Token::Parameters => in_parameters = true,
            _ if in_parameters => {}
            Token::Char(byte) => text.push(char::from(byte)),
            Token::Escape(byte) => push_escape(byte, &mut text),
        }
    }
    // Every closed segment ends with a slash; only the root keeps it.
    if text.len() > 1 {
        text.pop();
    }
    let written = match whole {
        [shorter @ .., b'/'] if !shorter.is_empty() => shorter,
        _ => whole,
    };
    let plain = written == text.as_bytes();
    NormalPath { text, plain }
}

/// Whether the path surely is in its normal form, but for one slash at its end: most are. A dot at the
/// start of a segment is left to the long way.
fn is_normal(path: &[u8]) -> bool {
    let mut before = 0;
    for byte in path {
        let plain = byte.is_ascii_graphic() && !matches!(byte, b'%' | b';' | b'\\');
        if !plain || (before == b'/' && matches!(byte, b'/' | b'.')) {
            return false;
        }
        before = *byte;
    }
    path.starts_with(b"/")
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Token {
    Separator,
    Parameters,
    Char(u8),
    Escape(u8),
    End,
}

fn next(rest: &[u8]) -> (Token, &[u8]) {
    match rest {
        [] => (Token::End, rest),
        [b'/' | b'\\', after @ ..] => (Token::Separator, after),
        [b';', after @ ..] => (Token::Parameters, after),
        [b'%', high, low, after @ ..] => match hex_pair(*high, *low) {
            Some(b'/' | b'\\') => (Token::Separator, after),
            Some(byte @ (b'%' | b'?' | b'#')) => (Token::Escape(byte), after),
            Some(byte) if byte.is_ascii_graphic() => (Token::Char(byte), after),
            Some(byte) => (Token::Escape(byte), after),
            None => (Token::Escape(b'%'), rest.get(1..).unwrap_or_default()),
        },
        [byte, after @ ..] if byte.is_ascii_graphic() && *byte != b'%' => {
            (Token::Char(*byte), after)
        }
        [byte, after @ ..] => (Token::Escape(*byte), after),
    }
}

/// `text` ends with a segment that began after its last slash: drops it when it says nothing, and the
/// one before it when it says so; otherwise ends it with a slash.
fn close_segment(text: &mut String) {
    let start = text.rfind('/').map_or(0, |slash| slash.saturating_add(1));
    match text.get(start..).unwrap_or_default() {
        "" => {}
        "." => text.truncate(start),
        ".." => {
            let before = text.get(..start.saturating_sub(1)).unwrap_or_default();
            text.truncate(before.rfind('/').map_or(1, |slash| slash.saturating_add(1)));
        }
        _ => text.push('/'),
    }
}

fn push_escape(byte: u8, text: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    text.push('%');
    for digit in [byte >> 4, byte & 15] {
        text.push(
            DIGITS
                .get(usize::from(digit))
                .copied()
                .map_or('0', char::from),
        );
    }
}

/// What follows the host in `http://host/path`.
fn without_origin(path: &[u8]) -> &[u8] {
    if path.starts_with(b"/") {
        return path;
    }
    let scheme = path.iter().position(|b| *b == b':').unwrap_or(0);
    match path.split_at(scheme) {
        (scheme, [b':', b'/', b'/', rest @ ..]) if scheme.iter().all(u8::is_ascii_alphabetic) => {
            let host = rest.iter().position(|b| *b == b'/').unwrap_or(rest.len());
            rest.get(host..).unwrap_or_default()
        }
        _ => path,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b11_spellings_of_one_path_are_one_path() {
        for raw in [
            "/api/login",
            "/api/login/",
            "/api//login",
            "/api/./login",
            "/api/x/../login",
            "/api/%6Cogin",
            "/api/%6cogin",
            "/api%2Flogin",
            "/api%2flogin",
            "/api%5Clogin",
            "/api\\login",
            "/api/login;v=1",
            "/api;a=b/login;c=d;e",
            "/api/..;/api/login",
            "/../api/login",
            "/%2e%2e/api/%2E/login",
            "//api/login//",
            "http://host/api/login",
            "HTTPS://host:1/api/login?x",
            "api/login",
            "/api/login?next=/x",
            "/api/login#x",
        ] {
            assert_eq!(normalise(raw.as_bytes()).text, "/api/login", "{raw}");
        }
    }

    #[test]
    fn other_paths_stay_other_paths() {
        for (raw, text) in [
            ("/API/login", "/API/login"),
            ("/api/loginX", "/api/loginX"),
            ("/api/login%00", "/api/login%00"),
            ("/api/login%252F", "/api/login%252F"),
            ("/api/login%3Fx", "/api/login%3Fx"),
            ("/a%zz", "/a%25zz"),
            ("/a%", "/a%25"),
            ("/a%4", "/a%254"),
            ("/%c3%a9", "/%C3%A9"),
            ("/\u{e9}", "/%C3%A9"),
            ("/a%3Bb", "/a;b"),
            ("/", "/"),
            ("", "/"),
            ("?x", "/"),
            ("/..", "/"),
            ("/a/..", "/"),
            ("/a/b/..", "/a"),
            ("/...", "/..."),
            ("*", "*"),
            ("http://host", "/"),
        ] {
            assert_eq!(normalise(raw.as_bytes()).text, text, "{raw}");
        }
    }

    #[test]
    fn only_a_path_in_its_normal_form_is_plain() {
        for (raw, plain) in [
            ("/healthz", true),
            ("/healthz?x", true),
            ("/healthz/", true),
            ("/", true),
            ("/healthz//", false),
            ("/healthz/../api", false),
            ("/api/..%2fhealthz", false),
            ("/%68ealthz", false),
            ("/healthz;x", false),
            ("http://host/healthz", false),
        ] {
            assert_eq!(normalise(raw.as_bytes()).plain, plain, "{raw}");
        }
    }

    #[test]
    fn what_is_normal_at_a_glance_is_what_the_long_way_gives() {
        // All paths of up to six of these bytes.
        let bytes = b"/.a%;\\";
        for length in 0..=6_u32 {
            for number in 0..6_usize.pow(length) {
                let path: Vec<u8> = (0..length)
                    .map(|place| bytes[number / 6_usize.pow(place) % 6])
                    .collect();
                if is_normal(&path) {
                    // The same path to the reader, but not at a glance.
                    let long = normalise(&[b"/.", path.as_slice()].concat());
                    assert_eq!(normalise(&path).text, long.text, "{path:?}");
                }
            }
        }
    }

    #[test]
    fn normal_forms_are_normal() {
        for raw in ["/a;b/%2e%2e/%zz/\\x", "/%25%32%46", "//\u{1}/;/..;x/%7e"] {
            let once = normalise(raw.as_bytes()).text;
            assert!(once.bytes().all(|b| b.is_ascii_graphic()), "{once}");
        }
    }
}
