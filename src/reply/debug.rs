//! The debug header: who knows the policy's secret sees the reason in the response.

use std::{fmt, hint::black_box};

/// The request header that carries the secret, and the response header that carries the reason. The
/// host takes it out of the request, so that no upstream sees the secret.
pub const DEBUG_HEADER: &str = "x-aforo-debug";

/// The secret that opens the debug header. Shown nowhere.
#[derive(Clone, PartialEq, Eq)]
pub struct DebugSecret(Vec<u8>);

impl DebugSecret {
    /// Fewest bytes of a secret.
    pub const MIN: usize = 16;
    /// Most bytes of a secret.
    pub const MAX: usize = 256;

    /// A secret of [`Self::MIN`] to [`Self::MAX`] bytes; `None` otherwise.
    #[must_use]
    pub fn new(secret: &str) -> Option<Self> {
        (Self::MIN..=Self::MAX)
            .contains(&secret.len())
            .then(|| Self(secret.as_bytes().to_vec()))
    }

    /// Whether a request's value is the secret. Takes as long for a wrong value as for the right one
    /// of its length, so that nobody finds it byte by byte.
    #[must_use]
    pub fn opens(&self, value: &[u8]) -> bool {
        if value.len() != self.0.len() {
            return false;
        }
        let differences = self
            .0
            .iter()
            .zip(value)
            .fold(0, |all, (a, b)| black_box(all | (a ^ b)));
        black_box(differences) == 0
    }
}

impl fmt::Debug for DebugSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("DebugSecret(***)")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_the_whole_secret_opens() {
        let secret = DebugSecret::new("0123456789abcdef").unwrap();
        assert!(secret.opens(b"0123456789abcdef"));
        for wrong in [
            &b""[..],
            b"0123456789abcde",
            b"0123456789abcdeg",
            b"0123456789abcdef ",
        ] {
            assert!(!secret.opens(wrong));
        }
        assert_eq!(format!("{secret:?}"), "DebugSecret(***)");
        assert_eq!(DebugSecret::new("short"), None);
        assert_eq!(DebugSecret::new(&"x".repeat(257)), None);
    }
}
