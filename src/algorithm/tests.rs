//! The numbers that are accepted, and the cases that other limiters had wrong.

use super::{
    Algorithm, Align, EXACT, Kind, MAX_COST, MAX_COUNT, MAX_FILL, MAX_LEASE, MAX_LOG_COUNT,
    MAX_WINDOW, MIN_WINDOW, Numbers, Parameters, Window,
    bucket::Bucket,
    promises::{Client, limit},
};
use crate::{units::Micros, verdict::Wait};

const NOW: u64 = 1_800_000_000_000_000;
/// The first microsecond of the year 2100.
const YEAR_2100: u64 = 4_102_444_800_000_000;
/// 2^53: Lua's numbers are exact up to here.
const LUA: u64 = 1 << 53;

fn second(kind: Kind, count: u64) -> Parameters {
    limit(kind, count, Micros::from_secs(1))
}

fn bucket(algorithm: Algorithm) -> Option<Bucket> {
    match algorithm.0 {
        Numbers::TokenBucket(it) => Some(it.0),
        Numbers::Gcra(it) => Some(it.0),
        _ => None,
    }
}

#[test]
fn names_are_those_of_the_policy() {
    for kind in Kind::ALL {
        assert_eq!(Kind::from_name(kind.name()), Some(kind));
    }
    assert_eq!(Kind::from_name("leaky-bucket"), None);
}

#[test]
fn b34_a_limit_of_nothing_is_refused_with_what_to_use_instead() {
    for kind in Kind::ALL {
        let refused = Algorithm::new(second(kind, 0)).unwrap_err();
        assert_eq!((refused.field, refused.found.as_str()), ("rate", "0"));
        assert!(refused.accepted.contains("`deny`"), "{refused:?}");
        let mut client = Client::new(second(kind, 1));
        assert!(client.ask(NOW, 1).admitted && !client.ask(NOW, 1).admitted);
    }
    let burst = Parameters {
        burst: Some(0),
        ..second(Kind::Gcra, 1)
    };
    assert_eq!(Algorithm::new(burst).unwrap_err().field, "burst");
}

#[test]
fn what_an_algorithm_does_not_have_is_refused() {
    for kind in Kind::ALL {
        let plain = second(kind, 5);
        let bucket = matches!(kind, Kind::TokenBucket | Kind::Gcra);
        let burst = Algorithm::new(Parameters {
            burst: Some(5),
            ..plain
        });
        assert_eq!(burst.is_ok(), bucket, "{kind:?}");
        let align = Algorithm::new(Parameters {
            align: Some(Align::FirstHit),
            ..plain
        });
        assert_eq!(align.is_ok(), kind == Kind::FixedWindow, "{kind:?}");
        let lease = Algorithm::new(Parameters {
            lease: Some(MAX_LEASE),
            ..plain
        });
        assert_eq!(lease.is_ok(), kind == Kind::Concurrency, "{kind:?}");
        let month = Algorithm::new(Parameters {
            window: Some(Window::Month),
            ..plain
        });
        assert_eq!(month.is_ok(), kind == Kind::FixedWindow, "{kind:?}");
        let none = Algorithm::new(Parameters {
            window: None,
            ..plain
        });
        assert_eq!(none.is_ok(), kind == Kind::Concurrency, "{kind:?}");
    }
    let hit = Parameters {
        window: Some(Window::Month),
        align: Some(Align::FirstHit),
        ..second(Kind::FixedWindow, 5)
    };
    assert_eq!(Algorithm::new(hit).unwrap_err().field, "align");
    let offset = Parameters {
        align: Some(Align::Clock(841)),
        ..second(Kind::FixedWindow, 5)
    };
    assert_eq!(Algorithm::new(offset).unwrap_err().found, "841 minutes");
}

