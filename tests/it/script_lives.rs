//! How long state lives in Redis, and what it looks like.

use std::time::{Duration, Instant};

use aforo::{
    algorithm::{Algorithm, Align, Kind, Parameters, Window},
    claim::Claim,
    redis::script::Mode,
    units::Micros,
};

use crate::{
    script::{claim, limit, member},
    script_redis::Redis,
};

/// Windows from the shortest to the longest, with few and many units.
fn limits() -> Vec<Parameters> {
    let seconds = |n| Micros::from_secs(n);
    let (short, tenth) = (Micros::from_millis(1), Micros::from_millis(100));
    let mut all = Vec::new();
    for kind in Kind::ALL {
        for (count, span) in [
            (1, short),
            (1, tenth),
            (1, seconds(1)),
            (1_000, seconds(1)),
            (3, seconds(7)),
            (1, seconds(30 * 86_400)),
        ] {
            all.push(limit(kind, count, span));
        }
    }
    for kind in [Kind::TokenBucket, Kind::Gcra] {
        for (burst, count, span) in [(1, 3, 1), (10, 10_000, 1), (1, 1, 86_400)] {
            all.push(Parameters {
                burst: Some(burst),
                ..limit(kind, count, seconds(span))
            });
        }
    }
    for align in [Align::FirstHit, Align::Clock(330)] {
        let align = Some(align);
        all.push(Parameters {
            align,
            ..limit(Kind::FixedWindow, 3, seconds(60))
        });
    }
    let window = Some(Window::Month);
    all.push(Parameters {
        window,
        ..limit(Kind::FixedWindow, 3, seconds(1))
    });
    all
}

#[test]
fn b16_every_key_has_a_life_within_its_bound_after_every_call() {
    let mut redis = Redis::start();
    for (i, parameters) in limits().into_iter().enumerate() {
        let it = claim(&i.to_string(), parameters, 1);
        let bound = i64::try_from(it.algorithm.longest_ttl_ms()).unwrap();
        for n in 0..(2 * parameters.count).min(100) {
            let mode = if n % 7 == 6 { Mode::Give } else { Mode::Take };
            redis.decide(
                mode,
                std::slice::from_ref(&it),
                member(u8::try_from(n % 251).unwrap()),
            );
            let left = redis.number(&["PTTL", &it.key]);
            assert!(
                left == -2 || (0..=bound).contains(&left),
                "{it:?} lives {left} of {bound} ms"
            );
        }
    }
    for key in redis.keys() {
        // -2 is a key that has just ended; -1 would be one that never does.
        assert_ne!(redis.number(&["PTTL", &key]), -1, "{key}");
    }
}

#[test]
fn b16_after_its_life_nothing_is_left() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        for n in 0..20 {
            let it = claim(&n.to_string(), limit(kind, 5, Micros::from_millis(100)), 1);
            redis.decide(Mode::Take, &[it], member(n));
        }
    }
    let start = Instant::now();
    while redis.number(&["DBSIZE"]) > 0 {
        assert!(
            start.elapsed() < Duration::from_secs(5),
            "waited 5 s for keys of 100 ms to end"
        );
        std::thread::sleep(Duration::from_millis(5));
    }
}

#[test]
fn b14_large_numbers_are_stored_digit_by_digit() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        for (count, span) in [(100_000, 86_400), (1_000, 1), (7, 31_622_400)] {
            let it = claim(
                &format!("{kind:?}{count}"),
                limit(kind, count, Micros::from_secs(span)),
                1,
            );
            (0..5)
                .for_each(|n| drop(redis.decide(Mode::Take, std::slice::from_ref(&it), member(n))));
        }
    }
    for key in redis.keys() {
        let values = match redis.text(&["TYPE", &key]).as_str() {
            "zset" => redis.text(&["ZRANGE", &key, "0", "-1", "WITHSCORES"]),
            _ => redis.text(&["GET", &key]),
        };
        let numbers = values
            .split(' ')
            .filter(|word| word.len() != 16 || !word.contains(char::is_alphabetic));
        for number in numbers {
            assert!(
                number.bytes().all(|b| b.is_ascii_digit()),
                "{key} holds {number}"
            );
        }
    }
}

#[test]
fn b19_requests_of_one_microsecond_are_all_counted() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        let claims = [claim("a", limit(kind, 5, Micros::from_secs(60)), 1)];
        let readings = (0..200)
            .map(|n| redis.decide_at(1_800_000_000_000_000, Mode::Take, &claims, member(n))[0]);
        assert_eq!(
            readings.filter(|reading| reading.admitted).count(),
            5,
            "{kind:?}"
        );
        if kind == Kind::SlidingLog {
            assert_eq!(redis.number(&["ZCARD", &claims[0].key]), 5);
        }
    }
}

