//! Names of Kubernetes and Istio, as they are written on the command line.

use std::{fmt, str::FromStr};

/// A name of a resource or a namespace: lower-case letters, digits, `-`, at most 63.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Name(String);

impl Name {
    /// The text.
    pub fn as_str(&self) -> &str {
        &self.0
    }
}

impl fmt::Display for Name {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Name {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let inside = |b: u8| b.is_ascii_lowercase() || b.is_ascii_digit() || b == b'-';
        let edge = |b: Option<u8>| b.is_some_and(|b| b != b'-');
        let good = text.len() <= 63
            && text.bytes().all(inside)
            && edge(text.bytes().next())
            && edge(text.bytes().last());
        good.then(|| Self(text.to_owned()))
            .ok_or_else(|| "accepted are lower-case letters, digits and inner dashes".to_owned())
    }
}

/// A label of a workload: `app=shop`, `istio=ingressgateway`.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Label {
    /// Its key, with or without a prefix.
    pub key: String,
    /// Its value.
    pub value: String,
}

impl FromStr for Label {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || "accepted is KEY=VALUE such as app=shop".to_owned();
        let (key, value) = text.split_once('=').ok_or_else(wrong)?;
        let plain = |text: &str| {
            text.chars()
                .all(|c| c.is_ascii_alphanumeric() || "-_./".contains(c))
        };
        if key.is_empty() || !plain(key) || !plain(value) || value.len() > 63 {
            return Err(wrong());
        }
        Ok(Self {
            key: key.to_owned(),
            value: value.to_owned(),
        })
    }
}

/// Where the module is fetched from.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Module(String);

impl Module {
    /// As it was written.
    pub fn as_str(&self) -> &str {
        &self.0
    }

    /// With the scheme that Istio adds when there is none.
    pub fn fetched(&self) -> String {
        if self.0.contains("://") {
            self.0.clone()
        } else {
            format!("oci://{}", self.0)
        }
    }

    /// Whether it is a file in the proxy's container.
    pub fn is_file(&self) -> bool {
        self.0.starts_with("file://")
    }

    /// Whether the name says which module it is: an image with a digest, or with a tag other than `latest`.
    pub fn is_fixed(&self) -> bool {
        if self.0.starts_with("http") {
            return true;
        }
        let last = self.0.rsplit('/').next().unwrap_or_default();
        last.contains("@sha256:") || last.split_once(':').is_some_and(|(_, tag)| tag != "latest")
    }
}

impl fmt::Display for Module {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

impl FromStr for Module {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let scheme = text.split_once("://").map_or("oci", |(scheme, _)| scheme);
        let known = ["oci", "https", "http", "file"].contains(&scheme);
        let plain = text
            .bytes()
            .all(|b| b.is_ascii_graphic() && b != b'"' && b != b'\\');
        (known && plain && !text.is_empty())
            .then(|| Self(text.to_owned()))
            .ok_or_else(|| "accepted are oci://, https://, http:// and file://".to_owned())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_those_that_kubernetes_takes() {
        for name in ["aforo", "a-1", "0"] {
            assert!(name.parse::<Name>().is_ok(), "{name}");
        }
        let long = "a".repeat(64);
        for name in ["", "-a", "a-", "A", "a.b", "a b", "a\n", &long] {
            assert!(name.parse::<Name>().is_err(), "{name:?}");
        }
        for label in ["app", "=x", "a=b c", "a=\"", "a: b=c"] {
            assert!(label.parse::<Label>().is_err(), "{label}");
        }
    }

    #[test]
    fn a_module_is_fixed_by_a_tag_or_a_digest() {
        for (text, fixed) in [
            ("oci://registry:5000/aforo:0.1.0", true),
            ("registry.example/aforo@sha256:00", true),
            ("oci://registry:5000/aforo", false),
            ("oci://registry/aforo:latest", false),
            ("https://files.example/aforo.wasm", true),
        ] {
            assert_eq!(text.parse::<Module>().unwrap().is_fixed(), fixed, "{text}");
        }
        assert!("ftp://x".parse::<Module>().is_err());
    }
}
