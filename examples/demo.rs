//! `make demo`: two Envoys, one Redis, one exact limit.
//!
//! Runs `envoy.yaml` twice beside a Redis and an upstream, sends requests that alternate between the two
//! Envoys, and shows that they count together. Exits 0 only if they did. `HOLD=1` keeps everything up.

use std::path::{Path, PathBuf};
use std::process::ExitCode;

use support::client::{Answer, get};
use support::config::{Config, Link};
use support::echo::Echo;
use support::envoy::Envoy;
use support::redis::Redis;
use support::{Dir, root, until_interrupted};

/// How many of client A's requests come after its limit.
const BEYOND: u64 = 2;

fn main() -> ExitCode {
    let dir = fresh_directory();
    let redis = Redis::start_in(Dir::kept(&dir.join("redis")), &[]);
    let upstream = Echo::start();
    let mut config = Config::shipped(Link::RedisProxy);
    config.redis_port(redis.port());
    config.upstream_port(upstream.port());
    let limit = shipped_limit(&mut config);
    // The demo shows counting. A machine that is busy building something may take its time with it.
    config.aforo()["configuration"]["value"]["redis"]["timeout"] = "2s".into();
    config.op_timeout("5s");
    let envoys = ["envoy-1", "envoy-2"]
        .map(|name| Envoy::start_in(Dir::kept(&dir.join(name)), &config, 2, &[]));

    println!("Each API key may send {limit} requests in any minute, over both Envoys together.\n");
    println!("  #  Envoy  client  status  remaining  retry-after");
    let mut served = [0, 0];
    let mut right = true;
    for (number, client) in requests(limit).into_iter().enumerate() {
        let envoy = number % envoys.len();
        let answer = get("/")
            .header("x-api-key", client.name())
            .to(envoys[envoy].address());
        let before = served[client as usize];
        right &= is_right(&answer, before < limit, limit.saturating_sub(before + 1));
        served[client as usize] += u64::from(answer.status == 200);
        println!(
            "{:>3}  {:>5}  {:>6}  {:>6}  {:>9}  {:>11}",
            number + 1,
            envoy + 1,
            client.name(),
            answer.status,
            answer.header("x-ratelimit-remaining").unwrap_or("-"),
            answer.header("retry-after").unwrap_or("-"),
        );
    }
    let [a, b] = served;
    println!(
        "\nA was served {a} times over both Envoys; its limit is {limit}. B was served {b} times."
    );
    right &= a == limit && u64::try_from(upstream.hits()).is_ok_and(|hits| hits == a + b);

    println!("\nWhat ran, and where its log is:");
    let log = |path: &Path| {
        path.strip_prefix(root())
            .unwrap_or(path)
            .display()
            .to_string()
    };
    println!(
        "  Redis     127.0.0.1:{:<6} {}",
        redis.port(),
        log(redis.process().log_path())
    );
    for (number, envoy) in envoys.iter().enumerate() {
        let path = log(envoy.process().log_path());
        println!(
            "  Envoy {}   {:<16} {path}  (admin: 127.0.0.1:{})",
            number + 1,
            envoy.address(),
            envoy.admin_port()
        );
    }
    println!(
        "  upstream  127.0.0.1:{:<6} in the demo's own process",
        upstream.port()
    );
    if std::env::var_os("HOLD").is_some_and(|hold| !hold.is_empty() && hold != "0") {
        println!("\nAll of it stays up until Ctrl-C. Try:");
        for envoy in &envoys {
            println!("  curl -i -H 'x-api-key: me' http://{}/", envoy.address());
        }
        until_interrupted();
    }
    if right {
        ExitCode::SUCCESS
    } else {
        println!("\nThe counts above are NOT right.");
        ExitCode::FAILURE
    }
}

#[derive(Clone, Copy)]
enum Client {
    A,
    B,
}

impl Client {
    fn name(self) -> &'static str {
        match self {
            Self::A => "A",
            Self::B => "B",
        }
    }
}

/// A's requests, two more than its limit, with one of B's after each fifth and one at the very end.
fn requests(limit: u64) -> Vec<Client> {
    let mut all = Vec::new();
    for number in 1..=limit + BEYOND {
        all.push(Client::A);
        if number % 5 == 0 || number == limit + BEYOND {
            all.push(Client::B);
        }
    }
    all
}

/// Whether an answer is what the limit asks for, `remaining` being what is left after it.
fn is_right(answer: &Answer, allowed: bool, remaining: u64) -> bool {
    let number = |name: &str| {
        answer
            .header(name)
            .and_then(|text| text.parse::<u64>().ok())
    };
    if allowed {
        answer.status == 200 && number("x-ratelimit-remaining") == Some(remaining)
    } else {
        answer.status == 429 && number("retry-after").is_some_and(|wait| (1..=60).contains(&wait))
    }
}

/// The N of the shipped policy's "N/1m".
fn shipped_limit(config: &mut Config) -> u64 {
    let policy = config.shipped_policy();
    let rate = policy["limits"][0]["rate"].as_str().unwrap_or_default();
    let number = rate
        .strip_suffix("/1m")
        .and_then(|number| number.parse().ok());
    number.unwrap_or_else(|| panic!("envoy.yaml's rate is {rate:?}, not some number a minute"))
}

/// `.demo/<this process>`; what demos that have ended left there is removed.
fn fresh_directory() -> PathBuf {
    let all = root().join(".demo");
    for entry in std::fs::read_dir(&all).into_iter().flatten().flatten() {
        if !Path::new("/proc").join(entry.file_name()).exists() {
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
    all.join(std::process::id().to_string())
}
