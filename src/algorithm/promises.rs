//! What each algorithm promises, held against counting by hand.

use proptest::prelude::*;

use super::{Algorithm, Kind, MAX_WINDOW, Parameters, Window};
use crate::{
    claim::Claim,
    local::Local,
    redis::script::Member,
    units::{Micros, Moment},
    verdict::{Reading, Wait},
};

/// One client of one limit.
#[derive(Clone)]
pub(super) struct Client {
    local: Local,
    claim: Claim,
    calls: u128,
}

impl Client {
    pub fn new(parameters: Parameters) -> Self {
        let algorithm = Algorithm::new(parameters).unwrap();
        let key = "a".to_owned();
        let claim = Claim {
            limit: 0,
            key,
            algorithm,
            cost: 1,
            enforced: true,
        };
        Self {
            local: Local::new(1),
            claim,
            calls: 0,
        }
    }

    pub fn ask(&mut self, now: u64, cost: u64) -> Reading {
        self.calls += 1;
        self.claim.cost = cost;
        let claims = std::slice::from_ref(&self.claim);
        let member = Member::new(self.calls.to_be_bytes());
        self.local.decide(claims, Moment(now), member)[0]
    }

    /// The limit has other numbers from now on.
    pub fn change(&mut self, parameters: Parameters) {
        self.claim.algorithm = Algorithm::new(parameters).unwrap();
    }
}

pub(super) fn limit(kind: Kind, count: u64, span: Micros) -> Parameters {
    let window = (kind != Kind::Concurrency).then_some(Window::Span(span));
    let lease = (kind == Kind::Concurrency).then_some(span);
    Parameters {
        kind,
        count,
        window,
        burst: None,
        align: None,
        lease,
    }
}

/// When requests come, and their costs.
fn arrivals() -> impl Strategy<Value = Vec<(u64, u64)>> {
    let gap = prop_oneof![Just(0), 0..5_u64, 0..2_000_u64, 0..150_000_u64];
    let cost = prop_oneof![4 => Just(1_u64), 1 => 0..8_u64];
    prop::collection::vec((gap, cost), 1..120).prop_map(|steps| {
        let mut now = 1_800_000_000_000_000;
        let arrive = |(gap, cost)| {
            now += gap;
            (now, cost)
        };
        steps.into_iter().map(arrive).collect()
    })
}

/// What was admitted, and whether the reading was right about the room there was.
fn admitted(
    client: &mut Client,
    arrivals: &[(u64, u64)],
    room: impl Fn(&[(u64, u64)], u64) -> u64,
) -> Vec<(u64, u64)> {
    let mut admitted = Vec::new();
    for &(now, cost) in arrivals {
        let room = room(&admitted, now);
        let reading = client.ask(now, cost);
        assert_eq!(
            reading.admitted,
            cost <= room,
            "{cost} with room for {room}"
        );
        assert_eq!(
            reading.remaining,
            if cost <= room { room - cost } else { room }
        );
        if reading.admitted {
            admitted.push((now, cost));
        }
    }
    admitted
}

const SPAN: u64 = 100_000;

