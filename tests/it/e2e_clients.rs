//! Whatever clients send, and whenever they leave.

use std::collections::BTreeSet;
use std::time::Duration;

use serde_json::{Value, json};
use support::client::{Connection, Silence, at_once, get, post};
use support::config::Link;
use support::http_text::Raw;
use support::mesh::{Mesh, mesh, per_key, policy};
use support::redis::Redis;
use support::relay::Relay;
use support::until;

const PATIENT: &str = "2s";

fn one_an_hour() -> Value {
    policy("deny", PATIENT, json!([per_key("sliding-log", "1/1h")]))
}

/// The VM of every worker lives: ordinary requests on many connections get ordinary answers.
fn lives(mesh: &Mesh, case: &str) {
    for number in 0..40 {
        let answer = get("/")
            .header("x-api-key", format!("{case} {number}"))
            .to(mesh.address());
        assert_eq!(
            answer.status, 200,
            "after {case}, request {number}: {answer:?}"
        );
    }
}

#[test]
fn b01_bytes_that_are_no_utf_8_count_as_they_are() {
    for link in Link::EVERY {
        let mesh = mesh(link, one_an_hour()).patient().workers(2).start();
        let send = |lines: &[&[u8]]| {
            let mut raw = Raw::to(mesh.address());
            raw.get(b"/", lines);
            raw.answer().0
        };
        // Elsewhere than in the key they do not matter.
        assert_eq!(
            send(&[b"user-agent: bot\xA1\xB1", b"x-api-key: plain"]),
            200
        );
        assert_eq!(
            send(&[b"x-forwarded-for: 1 \xC0\xA7", b"x-api-key: plain"]),
            429
        );
        // In the key, different bytes are different clients.
        for value in [
            b"\xFF".as_slice(),
            b"\xFE",
            b"\xFF\xFE",
            b"\xEF\xBF\xBD",
            b"\xC3",
            b"a\xFF",
        ] {
            let line = [b"x-api-key: ", value].concat();
            assert_eq!(send(&[&line]), 200, "{value:02x?} is a client of its own");
            assert_eq!(send(&[&line]), 429, "{value:02x?} comes twice");
        }
        let mut raw = Raw::to(mesh.address());
        raw.get(b"/\xFF", &[b"x-api-key: path"]);
        assert!([200, 400].contains(&raw.answer().0));
        lives(&mesh, "bytes");
    }
}

#[test]
fn b24_values_made_to_look_like_each_other_are_distinct() {
    let parts = json!([{
        "name": "pair", "key": ["header:x-tenant", "header:x-user"],
        "algorithm": "sliding-log", "rate": "1/1h",
    }]);
    let pairs = [
        ("a", "b:c"),
        ("a:b", "c"),
        ("a", "b|c"),
        ("a|b", "c"),
        ("a", "b/c"),
        ("a/b", "c"),
        ("a", "b_c"),
        ("a_b", "c"),
        ("a", "b%3Ac"),
        ("a%3Ab", "c"),
        ("a", "b\\c"),
        ("a\\b", "c"),
        ("a", "b c"),
        ("a b", "c"),
        ("a", "b%0Ac"),
        ("a%0Ab", "c"),
        ("a", "b%00c"),
        ("a%00b", "c"),
        ("a", "b\tc"),
        ("a\tb", "c"),
        ("a", "}"),
        ("}", "a"),
        ("a", "{"),
        ("{", "a"),
        ("{}", "a"),
        ("a", "{}"),
        ("{a}", "b"),
        ("a", "{b}"),
        ("a}b", "c"),
        ("a", "b}c"),
        ("{{", "a"),
        ("a", "{{"),
        ("a", "b,c"),
        ("a,b", "c"),
        ("a", "b{c"),
        ("*", "?"),
        ("[a]", "b"),
        ("a", "b:c:"),
        ("a:", "b:c"),
    ];
    for link in Link::EVERY {
        let mesh = mesh(link, policy("deny", PATIENT, parts.clone()))
            .patient()
            .workers(2)
            .start();
        for expected in [200, 429] {
            for (tenant, user) in pairs {
                let ask = get("/").header("x-tenant", tenant).header("x-user", user);
                let answer = ask.to(mesh.address());
                assert_eq!(
                    answer.status, expected,
                    "{link:?}: {tenant:?} {user:?}: {answer:?}"
                );
            }
        }
        assert_eq!(
            mesh.redis.keys().len(),
            pairs.len(),
            "one key for each pair"
        );
    }
}