#[test]
fn no_product_of_the_largest_numbers_passes_what_lua_holds() {
    // Every moment that is computed or stored.
    const { assert!(YEAR_2100 + 2 * MAX_WINDOW.0 < LUA && YEAR_2100 + MAX_FILL.0 < LUA) };
    const { assert!(YEAR_2100 + MAX_LEASE.0 < LUA && MAX_COUNT + MAX_COST < LUA) };
    let spans = [
        MIN_WINDOW,
        Micros::from_secs(1),
        Micros(999_999_999_989),
        MAX_WINDOW,
    ];
    let counts = [
        1,
        7,
        99_999,
        MAX_LOG_COUNT,
        700_001,
        999_999_999_989,
        MAX_COUNT,
    ];
    for kind in Kind::ALL {
        for (span, count) in spans
            .iter()
            .flat_map(|s| counts.iter().map(move |c| (*s, *c)))
        {
            let largest = |burst| {
                Algorithm::new(Parameters {
                    burst,
                    ..limit(kind, count, span)
                })
            };
            let algorithm = match largest(None) {
                Ok(algorithm) => algorithm,
                Err(refused) if refused.field == "burst" => {
                    let most = refused
                        .accepted
                        .trim_start_matches("1..=")
                        .split(' ')
                        .next();
                    largest(most.unwrap().parse().ok()).unwrap()
                }
                Err(refused) => {
                    assert!(["rate", "lease"].contains(&refused.field), "{refused:?}");
                    continue;
                }
            };
            if let Some(bucket) = bucket(algorithm) {
                // A full bucket, and what one more request as large as it would make of it.
                assert!(bucket.pace >= 1 && bucket.full() <= EXACT && 2 * EXACT <= LUA);
                assert!(bucket.fills_in() <= MAX_FILL);
            }
            if let Numbers::SlidingWindow(window) = algorithm.0 {
                assert!(window.quota * window.steps() <= EXACT);
                assert!(window.steps() * window.grain < LUA);
            }
            assert!(algorithm.key_part().len() <= 24, "{}", algorithm.key_part());
            assert!(algorithm.longest_ttl_ms() >= 1);
        }
    }
}

#[test]
fn b35_rates_from_one_a_month_to_a_million_a_second_are_exact() {
    let month = Micros::from_secs(30 * 86_400);
    for (count, span) in [
        (1, month),
        (1, Micros::from_secs(86_400)),
        (700, Micros::from_secs(60)),
        (7, Micros::from_secs(11)),
        (999, Micros::from_secs(1)),
        (1_001, Micros::from_secs(1)),
        (8_000, Micros::from_secs(1)),
        (700_001, Micros::from_secs(1)),
        (1_000_000, Micros::from_secs(1)),
    ] {
        for burst in [1, 12, 100] {
            let parameters = Parameters {
                burst: Some(burst),
                ..limit(Kind::Gcra, count, span)
            };
            let it = bucket(Algorithm::new(parameters).unwrap()).unwrap();
            assert_eq!(
                u128::from(it.pace) * u128::from(span.0),
                u128::from(it.token * count)
            );
        }
    }
}

#[test]
fn a_burst_too_large_for_an_exact_rate_is_slower_by_less_than_a_millionth_or_refused() {
    for (count, span) in [
        (7, MAX_WINDOW),
        (999_983, MAX_WINDOW),
        (999_983, Micros(86_399_999_999)),
    ] {
        let of = |burst| {
            let parameters = limit(Kind::TokenBucket, count, span);
            Algorithm::new(Parameters {
                burst: Some(burst),
                ..parameters
            })
        };
        let most = of(MAX_COUNT).unwrap_err().accepted;
        let most: u64 = most
            .trim_start_matches("1..=")
            .trim_end_matches(" at this rate")
            .parse()
            .unwrap();
        assert!(of(most + 1).is_err());
        for burst in [1, most / 1_000 + 1, most / 3 + 1, most] {
            let it = bucket(of(burst).unwrap()).unwrap();
            let found = it.pace as f64 / it.token as f64;
            let asked = count as f64 / span.0 as f64;
            let slower = 1.0 - found / asked;
            assert!(
                (-1e-15..1e-6).contains(&slower),
                "{burst} of {most}: {slower}"
            );
        }
    }
}

