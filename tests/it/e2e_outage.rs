//! When Redis is stopped, frozen, wrong or late: the outage answer in time, and never another's numbers.

use std::time::Duration;

use serde_json::json;
use support::client::{Answer, get};
use support::config::Link;
use support::mesh::{Mesh, mesh, per_key, policy};
use support::relay::Relay;
use support::stub::{Act, Stub};
use support::{redis::Redis, until_within};

/// The policy's deadline in these tests, and what a request may take beyond it.
const DEADLINE: Duration = Duration::from_millis(20);
const BEYOND: Duration = Duration::from_millis(20);

/// The header fields that only a verdict may bring.
const NUMBERS: [&str; 5] = [
    "ratelimit",
    "ratelimit-policy",
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
];

fn ask(mesh: &Mesh, key: &str) -> Answer {
    get("/").header("x-api-key", key).to(mesh.address())
}

/// Sends requests until twenty in a row were answered in time: this machine may be busy, but not for
/// so long that twenty others were late. Every one of them must be the outage answer.
fn outage_answers_come_in_time(mesh: &Mesh, outage: &str, case: &str) {
    let mut in_time = 0;
    let mut slow = Vec::new();
    while in_time < 20 {
        let hits = mesh.echo.hits();
        let answer = ask(mesh, "a");
        is_the_outage_answer(&answer, outage, case);
        let passed = mesh.echo.hits() - hits;
        assert_eq!(
            passed,
            usize::from(outage == "allow"),
            "{case}: upstream hits"
        );
        if answer.took <= DEADLINE + BEYOND {
            in_time += 1;
        } else {
            in_time = 0;
            slow.push(answer.took);
            assert!(slow.len() <= 20, "{case}: too slow too often: {slow:?}");
        }
    }
}

fn is_the_outage_answer(answer: &Answer, outage: &str, case: &str) {
    let status = if outage == "allow" { 200 } else { 503 };
    assert_eq!(answer.status, status, "{case}: {answer:?}");
    for name in NUMBERS {
        assert!(
            answer.header(name).is_none(),
            "{case}: nobody knows {name}: {answer:?}"
        );
    }
    if outage == "deny" {
        assert!(answer.number("retry-after") >= 1, "{case}: {answer:?}");
    }
}

#[test]
fn redis_stopped_or_frozen_gives_the_outage_answer_within_the_deadline_and_comes_back() {
    for link in Link::EVERY {
        for outage in ["allow", "deny"] {
            let limits = json!([per_key("sliding-log", "1000/1h")]);
            let mut mesh = mesh(link, policy(outage, "20ms", limits)).start();
            let case = format!("{link:?}, {outage}");
            until_counted(&mesh, &case);
            mesh.redis.stop();
            outage_answers_come_in_time(&mesh, outage, &format!("{case}, stopped"));
            mesh.redis.restart();
            until_counted(&mesh, &case);
            mesh.redis.freeze();
            outage_answers_come_in_time(&mesh, outage, &format!("{case}, frozen"));
            mesh.redis.thaw();
            until_counted(&mesh, &case);
        }
    }
}

#[test]
fn redis_that_was_never_there_gives_the_outage_answer_within_the_deadline() {
    for link in Link::EVERY {
        for outage in ["allow", "deny"] {
            let limits = json!([per_key("sliding-log", "1000/1h")]);
            let mut redis = Redis::start();
            redis.stop();
            let mut mesh = mesh(link, policy(outage, "20ms", limits)).start_with(redis);
            let case = format!("{link:?}, {outage}");
            outage_answers_come_in_time(&mesh, outage, &case);
            mesh.redis.restart();
            until_counted(&mesh, &case);
        }
    }
}

/// Waits for an answer with a verdict, for at most five seconds.
fn until_counted(mesh: &Mesh, case: &str) {
    until_within(
        Duration::from_secs(5),
        &format!("{case}: a verdict"),
        || ask(mesh, "b").header("x-ratelimit-remaining").is_some(),
    );
}

