//! Bytes as text, for gRPC-Web and for structured fields.

/// RFC 4648, padded.
pub(super) fn base64(bytes: &[u8]) -> String {
    const DIGITS: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let digit = |bits: u32| {
        DIGITS
            .get((bits & 63) as usize)
            .copied()
            .map_or('=', char::from)
    };
    let mut out = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for three in bytes.chunks(3) {
        let byte = |index: usize| three.get(index).map_or(0, |byte| u32::from(*byte));
        let bits = (byte(0) << 16) | (byte(1) << 8) | byte(2);
        let places = [
            (18, true),
            (12, true),
            (6, three.len() > 1),
            (0, three.len() > 2),
        ];
        out.extend(places.map(|(shift, used)| if used { digit(bits >> shift) } else { '=' }));
    }
    out
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn base64_is_that_of_the_rfc() {
        for (plain, coded) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("foobar", "Zm9vYmFy"),
            ("\u{7f}\u{7f}~?>", "f39+Pz4="),
        ] {
            assert_eq!(base64(plain.as_bytes()), coded, "{plain:?}");
        }
    }
}
