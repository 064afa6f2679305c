//! Query parameters and cookies.

/// The first query parameter of that name, percent-decoded, `+` as space. `None` when absent.
#[must_use]
pub fn query(raw_path: &[u8], name: &str) -> Option<Vec<u8>> {
    let query = raw_path.splitn(2, |b| *b == b'?').nth(1)?;
    let query = query.split(|b| *b == b'#').next()?;
    query.split(|b| *b == b'&').find_map(|pair| {
        let mut halves = pair.splitn(2, |b| *b == b'=');
        decoded_is(halves.next()?, name)
            .then(|| decoded(halves.next().unwrap_or_default()).collect())
    })
}

/// The first cookie of that name, without the quotes that may surround it. `None` when absent.
#[must_use]
pub fn cookie(header: &[u8], name: &str) -> Option<Vec<u8>> {
    // Several cookie lines arrive joined by a comma, which no cookie may contain.
    header.split(|b| matches!(b, b';' | b',')).find_map(|pair| {
        let mut halves = pair.trim_ascii().splitn(2, |b| *b == b'=');
        if halves.next()?.trim_ascii() != name.as_bytes() {
            return None;
        }
        let value = halves.next()?.trim_ascii();
        let bare = value
            .strip_prefix(b"\"")
            .and_then(|value| value.strip_suffix(b"\""));
        Some(bare.unwrap_or(value).to_vec())
    })
}

fn decoded_is(bytes: &[u8], name: &str) -> bool {
    decoded(bytes).eq(name.bytes())
}

fn decoded(mut rest: &[u8]) -> impl Iterator<Item = u8> {
    std::iter::from_fn(move || {
        let (byte, after) = match rest {
            [b'%', high, low, after @ ..] => match hex_pair(*high, *low) {
                Some(byte) => (byte, after),
                None => (b'%', rest.get(1..)?),
            },
            [b'+', after @ ..] => (b' ', after),
            [byte, after @ ..] => (*byte, after),
            [] => return None,
        };
        rest = after;
        Some(byte)
    })
}

/// The byte that two hexadecimal digits stand for.
#[must_use]
pub fn hex_pair(high: u8, low: u8) -> Option<u8> {
    let digit = |b: u8| char::from(b).to_digit(16);
    u8::try_from(digit(high)?.checked_mul(16)?.checked_add(digit(low)?)?).ok()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_parameter_is_found_by_its_decoded_name() {
        let path = b"/p?b=2&api%5Fkey=a%2Fb+c&empty=&flag&api_key=second#f?x=1";
        for (name, value) in [
            ("api_key", Some(&b"a/b c"[..])),
            ("b", Some(b"2")),
            ("empty", Some(b"")),
            ("flag", Some(b"")),
            ("x", None),
            ("/p", None),
        ] {
            assert_eq!(query(path, name).as_deref(), value, "{name}");
        }
        assert_eq!(query(b"/p?a=%zz%4", "a").as_deref(), Some(&b"%zz%4"[..]));
        assert_eq!(query(b"/p?a=%FF", "a").as_deref(), Some(&b"\xFF"[..]));
    }

    #[test]
    fn a_cookie_is_found_by_its_exact_name() {
        for (header, value) in [
            ("sid=1", Some("1")),
            ("a=b; sid=1; sid=2", Some("1")),
            ("xsid=0; sid=\"q\"", Some("q")),
            ("a=b,sid=3", Some("3")),
            ("SID=1", None),
            ("sid", None),
            ("sid=", Some("")),
            ("sid=a=b", Some("a=b")),
            ("", None),
        ] {
            assert_eq!(
                cookie(header.as_bytes(), "sid").as_deref(),
                value.map(str::as_bytes),
                "{header}"
            );
        }
    }
}