#[test]
fn b64_a_key_of_60_kib_counts_by_all_of_it_and_costs_redis_no_more_than_a_short_one() {
    for link in Link::EVERY {
        let plan = mesh(link, one_an_hour()).patient().workers(2);
        let plan = plan.change(|config| config.manager()["max_request_headers_kb"] = json!(96));
        let mesh = plan.start();
        let long = "secret".repeat(10_000);
        for tail in ["a", "b", "c"] {
            let ask = get("/").header("x-api-key", format!("{long}{tail}"));
            assert_eq!(ask.to(mesh.address()).status, 200, "{link:?} {tail}");
            assert_eq!(ask.to(mesh.address()).status, 429, "{link:?} {tail}");
        }
        let keys = mesh.redis.keys();
        assert_eq!(keys.len(), 3);
        for key in keys {
            let key = String::from_utf8(key).expect("keys are text");
            assert!(key.len() < 200, "{key}");
            assert!(!key.contains("secret"), "{key}");
        }
        assert!(!mesh.envoy().log().contains("secretsecret"));
        lives(&mesh, "long keys");
    }
}

#[test]
fn b07_the_address_is_a_client_whatever_port_it_comes_from_and_whatever_it_says_of_itself() {
    let limits =
        json!([{ "name": "ip", "key": ["ip"], "algorithm": "sliding-log", "rate": "5/1h" }]);
    let mesh = mesh(Link::RedisProxy, policy("deny", PATIENT, limits))
        .patient()
        .workers(2)
        .start();
    let statuses: Vec<u16> = (0..10)
        .map(|number| {
            let ask = get("/").header(
                "x-forwarded-for",
                format!("198.51.100.{number}, 203.0.113.7"),
            );
            ask.to(mesh.address()).status
        })
        .collect();
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429, 429, 429, 429, 429]);
    assert_eq!(mesh.redis.keys().len(), 1);
}

#[test]
fn a_refused_post_never_reaches_the_upstream_and_an_allowed_one_arrives_byte_for_byte_once() {
    let big: Vec<u8> = (0..3_000_000_u32)
        .flat_map(u32::to_le_bytes)
        .take(3_000_000)
        .collect();
    let bodies = [
        Vec::new(),
        b"x".to_vec(),
        b"\0\r\n\r\n\xFF".repeat(5_000),
        big,
    ];
    for link in Link::ALL {
        let mesh = mesh(link, one_an_hour()).patient().workers(2).start();
        for (open, protocol) in [
            (Connection::http1 as fn(_) -> Connection, "HTTP/1.1"),
            (Connection::http2, "HTTP/2"),
        ] {
            for (number, body) in bodies.iter().enumerate() {
                let case = format!("{link:?}, {protocol}, {} bytes", body.len());
                let ask = post("/upload", body.clone())
                    .header("x-api-key", format!("{protocol} {number}"));
                let answer = open(mesh.address()).send(&ask);
                assert_eq!(answer.status, 200, "{case}: {answer:?}");
                assert!(answer.body == *body, "{case}: the body came back otherwise");
                let seen = mesh.echo.take_seen();
                assert_eq!(seen.len(), 1, "{case}");
                assert!(seen[0].body == *body, "{case}: the body arrived otherwise");
                // Refused with its body still on the way: the answer may overtake it and the connection
                // may end there, but the upstream hears nothing of it.
                match open(mesh.address()).try_send(&ask) {
                    Ok(answer) => assert_eq!(answer.status, 429, "{case}"),
                    Err(silence) => {
                        assert!(matches!(silence, Silence::Broken(_)), "{case}: {silence:?}")
                    }
                }
                assert_eq!(mesh.echo.hits(), 0, "{case}");
            }
        }
    }
}

