//! The letters of the IETF's RateLimit fields, a row a draft.
//!
//! A later draft that only renames something is a new row here and nothing else.

/// How one draft of `draft-ietf-httpapi-ratelimit-headers` spells its parameters.
#[derive(Debug, PartialEq, Eq)]
pub struct Draft {
    /// The draft's number.
    pub number: u8,
    /// In `RateLimit-Policy`: the quota.
    pub quota: &'static str,
    /// In `RateLimit-Policy`: the window, whole seconds, never zero.
    pub window: &'static str,
    /// In `RateLimit-Policy`: the unit of the quota, a string.
    pub unit: &'static str,
    /// In both fields: the partition key, a byte sequence.
    pub partition: &'static str,
    /// In `RateLimit`: what is left.
    pub remaining: &'static str,
    /// In `RateLimit`: whole seconds in which no more than what is left can be used.
    pub reset: &'static str,
    /// The unit's word for requests in flight. Requests are the default unit and not named.
    pub concurrent: &'static str,
}

impl Draft {
    /// The drafts one may choose.
    pub const NUMBERS: [u8; 2] = [10, 11];
    /// The draft followed where the policy names none.
    pub const DEFAULT: u8 = 10;

    /// The draft of this number.
    #[must_use]
    pub fn of(number: u8) -> Option<&'static Self> {
        DRAFTS.iter().find(|draft| draft.number == number)
    }

    /// The letters followed where the policy names no draft.
    #[must_use]
    pub const fn newest() -> &'static Self {
        &TENTH
    }
}

const TENTH: Draft = Draft {
    number: 10,
    quota: "q",
    window: "w",
    unit: "qu",
    partition: "pk",
    remaining: "r",
    reset: "t",
    concurrent: "concurrent-requests",
};

/// The eleventh changed words, not letters.
static DRAFTS: [Draft; 2] = [
    TENTH,
    Draft {
        number: 11,
        ..TENTH
    },
];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_number_has_its_row() {
        for number in Draft::NUMBERS {
            assert_eq!(Draft::of(number).map(|draft| draft.number), Some(number));
        }
        assert_eq!(Draft::NUMBERS.len(), DRAFTS.len());
        assert_eq!(Draft::of(Draft::DEFAULT), Some(Draft::newest()));
    }
}
