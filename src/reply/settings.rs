//! What the policy says of answers: checked parts.

use std::fmt;

use super::{debug::DebugSecret, draft::Draft, template::Template};
use crate::units::Micros;

/// One family of header fields.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Family {
    /// `Retry-After`, on refusals only.
    RetryAfter,
    /// `X-RateLimit-Limit`, `-Remaining`, `-Reset`: one limit.
    XRateLimit,
    /// `RateLimit-Limit`, `-Remaining`, `-Reset` of the sixth draft: one limit.
    RateLimit06,
    /// `RateLimit-Policy` and `RateLimit` of a later draft: every limit, as structured fields.
    RateLimitFields,
}

impl Family {
    /// Every family.
    pub const ALL: [Self; 4] = [
        Self::RetryAfter,
        Self::XRateLimit,
        Self::RateLimit06,
        Self::RateLimitFields,
    ];

    /// The policy's word for it.
    #[must_use]
    pub const fn word(self) -> &'static str {
        match self {
            Self::RetryAfter => "retry-after",
            Self::XRateLimit => "x-ratelimit",
            Self::RateLimit06 => "ratelimit-06",
            Self::RateLimitFields => "ratelimit-fields",
        }
    }
}

/// A set of families.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Families(u8);

impl Families {
    /// Whether this family is sent.
    #[must_use]
    pub const fn has(self, family: Family) -> bool {
        self.0 & Self::bit(family) != 0
    }

    const fn bit(family: Family) -> u8 {
        match family {
            Family::RetryAfter => 1,
            Family::XRateLimit => 2,
            Family::RateLimit06 => 4,
            Family::RateLimitFields => 8,
        }
    }
}

impl FromIterator<Family> for Families {
    fn from_iter<T: IntoIterator<Item = Family>>(families: T) -> Self {
        Self(
            families
                .into_iter()
                .fold(0, |set, family| set | Self::bit(family)),
        )
    }
}

/// How `X-RateLimit-Reset` is written.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ResetForm {
    /// Seconds from now.
    #[default]
    Delta,
    /// Seconds since the Unix epoch, by the proxy's clock. Falls back to [`Self::Delta`] where the
    /// host knows no clock.
    Epoch,
}

/// What becomes of the same fields when the upstream sends its own.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum Theirs {
    /// Ours stand, theirs go; theirs stay only on an upstream's own 429.
    #[default]
    Replace,
    /// Theirs stand and none of ours is added.
    Keep,
    /// Whichever set says that less remains.
    Stricter,
}

/// The body of an answer of ours.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Body {
    /// `application/problem+json`, RFC 9457.
    #[default]
    Problem,
    /// A flat `application/json` object.
    Json,
    /// One line of text.
    Text,
    /// The policy's own words on 429; one line of text otherwise.
    Template(Template),
}

/// What a refused gRPC call gets.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum GrpcStatus {
    /// 8, `RESOURCE_EXHAUSTED`: most clients do not retry it at once.
    #[default]
    ResourceExhausted,
    /// 14, `UNAVAILABLE`, as Envoy's own filter does by default.
    Unavailable,
}

impl GrpcStatus {
    /// The number on the wire.
    #[must_use]
    pub const fn code(self) -> i32 {
        match self {
            Self::ResourceExhausted => 8,
            Self::Unavailable => 14,
        }
    }
}

/// The HTTP statuses of our answers, each `400..=599`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Statuses {
    /// A limit refused.
    pub limited: u32,
    /// Redis did not answer and the policy refuses then.
    pub outage: u32,
    /// A rule refuses: no key where one is needed, or a plan that may not pass.
    pub denied: u32,
}

impl Default for Statuses {
    fn default() -> Self {
        Self {
            limited: 429,
            outage: 503,
            denied: 403,
        }
    }
}

/// The settings before they are checked.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Parts {
    /// Which header families are sent.
    pub headers: Families,
    /// The draft that [`Family::RateLimitFields`] follows, [`Draft::NUMBERS`].
    pub draft: u8,
    /// Whether [`Family::RateLimitFields`] names the client, as its keys' tag in Redis does: by what the
    /// client sent itself, and by a hash where that is secret.
    pub partition_key: bool,
    /// How `X-RateLimit-Reset` is written.
    pub reset: ResetForm,
    /// What becomes of an upstream's own fields.
    pub theirs: Theirs,
    /// The body of a refusal.
    pub body: Body,
    /// Percent of a wait that may be added to it at random, so that clients do not come back
    /// together; `0..=100`.
    pub jitter_percent: u8,
    /// The longest `Retry-After`, whole seconds up to a year; `None`: as long as the wait is.
    pub max_retry_after: Option<Micros>,
    /// The `Retry-After` of an outage, whole seconds, `1s..=1h`.
    pub outage_retry_after: Micros,
    /// What a refused gRPC call gets.
    pub grpc: GrpcStatus,
    /// The HTTP statuses.
    pub statuses: Statuses,
    /// Whether clients see the limits in shadow mode too.
    pub show_shadow: bool,
    /// Whether refusals carry `x-envoy-ratelimited`, which stops other Envoys from retrying them.
    pub stop_envoy_retries: bool,
    /// Who sends this in [`super::DEBUG_HEADER`] gets the reason in the same header.
    pub debug: Option<DebugSecret>,
}

impl Default for Parts {
    fn default() -> Self {
        Self {
            headers: [
                Family::RetryAfter,
                Family::XRateLimit,
                Family::RateLimitFields,
            ]
            .into_iter()
            .collect(),
            draft: Draft::DEFAULT,
            partition_key: false,
            reset: ResetForm::default(),
            theirs: Theirs::default(),
            body: Body::default(),
            jitter_percent: 0,
            max_retry_after: None,
            outage_retry_after: Micros::from_secs(1),
            grpc: GrpcStatus::default(),
            statuses: Statuses::default(),
            show_shadow: false,
            stop_envoy_retries: true,
            debug: None,
        }
    }
}

