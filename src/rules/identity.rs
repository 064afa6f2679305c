//! Who a request is: the tag of its keys, made so that two clients never share one.
//!
//! ```text
//! KEY  = HEAD "{" TAG "}" TAIL          HEAD = PREFIX ":" [DOMAIN ":"],  TAIL = ":" NAME ":" ALGORITHM
//! TAG  = PART *("," PART) | "all"       all: the key has no parts
//! PART = LABEL "=" VALUE                as it is, escaped
//!      | LABEL "#" HASH                 secret, or longer than 64 bytes
//!      | LABEL "!"                      absent, where absent ones share a bucket
//! ```
//! A label names the fact (`header/x-api-key`), so a user called like an address is not that address.
//! `=`, `#`, `!`, `,`, `/`, braces, colons and everything unprintable are escaped in values.

use std::hash::{DefaultHasher, Hasher as _};
use std::{
    fmt,
    fmt::Write as _,
    net::{IpAddr, Ipv4Addr},
};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;

use crate::{
    policy::{Secret, key::Part},
    request::address,
};

/// Longer values are hashed.
pub const MAX_PLAIN_BYTES: usize = 64;
/// The tag of a key without parts.
pub const EVERYONE: &str = "all";
/// Bytes of a hash that are kept: 144 bits, 24 characters.
const HASH_BYTES: usize = 18;
/// Keys the hash when the policy has no `hash_key`.
const DEFAULT_HASH_KEY: &str = "aforo";

/// Hashes values that must not be seen, or would be too long: HMAC-SHA256 under the policy's key.
#[derive(Clone)]
pub struct Hasher {
    keyed: Option<Hmac<Sha256>>,
    /// Keyed like the other, for [`Self::short`].
    shorter: DefaultHasher,
}

impl Hasher {
    /// A hasher under that key.
    #[must_use]
    pub fn new(key: Option<&Secret>) -> Self {
        let key = key.map_or(DEFAULT_HASH_KEY, Secret::reveal);
        let mut hasher = Self {
            keyed: Hmac::new_from_slice(key.as_bytes()).ok(),
            shorter: DefaultHasher::new(),
        };
        let mut seed = String::new();
        hasher.write(b"short", &mut seed);
        hasher.shorter.write(seed.as_bytes());
        hasher
    }

    /// Sixteen hexadecimal digits by which one client's requests are found in logs. Quick, since every
    /// request has one; nothing is decided by it, and another version may give others.
    #[must_use]
    pub fn short(&self, key: &str) -> String {
        let mut hasher = self.shorter.clone();
        hasher.write(key.as_bytes());
        format!("{:016x}", hasher.finish())
    }

    /// Appends 24 characters of `A-Z a-z 0-9 - _`.
    fn write(&self, value: &[u8], out: &mut String) {
        const DIGITS: &[u8; 64] =
            b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789-_";
        // HMAC takes keys of every length, so there always is one.
        let Some(mut mac) = self.keyed.clone() else {
            return;
        };
        mac.update(value);
        let hash = mac.finalize().into_bytes();
        for three in hash.get(..HASH_BYTES).unwrap_or_default().chunks(3) {
            let bits = three
                .iter()
                .fold(0_u32, |bits, byte| (bits << 8) | u32::from(*byte));
            for shift in [18, 12, 6, 0] {
                let digit = DIGITS.get(((bits >> shift) & 63) as usize).copied();
                out.push(digit.map_or('A', char::from));
            }
        }
    }
}

impl fmt::Debug for Hasher {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Hasher(***)")
    }
}

/// Appends a present part.
pub fn write_value(part: &Part, value: &[u8], hasher: &Hasher, out: &mut String) {
    out.push_str(&part.label);
    if part.secret || value.len() > MAX_PLAIN_BYTES {
        out.push('#');
        hasher.write(value, out);
    } else {
        out.push('=');
        escape(value, out);
    }
}

/// Appends an address: `ip=203.0.113.7`, `ip=2001-db8--_64`.
pub fn write_address(
    part: &Part,
    client: IpAddr,
    ipv6_prefix: u8,
    hasher: &Hasher,
    out: &mut String,
) {
    match client {
        IpAddr::V6(v6) if !part.secret => {
            out.push_str(&part.label);
            out.push('=');
            let mut text = address::network(v6, ipv6_prefix).to_string();
            text = text.replace(':', "-");
            out.push_str(&text);
            let _ = write!(out, "_{ipv6_prefix}");
        }
        IpAddr::V4(v4) if !part.secret => {
            out.push_str(&part.label);
            out.push('=');
            write_v4(v4, out);
        }
        IpAddr::V6(v6) => {
            write_value(
                part,
                &address::network(v6, ipv6_prefix).octets(),
                hasher,
                out,
            );
        }
        IpAddr::V4(v4) => write_value(part, &v4.octets(), hasher, out),
    }
}

/// Appends an absent part.
pub fn write_absent(part: &Part, out: &mut String) {
    out.push_str(&part.label);
    out.push('!');
}

/// Appends `bytes` in `A-Z a-z 0-9 - _ . ~ @ +`, everything else as `%XX`; distinct bytes stay distinct.
pub fn escape(bytes: &[u8], out: &mut String) {
    const DIGITS: &[u8; 16] = b"0123456789ABCDEF";
    for byte in bytes {
        if byte.is_ascii_alphanumeric() || b"-_.~@+".contains(byte) {
            out.push(char::from(*byte));
        } else {
            out.push('%');
            for digit in [byte >> 4, byte & 15] {
                out.push(
                    DIGITS
                        .get(usize::from(digit))
                        .copied()
                        .map_or('0', char::from),
                );
            }
        }
    }
}

/// Where a client stands among all clients of a limit, `0..10_000`: always the same for one tag and
/// one name, on every proxy.
#[must_use]
pub fn share(tag: &str, limit: &str) -> u16 {
    // FNV-1a, then the finish of MurmurHash3, which spreads it over the high bits.
    let mut hash = 0xCBF2_9CE4_8422_2325_u64;
    for byte in tag.bytes().chain([0]).chain(limit.bytes()) {
        hash = (hash ^ u64::from(byte)).wrapping_mul(0x0100_0000_01B3);
    }
    for factor in [0xFF51_AFD7_ED55_8CCD, 0xC4CE_B9FE_1A85_EC53] {
        hash = (hash ^ (hash >> 33)).wrapping_mul(factor);
    }
    hash ^= hash >> 33;
    u16::try_from((hash >> 32).wrapping_mul(10_000) >> 32).unwrap_or(0)
}

fn write_v4(address: Ipv4Addr, out: &mut String) {
    let _ = write!(out, "{address}");
}
