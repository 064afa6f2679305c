//! What an operator says to the whole mesh through Redis: the switch, and which policy to follow.
//!
//! One key, `PREFIX[:DOMAIN]:control`, holds a few words, such as `policy=17` or `policy=17 shadow`. A
//! policy is text under `PREFIX[:DOMAIN]:policy:{PREFIX[:DOMAIN]:control}:17`, checked before it was put
//! there and again before it is taken; the tag lets one script see it and the control key in a Redis
//! Cluster too. Nothing here is secret, and nothing here is trusted to be well formed.

/// Most bytes of a pushed policy.
pub const MAX_POLICY_BYTES: u64 = 1024 * 1024;
/// Bytes that are fetched at a time: one reply holds them.
pub const SLICE: u64 = 48 * 1024;

/// What the control key says.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Control {
    /// Every limit is in shadow mode.
    pub shadow: bool,
    /// The policy to follow, by its number, from 1.
    pub policy: Option<u64>,
}

impl Control {
    /// Reads it. Words that are not known are passed over, so that an older filter understands what a
    /// newer command wrote.
    #[must_use]
    pub fn read(text: &[u8]) -> Self {
        let mut control = Self::default();
        for word in text.split(u8::is_ascii_whitespace) {
            if word == b"shadow" {
                control.shadow = true;
            } else if let Some(number) = word.strip_prefix(b"policy=") {
                let number = str::from_utf8(number)
                    .ok()
                    .and_then(|text| text.parse().ok());
                control.policy = number.filter(|number| *number > 0);
            }
        }
        control
    }

    /// Writes it.
    #[must_use]
    pub fn text(self) -> String {
        let policy = self.policy.map(|number| format!("policy={number}"));
        let shadow = self.shadow.then(|| "shadow".to_owned());
        let words: Vec<String> = policy.into_iter().chain(shadow).collect();
        words.join(" ")
    }
}

/// The control key of policies whose keys begin with `head`.
#[must_use]
pub fn key(head: &str) -> String {
    format!("{head}control")
}

/// The key of the policy with this number.
#[must_use]
pub fn policy_key(head: &str, number: u64) -> String {
    format!("{}{number}", policy_head(head))
}

/// What the key of every pushed policy begins with.
#[must_use]
pub fn policy_head(head: &str) -> String {
    format!("{head}policy:{{{}}}:", key(head))
}

/// The key of the list of pushed policies.
#[must_use]
pub fn list_key(head: &str) -> String {
    format!("{head}policies:{{{}}}", key(head))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_written_is_read_and_what_is_not_known_is_passed_over() {
        for (text, shadow, policy) in [
            ("", false, None),
            ("shadow", true, None),
            ("policy=17", false, Some(17)),
            ("policy=17 shadow", true, Some(17)),
        ] {
            let control = Control { shadow, policy };
            assert_eq!(
                (Control::read(text.as_bytes()), control.text()),
                (control, text.to_owned())
            );
        }
        for (text, shadow, policy) in [
            ("later=1  shadow\n", true, None),
            ("policy=0", false, None),
            ("policy=-1 policy=x", false, None),
            ("policy=99999999999999999999999", false, None),
            ("shadowy", false, None),
            ("policy=\u{ff}", false, None),
        ] {
            assert_eq!(
                Control::read(text.as_bytes()),
                Control { shadow, policy },
                "{text}"
            );
        }
    }
}