/// A part that was refused. The policy turns it into an error with the section's path.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct BadSetting {
    /// The field within `reply`: `draft`, `retry_after.jitter`, `status.limited` and the like.
    pub field: &'static str,
    /// What was found.
    pub found: String,
    /// What is accepted.
    pub accepted: String,
}

impl fmt::Display for BadSetting {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(
            f,
            "{} is {}, must be {}",
            self.field, self.found, self.accepted
        )
    }
}

/// How answers are written. Checked: nothing in it can be wrong later.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Settings {
    parts: Parts,
    draft: &'static Draft,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            parts: Parts::default(),
            draft: Draft::newest(),
        }
    }
}

impl Settings {
    /// Checks the parts.
    ///
    /// # Errors
    /// The first part that is out of range.
    pub fn new(parts: Parts) -> Result<Self, BadSetting> {
        let draft = Draft::of(parts.draft).ok_or_else(|| {
            let known: Vec<String> = Draft::NUMBERS.iter().map(u8::to_string).collect();
            bad(
                "draft",
                &parts.draft,
                &format!("one of {}", known.join(", ")),
            )
        })?;
        within(
            "retry_after.jitter",
            u64::from(parts.jitter_percent),
            0,
            100,
            "%",
        )?;
        if let Some(max) = parts.max_retry_after {
            whole_seconds("retry_after.max", max, YEAR)?;
        }
        whole_seconds("retry_after.outage", parts.outage_retry_after, HOUR)?;
        let Statuses {
            limited,
            outage,
            denied,
        } = parts.statuses;
        for (field, status) in [
            ("status.limited", limited),
            ("status.outage", outage),
            ("status.denied", denied),
        ] {
            within(field, u64::from(status), 400, 599, "")?;
        }
        if let Body::Template(template) = &parts.body {
            template.check()?;
        }
        Ok(Self { parts, draft })
    }

    /// The parts, as they were checked.
    #[must_use]
    pub const fn parts(&self) -> &Parts {
        &self.parts
    }

    /// With another secret for the debug header.
    #[must_use]
    pub fn with_debug(mut self, debug: Option<DebugSecret>) -> Self {
        self.parts.debug = debug;
        self
    }

    /// The letters of the chosen draft.
    #[must_use]
    pub const fn draft(&self) -> &'static Draft {
        self.draft
    }
}

fn whole_seconds(field: &'static str, span: Micros, max: Micros) -> Result<(), BadSetting> {
    if span == Micros::ZERO || span > max || !span.0.is_multiple_of(1_000_000) {
        return Err(bad(field, &span, &format!("whole seconds, 1s..={max}")));
    }
    Ok(())
}

pub(super) fn within(
    field: &'static str,
    n: u64,
    low: u64,
    high: u64,
    unit: &str,
) -> Result<(), BadSetting> {
    if (low..=high).contains(&n) {
        return Ok(());
    }
    Err(bad(
        field,
        &format!("{n}{unit}"),
        &format!("{low}..={high}{unit}"),
    ))
}

pub(super) fn bad(field: &'static str, found: &dyn fmt::Display, accepted: &str) -> BadSetting {
    BadSetting {
        field,
        found: found.to_string(),
        accepted: accepted.to_owned(),
    }
}

const HOUR: Micros = Micros::from_secs(3_600);
const YEAR: Micros = Micros::from_secs(31_536_000);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_defaults_are_what_a_check_of_them_gives() {
        assert_eq!(Settings::new(Parts::default()), Ok(Settings::default()));
    }

    #[test]
    fn each_impossible_part_is_refused_by_its_name() {
        let template = |text: &str, content_type: &str| {
            Body::Template(Template {
                text: text.into(),
                content_type: content_type.into(),
            })
        };
        let parts = Parts::default;
        for (bad, message) in [
            (
                Parts {
                    draft: 3,
                    ..parts()
                },
                "draft is 3, must be one of 10, 11",
            ),
            (
                Parts {
                    jitter_percent: 101,
                    ..parts()
                },
                "retry_after.jitter is 101%, must be 0..=100%",
            ),
            (
                Parts {
                    max_retry_after: Some(Micros::from_millis(1_500)),
                    ..parts()
                },
                "retry_after.max is 1500ms, must be whole seconds, 1s..=365d",
            ),
            (
                Parts {
                    outage_retry_after: Micros::ZERO,
                    ..parts()
                },
                "retry_after.outage is 0us, must be whole seconds, 1s..=1h",
            ),
            (
                Parts {
                    statuses: Statuses {
                        denied: 200,
                        ..Statuses::default()
                    },
                    ..parts()
                },
                "status.denied is 200, must be 400..=599",
            ),
            (
                Parts {
                    body: template("wait {seconds} s", "text/plain"),
                    ..parts()
                },
                "body.template is {seconds}, must be {name}, {limit}, {remaining}, {retry_after}",
            ),
            (
                Parts {
                    body: template("", "text/plain\r\nx: y"),
                    ..parts()
                },
                "body.content_type is \"text/plain\\r\\nx: y\", must be a media type such as \
                 text/html; charset=utf-8",
            ),
        ] {
            assert_eq!(Settings::new(bad).unwrap_err().to_string(), message);
        }
        let json = template(r#"{"a":{"b":{retry_after}}}"#, "application/json");
        assert!(
            Settings::new(Parts {
                body: json,
                ..parts()
            })
            .is_ok()
        );
    }
}