#[test]
fn b44_every_error_that_redis_answers_with_is_an_outage() {
    let errors = [
        "ERR unknown command 'evalsha'",
        "NOSCRIPT No matching script. Please use EVAL.",
        "READONLY You can't write against a read only replica.",
        "OOM command not allowed when used memory > 'maxmemory'.",
        "LOADING Redis is loading the dataset in memory",
        "MASTERDOWN Link with MASTER is down and replica-serve-stale-data is set to 'no'.",
        "CLUSTERDOWN The cluster is down",
        "BUSY Redis is busy running a script.",
        "NOAUTH Authentication required.",
        "NOPERM this user has no permissions to run the 'evalsha' command",
        "WRONGTYPE Operation against a key holding the wrong kind of value",
    ];
    for link in Link::ALL {
        for outage in ["allow", "deny"] {
            let stub = Stub::start(|_| Act::Silence);
            let limits = json!([per_key("sliding-log", "1000/1h")]);
            let mesh = mesh(link, policy(outage, "20ms", limits))
                .redis_at(stub.port())
                .start();
            for error in errors {
                let reply = format!("-{error}\r\n");
                stub.from_now_on(move |_| Act::reply(reply.as_bytes()));
                let before = stub.asked().len();
                for _ in 0..5 {
                    let case = format!("{link:?}, {outage}, {error}");
                    is_the_outage_answer(&ask(&mesh, "a"), outage, &case);
                }
                let asked = stub.asked().len() - before;
                assert!(
                    asked <= 10,
                    "{link:?}, {error}: asked {asked} times for 5 requests"
                );
            }
        }
    }
}

