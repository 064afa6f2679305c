//! Addresses: one client, one spelling.

use std::net::{IpAddr, Ipv6Addr};

/// Reads an address with or without port, brackets and zone. A v4-mapped address is v4.
#[must_use]
pub fn parse(bytes: &[u8]) -> Option<IpAddr> {
    let text = std::str::from_utf8(bytes).ok()?.trim();
    let bare = match text.strip_prefix('[') {
        Some(rest) => rest.split_once(']')?.0,
        None => match text.split_once(':') {
            // One colon only: a port follows it.
            Some((host, port)) if !port.contains(':') => host,
            _ => text,
        },
    };
    let bare = bare
        .split_once('%')
        .map_or(bare, |(address, _zone)| address);
    bare.parse().ok().map(unmapped)
}

/// The v4 address that a v4-mapped one stands for; any other address as it is.
#[must_use]
pub fn unmapped(address: IpAddr) -> IpAddr {
    match address {
        IpAddr::V6(v6) => v6.to_ipv4_mapped().map_or(address, IpAddr::V4),
        IpAddr::V4(_) => address,
    }
}

/// The network of `bits` leading bits that the address is in.
#[must_use]
pub fn network(address: Ipv6Addr, bits: u8) -> Ipv6Addr {
    let rest = 128_u32.saturating_sub(u32::from(bits));
    Ipv6Addr::from_bits(address.to_bits() & u128::MAX.checked_shl(rest).unwrap_or(0))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b07_the_port_is_no_part_of_a_client() {
        for (bytes, address) in [
            ("203.0.113.7:1000", "203.0.113.7"),
            ("203.0.113.7:1001", "203.0.113.7"),
            ("203.0.113.7", "203.0.113.7"),
            ("[2001:db8::1]:443", "2001:db8::1"),
            ("2001:db8::1", "2001:db8::1"),
        ] {
            assert_eq!(parse(bytes.as_bytes()), address.parse().ok(), "{bytes}");
        }
    }

    #[test]
    fn b09_spellings_of_one_address_are_one_address() {
        for bytes in [
            "2001:DB8::1",
            "2001:db8:0:0:0:0:0:1",
            "[2001:db8::1]",
            "2001:db8::1%eth0",
        ] {
            assert_eq!(
                parse(bytes.as_bytes()),
                "2001:db8::1".parse().ok(),
                "{bytes}"
            );
        }
        assert_eq!(parse(b"::ffff:203.0.113.7"), parse(b"203.0.113.7"));
        assert_eq!(parse(b"[::ffff:203.0.113.7]:80"), parse(b"203.0.113.7:80"));
    }

    #[test]
    fn what_is_no_address_is_none() {
        for bytes in [
            &b""[..],
            b"unknown",
            b"_hidden",
            b"/run/sock",
            b"[",
            b"1.2.3",
            b"\xFF",
            b":1",
        ] {
            assert_eq!(parse(bytes), None, "{bytes:?}");
        }
    }

    #[test]
    fn a_network_keeps_its_leading_bits() {
        let address: Ipv6Addr = "2001:db8:1:2:3:4:5:6".parse().unwrap();
        for (bits, expected) in [
            (64, "2001:db8:1:2::"),
            (56, "2001:db8:1::"),
            (128, "2001:db8:1:2:3:4:5:6"),
            (1, "::"),
        ] {
            assert_eq!(
                network(address, bits),
                expected.parse::<Ipv6Addr>().unwrap(),
                "{bits}"
            );
        }
    }
}