#[test]
fn b29_no_field_has_two_values_when_the_upstream_sends_its_own() {
    let theirs = [
        ("ratelimit-limit", "999"),
        ("ratelimit-policy", "\"theirs\";q=999;w=1"),
        ("ratelimit", "\"theirs\";r=998;t=1"),
        ("x-ratelimit-limit", "999"),
        ("x-ratelimit-remaining", "998"),
        ("x-ratelimit-reset", "997"),
        ("retry-after", "7"),
    ];
    let limits = json!([per_key("sliding-log", "5/1h")]);
    let mesh = mesh(Link::RedisProxy, policy("deny", PATIENT, limits))
        .patient()
        .start();
    for status in [200, 204, 304, 404, 503] {
        mesh.echo.answer_with(status, &theirs);
        let key = format!("for {status}");
        for used in 1..=7 {
            let answer = get("/").header("x-api-key", &key).to(mesh.address());
            assert_eq!(answer.status, if used <= 5 { status } else { 429 });
            for (name, _) in theirs {
                let _at_most_once = answer.header(name);
            }
            assert_eq!(answer.number("x-ratelimit-limit"), 5, "{answer:?}");
            assert_eq!(
                answer.number("x-ratelimit-remaining"),
                (5 - used).max(0),
                "{answer:?}"
            );
            if used > 5 {
                assert!(
                    (1..=3600).contains(&answer.number("retry-after")),
                    "{answer:?}"
                );
            } else if status == 503 {
                assert_eq!(
                    answer.number("retry-after"),
                    7,
                    "the upstream's own wait stands"
                );
            }
        }
    }
}

#[test]
fn b29_no_upstream_at_all_still_answers_once_with_the_numbers_of_this_request() {
    let limits = json!([per_key("sliding-log", "5/1h")]);
    let mut mesh = mesh(Link::RedisProxy, policy("deny", PATIENT, limits))
        .patient()
        .change(|config| config.upstream_port(1))
        .start();
    mesh.echo.answer_with(500, &[]);
    let answer = get("/").header("x-api-key", "a").to(mesh.address());
    assert_eq!(answer.status, 503);
    assert_eq!(answer.number("x-ratelimit-remaining"), 4);
    mesh.redis.restart();
}

#[test]
fn b30_our_own_429_has_each_field_once_and_leaves_the_connection_usable() {
    let limits = json!([per_key("sliding-log", "1/1h")]);
    for link in Link::ALL {
        let mesh = mesh(link, policy("deny", PATIENT, limits.clone()))
            .patient()
            .start();
        for (open, protocol) in [
            (Connection::http1 as fn(_) -> Connection, "HTTP/1.1"),
            (Connection::http2, "HTTP/2"),
        ] {
            let mut connection = open(mesh.address());
            let ask = |key: &str| get("/").header("x-api-key", format!("{protocol} {key}"));
            for (key, status) in [("a", 200), ("a", 429), ("b", 200), ("b", 429), ("a", 429)] {
                let answer = connection.send(&ask(key));
                assert_eq!(answer.status, status, "{protocol}");
                let names: Vec<&str> = answer.headers.keys().map(|name| name.as_str()).collect();
                let unique: BTreeSet<&str> = names.iter().copied().collect();
                assert_eq!(names.len(), unique.len(), "{protocol}: {answer:?}");
                assert_eq!(
                    answer.all("x-ratelimit-limit"),
                    ["1"],
                    "{protocol}: {answer:?}"
                );
                assert_eq!(answer.all("ratelimit").len(), 1, "{protocol}: {answer:?}");
                assert_eq!(
                    answer.all("ratelimit-policy").len(),
                    1,
                    "{protocol}: {answer:?}"
                );
                assert_eq!(
                    answer.all("retry-after").len(),
                    usize::from(status == 429),
                    "{protocol}"
                );
                if status == 429 {
                    let body: Value = serde_json::from_slice(&answer.body).expect("a JSON body");
                    assert!(body.is_object(), "{body}");
                }
            }
        }
    }
}

