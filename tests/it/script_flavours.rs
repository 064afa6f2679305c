//! The same verdicts from every server that is here.

use aforo::{
    algorithm::Kind,
    local::Local,
    redis::script::Mode,
    units::{Micros, Moment},
};

use crate::{
    script::{claim, limit, member},
    script_redis::{Redis, usual},
};

/// `AFORO_SERVERS` names more servers than the one that every test uses, separated by colons.
fn servers() -> Vec<String> {
    let more = std::env::var("AFORO_SERVERS").unwrap_or_default();
    let more = more
        .split(':')
        .filter(|name| !name.is_empty())
        .map(str::to_owned);
    std::iter::once(usual()).chain(more).collect()
}

#[test]
fn b46_every_server_decides_alike() {
    for server in servers() {
        let mut redis = Redis::start_binary(&server, &["--lua-time-limit", "1"]);
        let info = redis.text(&["INFO", "server"]);
        let version = info
            .lines()
            .find(|line| line.contains("_version:"))
            .unwrap_or_default();
        eprintln!("{server}: {version}");
        let mut local = Local::new(100);
        let mut now = 1_800_000_000_123_456;
        for kind in Kind::ALL {
            let claims = [1, 20].map(|count| {
                let name = count.to_string();
                claim(&name, limit(kind, count * 5, Micros::from_millis(700)), 1)
            });
            for n in 0..120 {
                now += [0, 1, 70_001, 139_999, 3][usize::from(n % 5)];
                let mode = if n % 11 == 10 { Mode::Give } else { Mode::Take };
                let lua = redis.decide_at(now, mode, &claims, member(n));
                let rust = match mode {
                    Mode::Take => local.decide(&claims, Moment(now), member(n)),
                    Mode::Give => local.give(&claims, Moment(now), member(n)),
                };
                assert_eq!(lua, rust, "{server}: {kind:?}, step {n}");
            }
            // And by its own clock.
            let claims = [claim("own", limit(kind, 3, Micros::from_secs(3_600)), 1)];
            let readings = (0..5).map(|n| redis.decide(Mode::Take, &claims, member(n))[0]);
            assert_eq!(
                readings.filter(|reading| reading.admitted).count(),
                3,
                "{server}: {kind:?}"
            );
            let left = redis.number(&["PTTL", &claims[0].key]);
            assert!(
                (1..=7_200_002).contains(&left),
                "{server}: {kind:?} lives {left} ms"
            );
        }
    }
}
