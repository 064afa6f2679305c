//! A Redis that cannot or may not do what the script asks.

use aforo::{
    algorithm::Kind,
    claim::Claim,
    redis::{
        error::ErrorKind,
        script::{By, Call, Commands, Mode, Script, Unreadable, read},
    },
    units::Micros,
    verdict::Reading,
};

use crate::{
    script::{claim, limit, member},
    script_redis::{Client, Redis},
};

impl Client {
    fn try_take(&mut self, by: By, claims: &[Claim]) -> Result<Vec<Reading>, Unreadable> {
        let mut bytes = Vec::new();
        Call {
            mode: Mode::Take,
            by,
        }
        .write(claims, member(1), &mut Commands(&mut bytes));
        self.send(&bytes);
        read(&self.reply(), claims)
    }
}

fn kind(outcome: Result<Vec<Reading>, Unreadable>) -> ErrorKind {
    match outcome {
        Err(Unreadable::Redis(kind)) => kind,
        other => panic!("{other:?}"),
    }
}

fn one_of_each() -> Vec<Claim> {
    Kind::ALL
        .map(|kind| claim("a", limit(kind, 5, Micros::from_secs(60)), 1))
        .to_vec()
}

#[test]
fn b44_a_full_redis_refuses_and_nothing_is_half_done() {
    let mut redis = Redis::start();
    let claims = one_of_each();
    for claim in &claims {
        redis.ask(&["CONFIG", "SET", "maxmemory", "1"]);
        assert_eq!(
            kind(redis.try_take(By::Body, std::slice::from_ref(claim))),
            ErrorKind::Oom
        );
        assert_eq!(kind(redis.try_take(By::Body, &claims)), ErrorKind::Oom);
        assert_eq!(redis.number(&["DBSIZE"]), 0);
        redis.ask(&["CONFIG", "SET", "maxmemory", "0"]);
        let reading = redis
            .try_take(By::Body, std::slice::from_ref(claim))
            .unwrap()[0];
        assert_eq!(reading.remaining, 4, "{claim:?}");
        assert!(redis.number(&["PTTL", &claim.key]) > 0);
        redis.ask(&["FLUSHALL"]);
    }
}

#[test]
fn b22_a_key_of_a_foreign_type_is_an_error_and_stays_as_it_is() {
    let mut redis = Redis::start();
    for claim in one_of_each() {
        redis.ask(&["HSET", &claim.key, "a", "b"]);
        assert_eq!(
            kind(redis.try_take(By::Body, std::slice::from_ref(&claim))),
            ErrorKind::WrongType
        );
        assert_eq!(redis.text(&["HGET", &claim.key, "a"]), "b");
    }
}

#[test]
fn b44_a_busy_redis_is_told_apart() {
    let mut redis = Redis::start_with(&["--lua-time-limit", "50"]);
    let mut other = redis.client();
    redis.send(b"*3\r\n$4\r\nEVAL\r\n$17\r\nwhile true do end\r\n$1\r\n0\r\n");
    // Until the loop has been found too long, calls wait; from then on they are refused.
    assert_eq!(
        kind(other.try_take(By::Sha, &one_of_each())),
        ErrorKind::Busy
    );
    other.ask(&["SCRIPT", "KILL"]);
    redis.reply();
    assert!(redis.try_take(By::Body, &one_of_each()).is_ok());
}

/// What a user needs to run the script, as the documentation says.
const RIGHTS: &str = "+evalsha +eval +time +get +set +del +zadd +zcard +zcount +zrange \
                      +zrangebyscore +zrem +zremrangebyrank +pexpire";