#[test]
fn b03_a_thousand_clients_that_hang_up_while_they_wait_disturb_nobody() {
    Link::ALL.into_iter().for_each(hang_ups_disturb_nobody);
}

#[test]
fn b03_through_a_gateway_a_thousand_clients_that_hang_up_disturb_nobody() {
    Link::GATEWAYS.into_iter().for_each(hang_ups_disturb_nobody);
}

fn hang_ups_disturb_nobody(link: Link) {
    let redis = Redis::start();
    let relay = Relay::to(redis.port());
    let limits = json!([per_key("sliding-log", "100/1h")]);
    let plan = mesh(link, policy("deny", "8s", limits))
        .patient()
        .workers(2)
        .redis_at(relay.port());
    let mesh = plan
        .change(|config| config.op_timeout("2s"))
        .start_with(redis);
    lives(&mesh, "nothing yet");
    // Long enough that all of a round are asked before the first is answered: through a gateway each
    // has a connection of its own, to be made first.
    let delay = if link.is_gateway() { 800 } else { 250 };
    relay.delay_replies(Duration::from_millis(delay));
    hang_up(&mesh, "warm", 300);
    let before = mesh.envoy().process().resident_kib();
    hang_up(&mesh, "cold", 1_000);
    relay.delay_replies(Duration::ZERO);
    lives(&mesh, "the hang-ups");
    let after = mesh.envoy().process().resident_kib();
    assert!(
        after.saturating_sub(before) < 4_096,
        "{link:?}: {before} → {after} KiB"
    );
}

/// Sends `times` requests over HTTP/1.1 and as many over HTTP/2 and gives each up while Redis is being
/// asked, fifty at a time, with ordinary clients among them.
fn hang_up(mesh: &Mesh, name: &str, times: usize) {
    for round in 0..times / 50 {
        let asked = mesh.redis.calls_of("evalsha");
        let ask = |number: usize| get("/").header("x-api-key", format!("{name} {round} {number}"));
        let mut http1: Vec<_> = (0..50).map(|_| Connection::http1(mesh.address())).collect();
        let mut http2 = Connection::http2(mesh.address());
        let mut waiting = Vec::new();
        for (number, connection) in http1.iter_mut().enumerate() {
            waiting.push(connection.start(&ask(number)));
            waiting.push(http2.start(&ask(number + 50)));
        }
        let others: Vec<_> = (0..4)
            .map(|number| (mesh.address(), ask(number + 100)))
            .collect();
        let ordinary = std::thread::spawn(move || at_once(&others));
        until("Redis to be asked for all of them", || {
            mesh.redis.calls_of("evalsha") >= asked + 100
        });
        let (early, waiting): (Vec<_>, Vec<_>) = waiting
            .into_iter()
            .partition(|pending| pending.is_answered());
        let early: Vec<_> = early.into_iter().map(|pending| pending.finish()).collect();
        assert!(
            early.is_empty(),
            "round {round}: they still wait: {early:?}"
        );
        drop(waiting);
        drop(http1);
        for answer in ordinary.join().expect("the ordinary clients") {
            assert_eq!(answer.status, 200, "{answer:?}");
            assert_eq!(answer.number("x-ratelimit-remaining"), 99, "{answer:?}");
        }
    }
}