#[test]
fn b02_a_reply_that_makes_no_sense_is_an_outage_and_the_link_recovers() {
    let nonsense: [(&str, Act); 11] = [
        ("no answer", Act::Silence),
        ("closed", Act::Close),
        ("half a reply", Act::reply(b"*4\r\n:1\r\n:9")),
        (
            "a web page",
            Act::reply(b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\n\r\nok"),
        ),
        ("an integer", Act::reply(b":1\r\n")),
        ("nothing", Act::reply(b"$-1\r\n")),
        ("an empty array", Act::reply(b"*0\r\n")),
        ("a nested array", Act::reply(b"*1\r\n*1\r\n*1\r\n:1\r\n")),
        (
            "a text among numbers",
            Act::reply(b"*4\r\n:1\r\n$3\r\nabc\r\n:0\r\n:0\r\n"),
        ),
        (
            "an impossible length",
            Act::reply(b"$99999999999999999999\r\n"),
        ),
        (
            "a big text",
            Act::reply(&[b"$1000000\r\n".as_slice(), &[b'x'; 1_000_000], b"\r\n"].concat()),
        ),
    ];
    for link in Link::ALL {
        for outage in ["allow", "deny"] {
            let stub = Stub::start(|_| Act::Silence);
            let limits = json!([per_key("sliding-log", "1000/1h")]);
            let mesh = mesh(link, policy(outage, "20ms", limits))
                .redis_at(stub.port())
                .start();
            for (name, act) in &nonsense {
                let act = act.clone();
                stub.from_now_on(move |_| act.clone());
                for _ in 0..5 {
                    let answer = ask(&mesh, "a");
                    is_the_outage_answer(&answer, outage, &format!("{link:?}, {outage}, {name}"));
                    assert!(
                        answer.took < Duration::from_millis(500),
                        "{name}: {:?}",
                        answer.took
                    );
                }
            }
        }
    }
}

#[test]
fn b58_a_late_reply_never_reaches_another_request_and_each_request_is_charged_once() {
    for link in Link::EVERY {
        let redis = Redis::start();
        let relay = Relay::to(redis.port());
        let limits = json!([per_key("sliding-log", "100/1h")]);
        // Long enough that only what is held back is late, on a busy machine too.
        let deadline = Duration::from_millis(60);
        let mut policy = policy("allow", "60ms", limits);
        // Every request is to be asked for, however many before it were late.
        policy["redis"]["breaker"] =
            json!({ "failures": 10_000, "failure_percent": 100, "least_requests": 100_000 });
        let plan = mesh(link, policy).redis_at(relay.port());
        let mesh = plan.start_with(redis);
        // What waits for a link is not sent when its time is up, and so not charged.
        until_counted(&mesh, "a link");
        let mut sent = [0; 5];
        let mut answered = 0;
        for number in 0..200 {
            // Keys with different counts, in an order that does not repeat with the delays.
            let key = number * number % 5;
            let late = number % 7 == 3 || number % 11 == 5;
            // Half a deadline late: it comes while the next request waits, which is still in time.
            relay.delay_replies(if late {
                deadline * 3 / 2
            } else {
                Duration::ZERO
            });
            let answer = ask(&mesh, &format!("key-{key}"));
            assert_eq!(answer.status, 200, "{link:?}, request {number}");
            sent[key] += 1;
            if answer.header("x-ratelimit-remaining").is_some() {
                answered += 1;
                let remaining = answer.number("x-ratelimit-remaining");
                assert_eq!(remaining, 100 - sent[key], "{link:?}, request {number}");
            }
        }
        assert!(
            (100..=190).contains(&answered),
            "{link:?}: {answered} of 200 had a verdict"
        );
    }
}

#[test]
fn after_a_freeze_that_outlasted_the_deadline_the_next_numbers_are_right() {
    for link in Link::EVERY {
        // Each of the numbers is looked at, so each must come in time on a busy machine.
        let timeout = if link.is_gateway() { "200ms" } else { "20ms" };
        let limits = json!([per_key("sliding-log", "100/1h")]);
        let mesh = mesh(link, policy("allow", timeout, limits)).start();
        until_counted(&mesh, "a link");
        for round in 0..5 {
            // What is asked while Redis is frozen may be charged when it thaws, or be lost with the
            // connection: so each round has keys of its own, and the others' numbers tell.
            mesh.redis.freeze();
            for _ in 0..10 {
                let _ = ask(&mesh, &format!("frozen-{round}"));
            }
            mesh.redis.thaw();
            until_counted(&mesh, "the link after a thaw");
            for used in 1..=20 {
                let answer = ask(&mesh, &format!("thawed-{round}"));
                assert_eq!(
                    answer.number("x-ratelimit-remaining"),
                    100 - used,
                    "{link:?}"
                );
            }
        }
    }
}

#[test]
fn b40_a_cluster_that_envoy_does_not_know_gives_the_outage_answer_at_once() {
    for outage in ["allow", "deny"] {
        let mut policy = policy(outage, "20ms", json!([per_key("sliding-log", "1000/1h")]));
        policy["redis"]["cluster"] = json!("nope");
        let mesh = mesh(Link::RedisProxy, policy).start();
        outage_answers_come_in_time(&mesh, outage, "no such cluster");
    }
}

#[test]
fn an_outage_leaves_no_memory_behind() {
    for link in Link::EVERY {
        let limits = json!([per_key("sliding-log", "1000/1h")]);
        let mut mesh = mesh(link, policy("allow", "20ms", limits)).start();
        let mut client = support::client::Connection::http1(mesh.address());
        let mut send = |mesh: &Mesh, number: usize| {
            let ask = get("/").header("x-api-key", format!("key-{number}"));
            for _ in 0..number {
                let _ = client.send(&ask);
            }
            let _ = mesh.echo.take_seen();
            mesh.envoy().process().resident_kib()
        };
        mesh.redis.stop();
        let _warm = send(&mesh, 500);
        mesh.redis.restart();
        mesh.redis.freeze();
        let before = send(&mesh, 200);
        let after_freeze = send(&mesh, 300);
        mesh.redis.thaw();
        mesh.redis.stop();
        let after = send(&mesh, 2_000);
        let grown = after.saturating_sub(before);
        assert!(
            grown < 2_048,
            "{link:?}: {before} → {after_freeze} → {after} KiB"
        );
    }
}
