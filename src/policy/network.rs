//! Networks of clients: `10.0.0.0/8`, `2001:db8::/32`, or one address.

use std::{fmt, net::IpAddr};

use super::{
    field::Field,
    findings::{Findings, Path},
    node::Node,
    rate,
};
use crate::request::address::{network, unmapped};

/// Addresses that share their leading bits.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Network {
    first: IpAddr,
    bits: u8,
}

impl Network {
    /// Reads `ADDRESS/BITS`, or an address alone. `None` when it is neither.
    #[must_use]
    pub fn parse(text: &str) -> Option<Self> {
        let (address, bits) = match text.split_once('/') {
            Some((address, bits)) => (address, Some(u8::try_from(rate::integer(bits)?).ok()?)),
            None => (text, None),
        };
        let written: IpAddr = address.parse().ok()?;
        let address = unmapped(written);
        let most = if written.is_ipv4() { 32 } else { 128 };
        let bits = bits.unwrap_or(most);
        if bits > most {
            return None;
        }
        // `::ffff:10.0.0.0/104` is 10.0.0.0/8.
        let bits = if written.is_ipv6() && address.is_ipv4() {
            bits.checked_sub(96)?
        } else {
            bits
        };
        Some(Self {
            first: first_of(address, bits),
            bits,
        })
    }

    /// Whether the address lies in it.
    #[must_use]
    pub fn contains(&self, address: IpAddr) -> bool {
        self.first.is_ipv4() == address.is_ipv4() && first_of(address, self.bits) == self.first
    }

    /// Whether all of `other` lies in it.
    #[must_use]
    pub fn covers(&self, other: &Self) -> bool {
        self.bits <= other.bits && self.contains(other.first)
    }
}

impl fmt::Display for Network {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}/{}", self.first, self.bits)
    }
}

fn first_of(address: IpAddr, bits: u8) -> IpAddr {
    match address {
        IpAddr::V6(v6) => IpAddr::V6(network(v6, bits)),
        IpAddr::V4(v4) => {
            let rest = 32_u32.saturating_sub(u32::from(bits));
            let mask = u32::MAX.checked_shl(rest).unwrap_or(0);
            IpAddr::V4(std::net::Ipv4Addr::from_bits(v4.to_bits() & mask))
        }
    }
}

/// Reads one or more networks.
pub fn read(field: &Field<'_>, findings: &mut Findings) -> Option<Vec<Network>> {
    let fields = field.some(findings)?;
    let read: Vec<_> = fields
        .iter()
        .map(|field| read_one(field, findings))
        .collect();
    read.into_iter().collect()
}

fn read_one(field: &Field<'_>, findings: &mut Findings) -> Option<Network> {
    let Node::Text(text) = field.node else {
        return field.refuse("a network such as 10.0.0.0/8, or an address", findings);
    };
    let Some(network) = Network::parse(text) else {
        return field.refuse(
            "a network such as 10.0.0.0/8 or 2001:db8::/32, or an address",
            findings,
        );
    };
    warn_of_host_bits(text, network, &field.path, findings);
    Some(network)
}

/// `10.1.2.3/8` means all of 10.0.0.0/8, which is seldom what was meant.
fn warn_of_host_bits(text: &str, network: Network, path: &Path, findings: &mut Findings) {
    let written = text
        .split('/')
        .next()
        .and_then(|address| address.parse().ok());
    if written.map(unmapped) != Some(network.first) {
        findings.warning(
            path,
            format!("{text} has bits beyond its prefix; it is read as {network}"),
        );
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_network_holds_the_addresses_that_share_its_bits() {
        for (network, address, inside) in [
            ("10.0.0.0/8", "10.255.0.1", true),
            ("10.0.0.0/8", "11.0.0.1", false),
            ("10.0.0.0/8", "::ffff:10.0.0.1", true),
            ("::ffff:10.0.0.0/104", "10.1.1.1", true),
            ("0.0.0.0/0", "203.0.113.7", true),
            ("0.0.0.0/0", "2001:db8::1", false),
            ("::/0", "2001:db8::1", true),
            ("::/0", "203.0.113.7", false),
            ("203.0.113.7", "203.0.113.7", true),
            ("203.0.113.7", "203.0.113.8", false),
            ("2001:db8::/32", "2001:db8:ffff::1", true),
        ] {
            let address = unmapped(address.parse().unwrap());
            assert_eq!(
                Network::parse(network).unwrap().contains(address),
                inside,
                "{network} {address}"
            );
        }
        for text in [
            "",
            "10.0.0.0/33",
            "10.0.0/8",
            "::/129",
            "10.0.0.0/",
            "10.0.0.0/-1",
            "a",
            "::ffff:1.2.3.4/90",
        ] {
            assert_eq!(Network::parse(text), None, "{text}");
        }
    }
}
