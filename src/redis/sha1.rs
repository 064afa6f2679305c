//! SHA-1, by which Redis names a script: computed by the compiler, so that it cannot differ from
//! the text. Not for anything that has to withstand an attacker.

/// The digest of `text` in lower-case hexadecimal.
#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "evaluated by the compiler for the production script: out of range would not build"
)]
pub(super) const fn sha1(text: &[u8]) -> [u8; 40] {
    let mut state: [u32; 5] = [
        0x6745_2301,
        0xefcd_ab89,
        0x98ba_dcfe,
        0x1032_5476,
        0xc3d2_e1f0,
    ];
    let padded = (text.len() + 8) / 64 * 64 + 64;
    let bits = (text.len() as u64 * 8).to_be_bytes();
    let mut start = 0;
    while start < padded {
        let mut words = [0_u32; 80];
        let mut i = 0;
        while i < 80 {
            words[i] = if i < 16 {
                let mut bytes = [0; 4];
                let mut b = 0;
                while b < 4 {
                    let at = start + i * 4 + b;
                    bytes[b] = if at < text.len() {
                        text[at]
                    } else if at == text.len() {
                        0x80
                    } else if at >= padded - 8 {
                        bits[at - (padded - 8)]
                    } else {
                        0
                    };
                    b += 1;
                }
                u32::from_be_bytes(bytes)
            } else {
                (words[i - 3] ^ words[i - 8] ^ words[i - 14] ^ words[i - 16]).rotate_left(1)
            };
            i += 1;
        }
        state = rounds(state, &words);
        start += 64;
    }
    hex(state)
}

#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "every index is below the length of its array"
)]
const fn rounds(state: [u32; 5], words: &[u32; 80]) -> [u32; 5] {
    let [mut a, mut b, mut c, mut d, mut e] = state;
    let mut i = 0;
    while i < 80 {
        let (f, k) = match i / 20 {
            0 => ((b & c) | (!b & d), 0x5a82_7999),
            1 => (b ^ c ^ d, 0x6ed9_eba1),
            2 => ((b & c) | (b & d) | (c & d), 0x8f1b_bcdc),
            _ => (b ^ c ^ d, 0xca62_c1d6_u32),
        };
        let next = a
            .rotate_left(5)
            .wrapping_add(f)
            .wrapping_add(e)
            .wrapping_add(k);
        (e, d, c, b, a) = (d, c, b.rotate_left(30), a, next.wrapping_add(words[i]));
        i += 1;
    }
    [
        state[0].wrapping_add(a),
        state[1].wrapping_add(b),
        state[2].wrapping_add(c),
        state[3].wrapping_add(d),
        state[4].wrapping_add(e),
    ]
}

#[expect(
    clippy::indexing_slicing,
    clippy::arithmetic_side_effects,
    reason = "every index is below the length of its array"
)]
const fn hex(state: [u32; 5]) -> [u8; 40] {
    const DIGITS: &[u8; 16] = b"0123456789abcdef";
    let mut text = [0; 40];
    let mut i = 0;
    while i < 40 {
        let nibble = (state[i / 8] >> (28 - i % 8 * 4)) & 15;
        text[i] = DIGITS[nibble as usize];
        i += 1;
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn digests_are_those_of_the_standard() {
        for (text, digest) in [
            ("", "da39a3ee5e6b4b0d3255bfef95601890afd80709"),
            ("abc", "a9993e364706816aba3e25717850c26c9cd0d89d"),
            (
                "abcdbcdecdefdefgefghfghighijhijkijkljklmklmnlmnomnopnopq",
                "84983e441c3bd26ebaae4aa1f95129e5e54670f1",
            ),
        ] {
            assert_eq!(sha1(text.as_bytes()), digest.as_bytes());
        }
        // Lengths around the edge of a block.
        let a = |n: usize| String::from_utf8(sha1(&b"a".repeat(n)).to_vec()).unwrap();
        assert_eq!(a(55), "c1c8bbdc22796e28c0e15163d20899b65621d65a");
        assert_eq!(a(64), "0098ba824b5c16427bd7a1122a5a442a25ec644d");
    }
}
