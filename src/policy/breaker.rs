//! The `breaker` of the `redis` section: when requests stop waiting for a Redis that does not answer.

use super::{field::Field, findings::Findings};
use crate::outage::breaker::{
    FAILURE_PERCENT, FAILURES, LEAST_REQUESTS, Parts, RETRY, Settings, WINDOW,
};
use std::ops::RangeInclusive;

/// The fields of the section.
pub const FIELDS: &[&str] = &[
    "failures",
    "failure_percent",
    "window",
    "least_requests",
    "retry",
];

/// Reads the section; what is left out has its default.
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Settings {
    let Some(table) = field.and_then(|field| field.table(FIELDS, findings)) else {
        return Settings::default();
    };
    let mut parts = Parts::default();
    let mut count = |name, range: RangeInclusive<u32>, number: &mut u32| {
        let range = u64::from(*range.start())..=u64::from(*range.end());
        let read = table
            .get(name)
            .and_then(|field| field.integer(range, findings));
        *number = read
            .and_then(|value| u32::try_from(value).ok())
            .unwrap_or(*number);
    };
    count("failures", FAILURES, &mut parts.failures);
    count(
        "failure_percent",
        FAILURE_PERCENT,
        &mut parts.failure_percent,
    );
    count("least_requests", LEAST_REQUESTS, &mut parts.least_requests);
    for (name, range, span) in [
        ("window", WINDOW, &mut parts.window),
        ("retry", RETRY, &mut parts.retry),
    ] {
        let read = table
            .get(name)
            .and_then(|field| field.span(range, findings));
        *span = read.unwrap_or(*span);
    }
    // Every number has been read within its range.
    Settings::new(parts).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::{policy::Policy, units::Micros};

    fn load(breaker: &str) -> Result<Parts, String> {
        let json = format!(
            r#"{{"redis": {{"breaker": {breaker}}},
                "limits": [{{"name": "a", "key": [], "algorithm": "gcra", "rate": "1/1s"}}]}}"#
        );
        let policy = Policy::from_json(json.as_bytes()).map_err(|errors| errors.to_string())?;
        Ok(*policy.0.redis.breaker.parts())
    }

    #[test]
    fn what_is_left_out_has_its_default() {
        assert_eq!(load("{}"), Ok(Parts::default()));
        let read = load(r#"{"failures": 3, "retry": "2s"}"#);
        let expected = Parts {
            failures: 3,
            retry: Micros::from_secs(2),
            ..Parts::default()
        };
        assert_eq!(read, Ok(expected));
        let all = r#"{"failures": 1, "failure_percent": 100, "window": "5s",
            "least_requests": 7, "retry": "10ms"}"#;
        let expected = Parts {
            failures: 1,
            failure_percent: 100,
            window: Micros::from_secs(5),
            least_requests: 7,
            retry: Micros::from_millis(10),
        };
        assert_eq!(load(all), Ok(expected));
    }

    #[test]
    fn impossible_numbers_are_refused_with_their_path() {
        for (breaker, path) in [
            (r#"{"failures": 0}"#, "redis.breaker.failures"),
            (
                r#"{"failure_percent": 101}"#,
                "redis.breaker.failure_percent",
            ),
            (r#"{"window": "1h"}"#, "redis.breaker.window"),
            (
                r#"{"least_requests": "many"}"#,
                "redis.breaker.least_requests",
            ),
            (r#"{"retry": 250}"#, "redis.breaker.retry"),
            (r#"{"retries": "1s"}"#, "redis.breaker.retries"),
            ("true", "redis.breaker"),
        ] {
            let refused = load(breaker).unwrap_err();
            assert!(refused.starts_with(&format!("{path}: ")), "{refused}");
        }
    }
}
