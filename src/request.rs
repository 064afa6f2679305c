//! What a rule may know of a request. No host types: the host implements [`Facts`].
//!
//! The host gives raw bytes; everything that is read out of them (an address without its port, the
//! normal form of a path, one cookie of many) is read here, once a request, and only when a rule asks.

pub mod address;
pub mod pairs;
pub mod path;

use std::{
    cell::{OnceCell, RefCell},
    net::IpAddr,
    rc::Rc,
};

use path::NormalPath;

/// The facts of one request, asked for only when a rule needs them.
pub trait Facts {
    /// The value of a request header, by its lower-case name, as raw bytes that need not be UTF-8.
    /// `:method`, `:path` and `:authority` are headers too. Several lines of one header come joined
    /// by `,`. `None` when absent; `Some` of nothing when present and empty.
    fn header(&self, name: &str) -> Option<Vec<u8>>;

    /// An Envoy attribute by its path, such as `["source", "address"]`, in the host's raw encoding
    /// (text as is, integers as 8 bytes little-endian, booleans as 1 byte).
    fn property(&self, path: &[&str]) -> Option<Vec<u8>>;
}

/// Bytes of a request, shared by those who ask for them.
pub type Bytes = Rc<Vec<u8>>;

/// One request: every fact is asked of the host at most once.
pub struct Request<'a> {
    facts: &'a dyn Facts,
    any_case: bool,
    address: OnceCell<Option<IpAddr>>,
    path: OnceCell<Option<NormalPath>>,
    method: OnceCell<Option<Bytes>>,
    host: OnceCell<Option<Bytes>>,
    raw_path: OnceCell<Option<Bytes>>,
    headers: RefCell<Vec<(&'a str, Option<Bytes>)>>,
    properties: RefCell<Vec<(&'a [String], Option<Bytes>)>>,
}

impl<'a> Request<'a> {
    /// A request of which nothing is known yet. `any_case`: paths of different letter case are one.
    #[must_use]
    pub fn new(facts: &'a dyn Facts, any_case: bool) -> Self {
        Self {
            facts,
            any_case,
            address: OnceCell::new(),
            path: OnceCell::new(),
            method: OnceCell::new(),
            host: OnceCell::new(),
            raw_path: OnceCell::new(),
            headers: RefCell::default(),
            properties: RefCell::default(),
        }
    }

    /// The client address that Envoy trusts, without port and zone, v4-mapped as v4. `None` when
    /// Envoy knows none, as for a Unix socket.
    pub fn address(&self) -> Option<IpAddr> {
        *self
            .address
            .get_or_init(|| address::parse(&self.facts.property(&["source", "address"])?))
    }

    /// The normal form of the path. `None` when the request has none, as `CONNECT`.
    pub fn path(&self) -> Option<&NormalPath> {
        let read = || {
            let mut path = path::normalise(self.raw_path()?);
            if self.any_case {
                path.text.make_ascii_lowercase();
            }
            Some(path)
        };
        self.path.get_or_init(read).as_ref()
    }

    /// The path as it came, with its query.
    pub fn raw_path(&self) -> Option<&Bytes> {
        self.raw_path
            .get_or_init(|| self.facts.header(":path").map(Rc::new))
            .as_ref()
    }

    /// The method as it came.
    pub fn method(&self) -> Option<&Bytes> {
        self.method
            .get_or_init(|| self.facts.header(":method").map(Rc::new))
            .as_ref()
    }

    /// The host, lower-case, without port and final dot.
    pub fn host(&self) -> Option<&Bytes> {
        let read = || Some(Rc::new(normal_host(&self.facts.header(":authority")?)));
        self.host.get_or_init(read).as_ref()
    }

    /// A header's value without the spaces around it.
    pub fn header(&self, name: &'a str) -> Option<Bytes> {
        let known = self
            .headers
            .borrow()
            .iter()
            .find(|(n, _)| *n == name)
            .map(|(_, v)| v.clone());
        known.unwrap_or_else(|| {
            let value = self.facts.header(name).map(|mut value| {
                trim(&mut value);
                Rc::new(value)
            });
            self.headers.borrow_mut().push((name, value.clone()));
            value
        })
    }

    /// The first cookie of that name, without quotes.
    pub fn cookie(&self, name: &str) -> Option<Vec<u8>> {
        pairs::cookie(&self.header("cookie")?, name)
    }

    /// The first query parameter of that name, decoded.
    pub fn query(&self, name: &str) -> Option<Vec<u8>> {
        pairs::query(self.raw_path()?, name)
    }

    /// An attribute that this crate names itself, asked each time.
    pub fn attribute(&self, path: &[&str]) -> Option<Bytes> {
        self.facts.property(path).map(Rc::new)
    }

    /// An Envoy attribute, in the host's encoding.
    pub fn property(&self, path: &'a [String]) -> Option<Bytes> {
        let known = self
            .properties
            .borrow()
            .iter()
            .find(|(p, _)| *p == path)
            .map(|(_, v)| v.clone());
        known.unwrap_or_else(|| {
            let steps: Vec<&str> = path.iter().map(String::as_str).collect();
            let value = self.facts.property(&steps).map(Rc::new);
            self.properties.borrow_mut().push((path, value.clone()));
            value
        })
    }
}

/// Drops spaces and tabs at both ends.
fn trim(value: &mut Vec<u8>) {
    let blank = |b: &u8| matches!(b, b' ' | b'\t');
    let end = value
        .iter()
        .rposition(|b| !blank(b))
        .map_or(0, |last| last.saturating_add(1));
    value.truncate(end);
    let start = value.iter().position(|b| !blank(b)).unwrap_or(0);
    value.drain(..start);
}

/// Lower-case, without port, without the dot that may end a full name.
fn normal_host(authority: &[u8]) -> Vec<u8> {
    let digits = authority
        .iter()
        .rev()
        .take_while(|b| b.is_ascii_digit())
        .count();
    let (front, _) = authority.split_at(authority.len().saturating_sub(digits));
    let host = match front {
        // The last colon of `[::1]` stands before its bracket, so only a port is cut.
        [host @ .., b':'] if !host.contains(&b':') || host.ends_with(b"]") => host,
        _ => authority,
    };
    host.strip_suffix(b".").unwrap_or(host).to_ascii_lowercase()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_host_has_one_spelling() {
        for (authority, host) in [
            ("Example.COM", "example.com"),
            ("example.com.:8443", "example.com"),
            ("example.com:", "example.com"),
            ("[2001:DB8::1]:80", "[2001:db8::1]"),
            ("[2001:db8::1]", "[2001:db8::1]"),
            ("2001:db8::1", "2001:db8::1"),
            ("203.0.113.7:80", "203.0.113.7"),
            ("203.0.113.7", "203.0.113.7"),
            ("", ""),
        ] {
            assert_eq!(
                normal_host(authority.as_bytes()),
                host.as_bytes(),
                "{authority}"
            );
        }
    }
}
