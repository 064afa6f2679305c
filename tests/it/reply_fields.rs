//! The header families, read back with a strict structured-field parser.

use aforo::{
    algorithm::Kind,
    reply::{Family, Parts, ResetForm, Settings, state_headers},
    units::{Micros, Moment},
    verdict::{Reading, Wait},
};
use proptest::prelude::*;
use sfv::{BareItem, List, ListEntry, Parser};

use crate::reply::{Row, name, settings, value, verdict};

fn fields(parts: Parts, rows: &[Row]) -> Vec<(&'static str, String)> {
    state_headers(&settings(parts), &name, &verdict(rows), None)
}

fn only(family: Family) -> Parts {
    Parts {
        headers: [family].into_iter().collect(),
        ..Parts::default()
    }
}

/// Name and parameters of each item of a list, `text` for strings and digits for integers.
fn items(field: &str) -> Vec<(String, Vec<(String, String)>)> {
    let list = Parser::new(field)
        .parse::<List>()
        .unwrap_or_else(|e| panic!("{field}: {e}"));
    let bare = |item: &BareItem| match item {
        BareItem::String(text) => text.as_str().to_owned(),
        BareItem::Integer(number) => number.to_string(),
        other => panic!("{field}: neither string nor integer: {other:?}"),
    };
    list.iter()
        .map(|entry| match entry {
            ListEntry::Item(item) => {
                assert!(matches!(item.bare_item, BareItem::String(_)), "{field}");
                let parameters = item.params.iter();
                let parameters = parameters.map(|(name, value)| (name.to_string(), bare(value)));
                (bare(&item.bare_item), parameters.collect())
            }
            ListEntry::InnerList(_) => panic!("{field}: an inner list"),
        })
        .collect()
}