proptest! {
    #[test]
    fn sliding_log_has_exactly_what_the_last_window_leaves(
        arrivals in arrivals(), quota in 1_u64..20, leases: bool,
    ) {
        let kind = if leases { Kind::Concurrency } else { Kind::SlidingLog };
        let mut client = Client::new(limit(kind, quota, Micros(SPAN)));
        admitted(&mut client, &arrivals, |before, now| {
            let within = before.iter().filter(|(at, _)| at + SPAN > now);
            quota - within.map(|(_, cost)| cost).sum::<u64>()
        });
    }

    #[test]
    fn fixed_window_has_exactly_what_this_window_leaves(
        arrivals in arrivals(), quota in 1_u64..20,
    ) {
        let mut client = Client::new(limit(Kind::FixedWindow, quota, Micros(SPAN)));
        admitted(&mut client, &arrivals, |before, now| {
            let within = before.iter().filter(|(at, _)| at / SPAN == now / SPAN);
            quota - within.map(|(_, cost)| cost).sum::<u64>()
        });
    }

    #[test]
    fn sliding_window_has_exactly_what_both_windows_leave(
        arrivals in arrivals(), quota in 1_u64..20,
    ) {
        let mut client = Client::new(limit(Kind::SlidingWindow, quota, Micros(SPAN)));
        admitted(&mut client, &arrivals, |before, now| {
            let of = |window: u64| -> u64 {
                before.iter().filter(|(at, _)| at / SPAN == window).map(|(_, cost)| cost).sum()
            };
            let (cur, prev) = (of(now / SPAN), of(now / SPAN - 1));
            let weighed = (prev * (SPAN - now % SPAN)).div_ceil(SPAN);
            quota.saturating_sub(cur + weighed)
        });
    }

    #[test]
    fn buckets_never_give_more_than_the_burst_and_the_rate_and_never_less(
        arrivals in arrivals(), count in 1_u64..20, burst in 1_u64..20, gcra: bool,
    ) {
        let kind = if gcra { Kind::Gcra } else { Kind::TokenBucket };
        let parameters = Parameters { burst: Some(burst), ..limit(kind, count, Micros(SPAN)) };
        let mut client = Client::new(parameters);
        // A bucket by the book, in 1/SPAN of a token.
        let level = |before: &[(u64, u64)], now: u64| {
            let (mut level, mut at) = (burst * SPAN, before.first().map_or(now, |first| first.0));
            for &(then, cost) in before.iter().chain([&(now, 0)]) {
                level = (level + (then - at) * count).min(burst * SPAN) - cost * SPAN;
                at = then;
            }
            level / SPAN
        };
        let admitted = admitted(&mut client, &arrivals, level);
        for (i, &(from, _)) in admitted.iter().enumerate() {
            let mut sum = 0;
            for &(to, cost) in &admitted[i..] {
                sum += cost;
                assert!(sum * SPAN <= burst * SPAN + (to - from) * count);
            }
        }
    }

    #[test]
    fn a_refused_request_is_refused_until_its_wait_is_over_and_admitted_then(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        arrivals in arrivals(),
        counts in prop::collection::vec(1_u64..20, 1..3),
        span in prop_oneof![Just(SPAN), 100_000_u64..2_000_000, Just(MAX_WINDOW.0 / 366)],
        share in 0.0_f64..1.0,
    ) {
        let mut client = Client::new(limit(kind, counts[0], Micros(span)));
        for (i, &(now, cost)) in arrivals.iter().enumerate() {
            client.change(limit(kind, counts[i % counts.len()], Micros(span)));
            let reading = client.ask(now, cost);
            match reading.wait {
                Wait::Never => assert!(cost > client.claim.algorithm.quota()),
                Wait::For(Micros(0)) => assert!(reading.admitted),
                Wait::For(Micros(wait)) => {
                    let between = (wait as f64 * share) as u64;
                    for early in [1, between, wait - 1] {
                        let reading = client.clone().ask(now + early.min(wait - 1), cost);
                        assert!(!reading.admitted, "{early} of {wait} µs");
                    }
                    assert!(client.clone().ask(now + wait, cost).admitted);
                }
            }
        }
    }

    #[test]
    fn the_whole_quota_is_there_at_the_reset_and_not_before(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        arrivals in arrivals(),
        quota in 1_u64..20,
    ) {
        let mut client = Client::new(limit(kind, quota, Micros(SPAN)));
        for (now, cost) in arrivals {
            let reset = client.ask(now, cost).reset.0;
            assert_eq!(client.clone().ask(now + reset, 0).remaining, quota);
            if reset > 0 {
                assert!(client.clone().ask(now + reset - 1, 0).remaining < quota);
            }
        }
    }

    #[test]
    fn b17_a_clock_that_steps_back_refills_nothing_and_holds_nobody_longer_than_a_window(
        kind in prop::sample::select(Kind::ALL.to_vec()),
        arrivals in arrivals(),
        quota in 1_u64..20,
        back in prop_oneof![0_u64..10, 0_u64..SPAN * 3, 0_u64..MAX_WINDOW.0],
    ) {
        let mut client = Client::new(limit(kind, quota, Micros(SPAN)));
        let (mut left, mut last) = (quota, 0);
        for (now, cost) in arrivals {
            left = client.ask(now, cost).remaining;
            last = now;
        }
        let now = last - back;
        // A window that is weighed anew may be lighter by the part of it that slid out, and an
        // aligned window has its own edges.
        let windows = matches!(kind, Kind::SlidingWindow | Kind::FixedWindow);
        if !windows {
            prop_assert!(client.clone().ask(now, 0).remaining <= left);
        }
        while client.ask(now, 1).admitted {}
        let wait = client.ask(now, 1).wait;
        let longest = if kind == Kind::SlidingWindow { 2 * SPAN } else { SPAN };
        prop_assert!(matches!(wait, Wait::For(Micros(wait)) if wait <= longest), "{:?}", wait);
        let Wait::For(Micros(wait)) = wait else { unreachable!() };
        prop_assert!(client.ask(now + wait, 1).admitted);
    }
}