#[test]
fn key_parts_name_what_starts_clean_when_it_changes() {
    let span = Micros::from_secs(60);
    let part = |parameters| Algorithm::new(parameters).unwrap().key_part();
    let fixed = |window, align| Parameters {
        window,
        align,
        ..limit(Kind::FixedWindow, 1, span)
    };
    let (month, minute) = (Some(Window::Month), Some(Window::Span(span)));
    for (parameters, expected) in [
        (limit(Kind::SlidingLog, 1, span), "sl-1m"),
        (limit(Kind::SlidingWindow, 1, span), "sw-1m"),
        (limit(Kind::TokenBucket, 1, span), "tb-1m"),
        (limit(Kind::Gcra, 1, Micros(1_001)), "gcra-1001us"),
        (limit(Kind::Concurrency, 1, span), "in-flight"),
        (fixed(minute, None), "fw-1m"),
        (fixed(minute, Some(Align::Clock(-210))), "fw-1m-0330"),
        (fixed(minute, Some(Align::FirstHit)), "fw-1m-hit"),
        (fixed(month, None), "fw-month"),
        (fixed(month, Some(Align::Clock(60))), "fw-month+0100"),
    ] {
        assert_eq!(part(parameters), expected);
    }
    let longest = Some(Window::Span(Micros(31_622_399_999_999)));
    for align in [Align::Clock(840), Align::FirstHit] {
        assert!(part(fixed(longest, Some(align))).len() <= 24);
    }
}

#[test]
fn b20_refused_requests_push_nothing_away() {
    for kind in Kind::ALL {
        let mut client = Client::new(limit(kind, 5, Micros::from_secs(10)));
        let admitted = (0..300_u64).filter(|n| client.ask(NOW + n * 100_000, 1).admitted);
        let windows = if kind == Kind::SlidingWindow { 2 } else { 3 };
        assert!(admitted.count() >= 5 * windows, "{kind:?}");
    }
}

#[test]
fn b37_a_cost_that_never_fits_has_no_wait_and_no_cost_takes_nothing() {
    for kind in Kind::ALL {
        let mut client = Client::new(second(kind, 10));
        for cost in [11, MAX_COST, u64::MAX] {
            let reading = client.ask(NOW, cost);
            assert_eq!(
                (reading.admitted, reading.wait),
                (false, Wait::Never),
                "{kind:?}"
            );
            assert_eq!(reading.remaining, 10);
        }
        assert_eq!(client.ask(NOW, 10).remaining, 0);
        assert!(client.ask(NOW, 0).admitted, "{kind:?}");
        assert!(!client.ask(NOW, 1).admitted);
    }
    let mut client = Client::new(second(Kind::SlidingLog, 5_000));
    assert_eq!(
        client.ask(NOW, 1_001).wait,
        Wait::Never,
        "more members than one request writes"
    );
}

#[test]
fn b22_a_raised_number_frees_at_once_and_a_lowered_one_leaves_nothing_negative() {
    for kind in Kind::ALL {
        let mut client = Client::new(second(kind, 5));
        (0..5).for_each(|_| assert!(client.ask(NOW, 1).admitted));
        assert!(!client.ask(NOW, 1).admitted);
        client.change(second(kind, 50));
        assert_eq!(client.ask(NOW, 1).remaining, 44, "{kind:?}");
        client.change(second(kind, 2));
        let reading = client.ask(NOW, 1);
        assert_eq!((reading.admitted, reading.remaining), (false, 0));
        let Wait::For(Micros(wait)) = reading.wait else {
            panic!("{kind:?}")
        };
        assert!(client.ask(NOW + wait, 1).admitted, "{kind:?}");
    }
}

#[test]
fn b69_gcra_gives_its_burst_and_then_one_each_interval() {
    let mut client = Client::new(limit(Kind::Gcra, 5, Micros::from_secs(10)));
    let burst: Vec<_> = (0..7).map(|_| client.ask(NOW, 1).admitted).collect();
    assert_eq!(burst, [true, true, true, true, true, false, false]);
    let later = (1..=100_u64).filter(|n| client.ask(NOW + n * 100_000, 1).admitted);
    assert_eq!(later.collect::<Vec<_>>(), [20, 40, 60, 80, 100]);
}

#[test]
fn windows_of_a_zone_begin_at_its_midnight() {
    let day = Micros::from_secs(86_400);
    let india = Parameters {
        align: Some(Align::Clock(330)),
        ..limit(Kind::FixedWindow, 1, day)
    };
    let mut client = Client::new(india);
    let midnight = NOW / day.0 * day.0 - 330 * 60_000_000; // of India, in UTC
    assert!(client.ask(midnight, 1).admitted);
    let reading = client.ask(midnight + day.0 - 1, 1);
    assert_eq!(
        (reading.admitted, reading.wait),
        (false, Wait::For(Micros(1)))
    );
    assert!(client.ask(midnight + day.0, 1).admitted);
}