#[test]
fn b28_the_end_of_a_fixed_window_never_moves() {
    let mut redis = Redis::start();
    for align in [Align::Clock(0), Align::FirstHit] {
        let align = Some(align);
        let claims = [claim(
            "a",
            Parameters {
                align,
                ..limit(Kind::FixedWindow, 60, Micros::from_secs(60))
            },
            1,
        )];
        let (mut ends, mut admitted) = (Vec::new(), 0);
        for n in 0..200_u64 {
            let now = 1_800_000_000_000_000 + n * 1_500_777;
            admitted += u64::from(
                redis.decide_at(now, Mode::Take, &claims, member((n % 256) as u8))[0].admitted,
            );
            let life = redis.text(&["HGET", "lives", &claims[0].key]);
            let life: u64 = life.split(' ').nth(1).unwrap().parse().unwrap();
            ends.push(now / 1_000 + life);
        }
        assert_eq!(
            admitted, 200,
            "a steady client below the rate is never refused"
        );
        ends.dedup();
        assert_eq!(ends.len(), 5, "one deadline a window: {ends:?}");
    }
}

#[test]
fn a_refusal_writes_nothing_at_all() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        let one = claim("one", limit(kind, 3, Micros::from_secs(3_600)), 1);
        let two = claim("two", limit(kind, 9, Micros::from_secs(3_600)), 1);
        (0..3).for_each(|n| drop(redis.decide(Mode::Take, &[one.clone(), two.clone()], member(n))));
        redis.ask(&["CONFIG", "RESETSTAT"]);
        let dirty = |redis: &mut Redis| {
            let info = redis.text(&["INFO", "persistence"]);
            info.lines()
                .find(|line| line.starts_with("rdb_changes"))
                .unwrap()
                .to_owned()
        };
        let before = dirty(&mut redis);
        let costly = Claim {
            cost: 10,
            ..two.clone()
        };
        for n in 10..30 {
            assert!(!redis.decide(Mode::Take, &[two.clone(), one.clone()], member(n))[1].admitted);
            assert!(
                !redis.decide(Mode::Take, std::slice::from_ref(&costly), member(n))[0].admitted
            );
        }
        assert_eq!(dirty(&mut redis), before, "{kind:?}");
    }
}

#[test]
fn giving_back_ends_where_it_began() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        let it = |cost| [claim("a", limit(kind, 10, Micros::from_secs(3_600)), cost)];
        redis.decide(Mode::Take, &it(3), member(1));
        assert_eq!(
            redis.decide(Mode::Take, &it(5), member(2))[0].remaining,
            2,
            "{kind:?}"
        );
        let back = redis.decide(Mode::Give, &it(5), member(2))[0];
        assert_eq!((back.remaining, back.admitted), (7, true), "{kind:?}");
        if matches!(kind, Kind::SlidingLog | Kind::Concurrency) {
            let again = redis.decide(Mode::Give, &it(5), member(2))[0];
            assert_eq!(again.remaining, 7, "{kind:?}, given back twice");
        }
        redis.decide(Mode::Give, &it(3), member(1));
        assert_eq!(redis.number(&["DBSIZE"]), 0, "{kind:?}");
        redis.decide(Mode::Give, &it(3), member(1));
        assert_eq!(
            redis.number(&["DBSIZE"]),
            0,
            "{kind:?}: giving creates no key"
        );
    }
}

#[test]
fn b22_another_algorithm_or_window_meets_no_key_of_this_one() {
    let mut redis = Redis::start();
    let mut keys = std::collections::HashSet::new();
    for parameters in limits() {
        let it = claim("a", parameters, 1);
        redis.decide(Mode::Take, std::slice::from_ref(&it), member(1));
        keys.insert(it.key);
    }
    // Every algorithm has its own end of the key, so none of these calls met another's type.
    let starts: std::collections::HashSet<_> = keys
        .iter()
        .map(|key| {
            key.rsplit(':')
                .next()
                .unwrap()
                .split('-')
                .next()
                .unwrap()
                .to_owned()
        })
        .collect();
    assert_eq!(starts.len(), Kind::ALL.len());
    let five = Algorithm::new(limit(Kind::Gcra, 5, Micros::from_secs(60))).unwrap();
    let fifty = Algorithm::new(limit(Kind::Gcra, 50, Micros::from_secs(60))).unwrap();
    assert_eq!(
        five.key_part(),
        fifty.key_part(),
        "a changed number keeps the state"
    );
}
