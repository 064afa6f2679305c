//! The script against a real Redis.

use aforo::{
    algorithm::{Algorithm, Kind, MAX_LEASE, MIN_LEASE, Parameters, Window},
    claim::Claim,
    local::Local,
    redis::{
        error::ErrorKind,
        script::{By, Call, Commands, Member, Mode, Script, Unreadable, read},
    },
    units::{Micros, Moment},
    verdict::{Reading, Wait},
};

use crate::script_redis::{Client, Redis};

pub fn limit(kind: Kind, count: u64, span: Micros) -> Parameters {
    let window = (kind != Kind::Concurrency).then_some(Window::Span(span));
    Parameters {
        kind,
        count,
        window,
        burst: None,
        align: None,
        lease: (kind == Kind::Concurrency).then(|| span.clamp(MIN_LEASE, MAX_LEASE)),
    }
}

pub fn claim(key: &str, parameters: Parameters, cost: u64) -> Claim {
    let algorithm = Algorithm::new(parameters).unwrap();
    let key = format!("aforo:{{{key}}}:test:{}", algorithm.key_part());
    Claim {
        limit: 0,
        key,
        algorithm,
        cost,
        enforced: true,
    }
}

pub fn member(n: u8) -> Member {
    let mut random = [0; 16];
    (random[0], random[1]) = (n % 64, n / 64);
    Member::new(random)
}

impl Client {
    /// One decision by Redis's clock.
    pub fn decide(&mut self, mode: Mode, claims: &[Claim], member: Member) -> Vec<Reading> {
        let mut bytes = Vec::new();
        Call { mode, by: By::Body }.write(claims, member, &mut Commands(&mut bytes));
        self.send(&bytes);
        read(&self.reply(), claims).unwrap()
    }

    /// One decision in virtual time.
    pub fn decide_at(&mut self, now: u64, mode: Mode, claims: &[Claim], m: Member) -> Vec<Reading> {
        let mut bytes = Vec::new();
        let now = [i64::try_from(now).unwrap()];
        let script = Script::virtual_time();
        let call = Call { mode, by: By::Body };
        call.write_of(&script, claims, m, &now, &mut Commands(&mut bytes));
        self.send(&bytes);
        read(&self.reply(), claims).unwrap()
    }
}

#[test]
fn the_scripts_name_is_the_one_redis_gives_it() {
    let mut redis = Redis::start();
    for script in [Script::production(), Script::virtual_time()] {
        let name = redis.ask(&["SCRIPT", "LOAD", script.body()]);
        assert_eq!(name, aforo::redis::resp::Value::Bulk(script.sha1().into()));
    }
}

#[test]
fn every_algorithm_admits_its_quota_and_then_refuses() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        let claims = [claim("a", limit(kind, 3, Micros::from_secs(3_600)), 1)];
        for n in 0..3 {
            let reading = redis.decide(Mode::Take, &claims, member(n))[0];
            assert_eq!(
                (reading.admitted, reading.remaining),
                (true, 2 - u64::from(n)),
                "{kind:?}"
            );
        }
        let reading = redis.decide(Mode::Take, &claims, member(9))[0];
        assert!(
            !reading.admitted && matches!(reading.wait, Wait::For(_)),
            "{kind:?}"
        );
    }
}

#[test]
fn b06_noscript_is_told_apart_and_the_body_counts_once() {
    let mut redis = Redis::start();
    let claims = [claim(
        "a",
        limit(Kind::SlidingLog, 3, Micros::from_secs(60)),
        1,
    )];
    let mut bytes = Vec::new();
    let call = Call {
        mode: Mode::Take,
        by: By::Sha,
    };
    call.write(&claims, member(1), &mut Commands(&mut bytes));
    redis.send(&bytes);
    assert_eq!(
        read(&redis.reply(), &claims),
        Err(Unreadable::Redis(ErrorKind::NoScript))
    );
    assert_eq!(redis.decide(Mode::Take, &claims, member(1))[0].remaining, 2);
    let mut bytes = Vec::new();
    call.write(&claims, member(2), &mut Commands(&mut bytes));
    redis.send(&bytes);
    assert_eq!(read(&redis.reply(), &claims).unwrap()[0].remaining, 1);
}

#[test]
fn b21_a_refusal_by_one_limit_takes_nothing_from_the_others() {
    let mut redis = Redis::start();
    for kind in Kind::ALL {
        let own = claim("alice", limit(kind, 1, Micros::from_secs(3_600)), 1);
        let shared = claim("all", limit(kind, 10, Micros::from_secs(86_400)), 1);
        for order in [[own.clone(), shared.clone()], [shared.clone(), own]] {
            for n in 0..20 {
                redis.decide(Mode::Take, &order, member(n));
            }
        }
        let reading = redis.decide(Mode::Take, std::slice::from_ref(&shared), member(99))[0];
        assert_eq!(reading.remaining, 8, "{kind:?}");
    }
}

#[test]
fn lua_and_rust_agree_on_a_short_history() {
    let mut redis = Redis::start();
    let mut local = Local::new(100);
    let mut now = 1_800_000_000_123_456;
    for kind in Kind::ALL {
        let claims = [claim("a", limit(kind, 5, Micros::from_millis(700)), 1)];
        for n in 0..60 {
            now += [0, 1, 70_001, 139_999, 3][usize::from(n % 5)];
            let lua = redis.decide_at(now, Mode::Take, &claims, member(n));
            let rust = local.decide(&claims, Moment(now), member(n));
            assert_eq!(lua, rust, "{kind:?}, step {n}");
        }
    }
}