#[test]
fn b47_the_documented_rights_suffice_and_a_missing_one_is_told() {
    let mut redis = Redis::start();
    let user = |redis: &mut Redis, rights: &str| {
        let mut words = vec![
            "ACL", "SETUSER", "limits", "reset", "on", ">secret", "~aforo:*",
        ];
        words.extend(rights.split_whitespace());
        assert_eq!(redis.text(&words), "OK");
        let mut client = redis.client();
        assert_eq!(client.text(&["AUTH", "limits", "secret"]), "OK");
        client
    };
    let mut limited = user(&mut redis, RIGHTS);
    assert_eq!(
        limited.try_take(By::Sha, &one_of_each()),
        Err(Unreadable::Redis(ErrorKind::NoScript))
    );
    assert_eq!(limited.try_take(By::Body, &one_of_each()).unwrap().len(), 6);
    for claim in one_of_each() {
        // Enough to refuse, and to give back.
        let costly = [Claim { cost: 5, ..claim }];
        assert!(!limited.try_take(By::Sha, &costly).unwrap()[0].admitted);
        limited.decide(Mode::Give, &costly, member(1));
    }
    redis.ask(&["SCRIPT", "FLUSH"]);
    let mut only_sha = user(&mut redis, "+evalsha");
    assert_eq!(
        only_sha.try_take(By::Sha, &one_of_each()),
        Err(Unreadable::Redis(ErrorKind::NoScript))
    );
    assert_eq!(
        kind(only_sha.try_take(By::Body, &one_of_each())),
        ErrorKind::NoPerm
    );
}

#[test]
fn b47_a_redis_without_the_script_command_is_enough() {
    let mut redis = Redis::start_with(&["--rename-command", "SCRIPT", ""]);
    assert!(redis.try_take(By::Body, &one_of_each()).is_ok());
    assert!(redis.try_take(By::Sha, &one_of_each()).is_ok());
}

#[test]
fn b46_resp3_reads_alike() {
    let mut redis = Redis::start();
    redis.ask(&["HELLO", "3"]);
    let readings = redis.try_take(By::Body, &one_of_each()).unwrap();
    assert!(
        readings
            .iter()
            .all(|reading| reading.admitted && reading.remaining == 4)
    );
}

#[test]
fn sixty_four_limits_fit_in_one_call() {
    let mut redis = Redis::start();
    let claims: Vec<_> = (0..64)
        .map(|n| {
            claim(
                &n.to_string(),
                limit(Kind::ALL[n % 6], 5, Micros::from_secs(60)),
                1,
            )
        })
        .collect();
    for left in (0..5).rev() {
        let mut bytes = Vec::new();
        let call = Call {
            mode: Mode::Take,
            by: By::Body,
        };
        let next = member(u8::try_from(left).unwrap());
        call.write(&claims, next, &mut Commands(&mut bytes));
        redis.send(&bytes);
        let readings = read(&redis.reply(), &claims).unwrap();
        assert!(
            readings
                .iter()
                .all(|reading| reading.admitted && reading.remaining == left)
        );
    }
    assert!(
        redis
            .try_take(By::Body, &claims)
            .unwrap()
            .iter()
            .all(|reading| !reading.admitted)
    );
}

#[test]
fn a_shadow_limit_refuses_nobody_and_counts_only_what_goes_on() {
    let mut redis = Redis::start();
    let shadow = Claim {
        enforced: false,
        ..claim("s", limit(Kind::Gcra, 1, Micros::from_secs(60)), 1)
    };
    let wide = Claim {
        enforced: false,
        ..claim("w", limit(Kind::Gcra, 9, Micros::from_secs(60)), 1)
    };
    let real = claim("r", limit(Kind::SlidingLog, 2, Micros::from_secs(60)), 1);
    let claims = [shadow, wide, real];
    let admitted: Vec<Vec<bool>> = (0..3)
        .map(|n| {
            redis
                .decide(Mode::Take, &claims, member(n))
                .iter()
                .map(|r| r.admitted)
                .collect()
        })
        .collect();
    assert_eq!(
        admitted,
        [
            [true, true, true],
            [false, true, true],
            [false, true, false]
        ]
    );
    let wide = redis.decide(Mode::Take, &claims[1..2], member(9))[0];
    assert_eq!(
        wide.remaining, 6,
        "the request that was refused took nothing here"
    );
}

#[test]
fn the_script_names_no_key_of_its_own() {
    // Redis Cluster and proxies route by KEYS; a key made inside the script would be on another node.
    let body = Script::production().body();
    let calls = body.match_indices("call('").map(|(at, _)| &body[at + 6..]);
    for call in calls {
        let mut words = call
            .split(['\'', ',', ')', ' '])
            .filter(|word| !word.is_empty());
        let (command, first) = (words.next().unwrap(), words.next().unwrap_or_default());
        assert!(
            command == "TIME" || ["key", "KEYS[i]"].contains(&first),
            "{command} of {first}"
        );
    }
}