#[test]
fn every_limit_is_in_the_structured_fields_and_the_least_room_in_the_others() {
    let daily = Row {
        quota: 1000,
        window: Micros::from_secs(86_400),
        ..Row::admitted(40, Micros::from_secs(7_000))
    };
    let rows = [Row::admitted(12, Micros(6_200_000)), daily];
    let parts = Parts {
        headers: Family::ALL.into_iter().collect(),
        ..Parts::default()
    };
    assert_eq!(
        fields(parts, &rows),
        [
            ("x-ratelimit-limit", "100"),
            ("x-ratelimit-remaining", "12"),
            ("x-ratelimit-reset", "7"),
            ("ratelimit-limit", "100"),
            ("ratelimit-remaining", "12"),
            ("ratelimit-reset", "7"),
            (
                "ratelimit-policy",
                r#""per-key";q=100;w=60, "daily";q=1000;w=86400"#
            ),
            ("ratelimit", r#""per-key";r=12;t=7, "daily";r=40;t=7000"#),
        ]
        .map(|(name, value)| (name, value.to_owned()))
    );
}

#[test]
fn room_is_counted_in_requests_like_this_one() {
    let dear = Row {
        cost: 10,
        ..Row::admitted(50, Micros::from_secs(30))
    };
    let cheap = Row::admitted(6, Micros::from_secs(1));
    let shown = fields(only(Family::XRateLimit), &[cheap, dear]);
    assert_eq!(
        value(&shown, "x-ratelimit-remaining"),
        Some("50"),
        "five more, not six"
    );
}

#[test]
fn beside_a_refusal_the_limits_that_admit_have_no_time_after_the_retry() {
    let rows = [
        Row::refused(Micros::from_secs(3)),
        Row::admitted(500, Micros::from_secs(80_000)),
        Row::never(200),
    ];
    let shown = fields(only(Family::RateLimitFields), &rows);
    let expected = r#""per-key";r=0;t=3, "daily";r=100, "everyone";r=100"#;
    assert_eq!(value(&shown, "ratelimit"), Some(expected));
}

#[test]
fn requests_in_flight_have_a_unit_and_no_window() {
    let row = Row {
        kind: Kind::Concurrency,
        quota: 5,
        ..Row::admitted(4, Micros::ZERO)
    };
    let shown = fields(only(Family::RateLimitFields), &[row]);
    let policy = r#""per-key";q=5;qu="concurrent-requests""#;
    assert_eq!(value(&shown, "ratelimit-policy"), Some(policy));
    assert_eq!(
        items(policy)[0].1[1],
        ("qu".into(), "concurrent-requests".into())
    );
}

#[test]
fn a_partition_key_is_the_tag_of_the_clients_keys_and_only_there_when_asked_for() {
    let rows = [Row::admitted(4, Micros::from_secs(9))];
    let parts = Parts {
        partition_key: true,
        ..only(Family::RateLimitFields)
    };
    let shown = fields(parts, &rows);
    let policy = value(&shown, "ratelimit-policy").unwrap();
    assert_eq!(policy, r#""per-key";q=100;w=60;pk=:dA==:"#);
    assert_eq!(
        value(&shown, "ratelimit"),
        Some(r#""per-key";r=4;t=9;pk=:dA==:"#)
    );
    let list = Parser::new(policy).parse::<List>().unwrap();
    let ListEntry::Item(item) = &list[0] else {
        panic!("an inner list: {policy}")
    };
    assert_eq!(item.params["pk"], BareItem::ByteSequence(b"t".to_vec()));
}

#[test]
fn a_window_below_a_second_is_told_as_one() {
    let row = Row {
        window: Micros::from_millis(500),
        ..Row::admitted(4, Micros::from_millis(20))
    };
    let shown = fields(only(Family::RateLimitFields), &[row]);
    assert_eq!(
        value(&shown, "ratelimit-policy"),
        Some(r#""per-key";q=100;w=1"#)
    );
    assert_eq!(value(&shown, "ratelimit"), Some(r#""per-key";r=4;t=1"#));
}

#[test]
fn limits_in_shadow_mode_are_shown_only_when_asked_for() {
    let rows = [
        Row::admitted(12, Micros::from_secs(7)),
        Row::refused(Micros::from_secs(9)).shadow(),
    ];
    let hidden = fields(Parts::default(), &rows);
    assert_eq!(value(&hidden, "ratelimit"), Some(r#""per-key";r=12;t=7"#));
    assert_eq!(value(&hidden, "x-ratelimit-remaining"), Some("12"));
    let open = fields(
        Parts {
            show_shadow: true,
            ..Parts::default()
        },
        &rows,
    );
    assert_eq!(
        value(&open, "ratelimit"),
        Some(r#""per-key";r=12;t=7, "daily";r=0;t=9"#)
    );
    assert_eq!(
        fields(Parts::default(), &rows[1..]),
        [],
        "nothing but shadow: nothing to tell"
    );
}

#[test]
fn b32_a_reset_is_seconds_from_now_unless_an_epoch_is_asked_for() {
    let rows = [Row::admitted(12, Micros(6_200_000))];
    let now = Some(Moment(1_900_000_000_250_000));
    for (reset, now, told) in [
        (ResetForm::Delta, now, "7"),
        (ResetForm::Epoch, now, "1900000008"),
        (ResetForm::Epoch, None, "7"),
    ] {
        let settings = settings(Parts {
            reset,
            headers: Family::ALL.into_iter().collect(),
            ..Parts::default()
        });
        let shown = state_headers(&settings, &name, &verdict(&rows), now);
        assert_eq!(value(&shown, "x-ratelimit-reset"), Some(told));
        assert_eq!(
            value(&shown, "ratelimit-reset"),
            Some("7"),
            "never an epoch"
        );
    }
}

#[test]
fn b33_any_name_becomes_one_structured_string_in_both_fields() {
    for (name, read) in [
        ("per-user", "per-user"),
        ("a\"b", "a\"b"),
        ("a\\b", "a\\b"),
        ("ü", "%C3%BC"),
        ("a\r\nb", "a%0D%0Ab"),
        ("", ""),
    ] {
        let verdict = verdict(&[Row::admitted(4, Micros::from_secs(1))]);
        let shown = state_headers(&Settings::default(), &|_| name, &verdict, None);
        for field in ["ratelimit-policy", "ratelimit"] {
            assert_eq!(
                items(value(&shown, field).unwrap())[0].0,
                read,
                "{field} of {name:?}"
            );
        }
    }
}

fn rows() -> impl Strategy<Value = Vec<Row>> {
    let wait = prop_oneof![
        Just(Wait::Never),
        any::<u64>().prop_map(|n| Wait::For(Micros(n))),
        (0u64..3_000_000).prop_map(|n| Wait::For(Micros(n))),
    ];
    let reading = (any::<bool>(), any::<u64>(), wait, any::<u64>()).prop_map(
        |(admitted, remaining, wait, reset)| Reading {
            admitted,
            remaining,
            wait,
            reset: Micros(reset),
        },
    );
    let row = (
        reading,
        1u64..=100_000,
        1_000u64..=31_622_400_000_000,
        any::<u64>(),
        any::<bool>(),
    )
        .prop_map(|(reading, quota, window, cost, enforced)| Row {
            kind: Kind::SlidingLog,
            quota,
            window: Micros(window),
            cost,
            enforced,
            reading,
        });
    proptest::collection::vec(row, 1..4)
}

proptest! {
    /// B32, B33: whatever the readings, both fields parse, name the same limits in the same order,
    /// stay within the quota, and a refusal's time is never zero.
    #[test]
    fn whatever_is_read_the_fields_are_strict_and_within_bounds(rows in rows()) {
        let verdict = verdict(&rows);
        let shown = state_headers(&Settings::default(), &name, &verdict, None);
        let (Some(policies), Some(states)) =
            (value(&shown, "ratelimit-policy"), value(&shown, "ratelimit"))
        else {
            prop_assert!(rows.iter().all(|row| !row.enforced));
            return Ok(());
        };
        let (policies, states) = (items(policies), items(states));
        prop_assert_eq!(policies.len(), states.len());
        for ((policy, quota), (state, left)) in policies.iter().zip(&states) {
            prop_assert_eq!(policy, state);
            let number = |list: &[(String, String)], letter: &str| {
                let found = list.iter().find(|(name, _)| name == letter);
                found.map(|(_, value)| value.parse::<u64>().unwrap())
            };
            prop_assert!(number(left, "r").unwrap() <= number(quota, "q").unwrap());
            prop_assert!(number(quota, "w").unwrap() >= 1);
            if !verdict.allowed {
                prop_assert_ne!(number(left, "t"), Some(0));
            }
        }
    }
}
