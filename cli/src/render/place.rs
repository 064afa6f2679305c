//! Places in a network, as they are written on the command line.

use std::{net::IpAddr, str::FromStr};

/// A host and a port: `redis.example:6379`, `10.0.0.1:6379`, `[::1]:6379`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Place {
    /// A name or an address, without brackets.
    pub host: String,
    /// Not 0.
    pub port: u16,
}

impl Place {
    /// The address, when the host is one.
    #[must_use]
    pub fn ip(&self) -> Option<IpAddr> {
        self.host.parse().ok()
    }

    /// As it goes into a host header.
    #[must_use]
    pub fn authority(&self) -> String {
        match self.ip() {
            Some(IpAddr::V6(_)) => format!("[{}]:{}", self.host, self.port),
            _ => format!("{}:{}", self.host, self.port),
        }
    }
}

impl FromStr for Place {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        const ACCEPTED: &str = "a host and a port such as redis.example:6379 or [::1]:6379";
        let wrong = || format!("accepted is {ACCEPTED}");
        let (host, port) = text.rsplit_once(':').ok_or_else(wrong)?;
        let port: u16 = port.parse().map_err(|_| wrong())?;
        let bare = host
            .strip_prefix('[')
            .and_then(|host| host.strip_suffix(']'));
        let host = match bare {
            Some(host) if host.parse::<std::net::Ipv6Addr>().is_ok() => host,
            None if is_name(host) => host,
            _ => return Err(wrong()),
        };
        if port == 0 {
            return Err(wrong());
        }
        Ok(Self {
            host: host.to_owned(),
            port,
        })
    }
}

/// An HTTP gateway: a place, behind TLS when it begins with `https://`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Gateway {
    /// Where it is.
    pub place: Place,
    /// Whether it speaks TLS.
    pub tls: bool,
}

impl FromStr for Gateway {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (tls, rest) = match text.strip_prefix("https://") {
            Some(rest) => (true, rest),
            None => (false, text.strip_prefix("http://").unwrap_or(text)),
        };
        let rest = rest.strip_suffix('/').unwrap_or(rest);
        let named = rest.rsplit_once(':').is_some();
        let with_port = match (named, tls) {
            (true, _) => rest.to_owned(),
            (false, true) => format!("{rest}:443"),
            (false, false) => format!("{rest}:80"),
        };
        Ok(Self {
            place: with_port.parse()?,
            tls,
        })
    }
}

/// A name in the DNS, or an IPv4 address.
fn is_name(host: &str) -> bool {
    !host.is_empty()
        && host.len() <= 253
        && host.split('.').all(|label| {
            !label.is_empty()
                && label
                    .chars()
                    .all(|c| c.is_ascii_alphanumeric() || c == '-' || c == '_')
        })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_place_is_a_host_and_a_port() {
        for (text, host, port) in [
            ("redis:6379", "redis", 6379),
            ("10.0.0.1:1", "10.0.0.1", 1),
            ("[::1]:6379", "::1", 6379),
            ("a-b.c_d.example:65535", "a-b.c_d.example", 65535),
        ] {
            let place: Place = text.parse().expect(text);
            assert_eq!((place.host.as_str(), place.port), (host, port));
            assert_eq!(place.authority(), text);
        }
        for text in [
            "",
            "redis",
            ":6379",
            "redis:",
            "redis:0",
            "redis:65536",
            "::1:6379",
            "[x]:1",
            "a b:1",
            "a\nb:1",
            "a..b:1",
            "http://a:1",
            "\"a\":1",
        ] {
            assert!(text.parse::<Place>().is_err(), "{text:?}");
        }
    }

    #[test]
    fn a_gateway_may_have_a_scheme_and_then_needs_no_port() {
        for (text, authority, tls) in [
            ("webdis:7379", "webdis:7379", false),
            ("http://webdis", "webdis:80", false),
            ("https://eu1-x.upstash.io", "eu1-x.upstash.io:443", true),
            ("https://x.example:8443/", "x.example:8443", true),
        ] {
            let gateway: Gateway = text.parse().expect(text);
            assert_eq!(
                (gateway.place.authority().as_str(), gateway.tls),
                (authority, tls)
            );
        }
    }
}
