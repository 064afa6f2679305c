//! The filter in the build for Higress, with a real Redis behind the host's Redis call.

use std::io::{Read, Write};
use std::net::TcpStream;
use std::sync::LazyLock;
use std::time::Duration;

use aforo::redis::resp::Reader;
use higress::{Call, Host, Introduction, Program, Response, Stream};
use serde_json::{Value, json};
use support::Module;
use support::redis::Redis;

static PROGRAM: LazyLock<Program> = LazyLock::new(|| Program::compile(&Module::Higress.path()));

const CLUSTER: &str = "outbound|6379||redis.static";

/// A policy with these fields in its section `redis`, whose outages deny.
fn policy(redis: Value, limits: Value) -> Value {
    let mut policy = json!({
        "redis": { "link": "higress", "cluster": CLUSTER, "timeout": "50ms" },
        "outage": "deny", "limits": limits, "control": { "switch": false },
    });
    for (name, value) in redis.as_object().expect("fields") {
        policy["redis"][name] = value.clone();
    }
    policy
}

fn per_key(rate: &str) -> Value {
    json!([{ "name": "per-key", "key": ["header:x-api-key"], "algorithm": "sliding-log", "rate": rate }])
}

fn start(policy: &Value) -> Host {
    let host = Host::start(&PROGRAM, &policy.to_string());
    host.unwrap_or_else(|log| panic!("{log:?}"))
}

fn host(rate: &str) -> Host {
    start(&policy(json!({}), per_key(rate)))
}

fn request(host: &mut Host, key: &str) -> u32 {
    host.request(&[("x-api-key", key)])
}

/// The host's connection to Redis.
struct Line(TcpStream);

impl Line {
    fn to(redis: &Redis) -> Self {
        let stream = TcpStream::connect(("127.0.0.1", redis.port())).expect("Redis");
        let limit = Some(Duration::from_secs(5));
        stream.set_read_timeout(limit).expect("a limit");
        Self(stream)
    }

    /// The bytes of Redis's reply to these bytes.
    fn ask(&mut self, command: &[u8]) -> Vec<u8> {
        self.0.write_all(command).expect("Redis takes a command");
        let (mut reader, mut reply, mut bytes) = (Reader::new(), Vec::new(), [0; 4096]);
        loop {
            let read = self.0.read(&mut bytes).expect("Redis answers");
            assert!(read > 0, "Redis closed the connection");
            reply.extend_from_slice(&bytes[..read]);
            let mut rest = &bytes[..read];
            if reader.read(&mut rest).expect("RESP").is_some() {
                assert!(rest.is_empty(), "one reply to one call");
                return reply;
            }
        }
    }

    /// Answers every call, and those that the answers bring about. How many they were.
    fn serve(&mut self, host: &mut Host) -> usize {
        let mut served = 0;
        loop {
            let calls = host.calls();
            if calls.is_empty() {
                return served;
            }
            for call in calls {
                assert_eq!(call.cluster, CLUSTER);
                let reply = self.ask(&call.command);
                host.answer(&call, &reply);
                served += 1;
            }
        }
    }
}

fn refusal(stream: Stream) -> Response {
    match stream {
        Stream::Refused(response) => response,
        other => panic!("{other:?}"),
    }
}

fn field<'f>(fields: &'f [(String, String)], name: &str) -> Option<&'f str> {
    let found = fields.iter().find(|(known, _)| known == name)?;
    Some(&found.1)
}

/// The only call.
fn one(host: &mut Host) -> Call {
    let mut calls = host.calls();
    assert_eq!(calls.len(), 1, "{calls:?}");
    calls.remove(0)
}

fn is_denied_by_an_outage(host: &mut Host, id: u32) {
    let response = refusal(host.stream(id));
    assert_eq!(response.status, 503, "{response:?}");
    assert!(field(&response.fields, "retry-after").is_some());
    assert!(field(&response.fields, "x-ratelimit-remaining").is_none());
    host.end(id);
}

#[test]
fn three_pass_and_the_rest_are_refused_with_their_headers() {
    let redis = Redis::start();
    let (mut host, mut line) = (host("3/1h"), Line::to(&redis));
    for remaining in ["2", "1", "0"] {
        let id = request(&mut host, "a");
        assert_eq!(host.stream(id), Stream::Waits);
        line.serve(&mut host);
        assert_eq!(host.stream(id), Stream::Passed);
        let fields = host.respond(id);
        assert_eq!(field(&fields, "x-ratelimit-remaining"), Some(remaining));
        assert_eq!(
            field(&fields, "ratelimit-policy"),
            Some(r#""per-key";q=3;w=3600"#)
        );
        host.end(id);
    }
    for _ in 0..2 {
        let id = request(&mut host, "a");
        line.serve(&mut host);
        let Response { status, fields } = refusal(host.stream(id));
        assert_eq!(status, 429);
        assert_eq!(field(&fields, "x-ratelimit-remaining"), Some("0"));
        let after = field(&fields, "retry-after").expect("when to come back");
        assert!((3_000..=3_600).contains(&after.parse().unwrap()), "{after}");
        host.end(id);
    }
    let other = request(&mut host, "b");
    line.serve(&mut host);
    assert_eq!(host.stream(other), Stream::Passed);
    // The script goes whole once, by its digest after that.
    assert_eq!((redis.calls_of("eval"), redis.calls_of("evalsha")), (1, 6));
    host.pass_time(10);
    assert!(!host.ticks(), "nothing is under way");
}

#[test]
fn several_under_way_are_answered_in_any_order_each_with_its_own() {
    let redis = Redis::start();
    let (mut host, mut line) = (host("1/1h"), Line::to(&redis));
    let warm = request(&mut host, "warm");
    line.serve(&mut host);
    host.end(warm);
    let ids: Vec<u32> = (0..6)
        .map(|n| request(&mut host, &format!("{}", n / 2)))
        .collect();
    let calls = host.calls();
    assert_eq!(calls.len(), 6, "none waits for another");
    let replies: Vec<_> = calls.iter().map(|call| line.ask(&call.command)).collect();
    for (call, reply) in calls.iter().zip(replies).rev() {
        host.answer(call, &reply);
    }
    for (number, id) in ids.into_iter().enumerate() {
        match (number % 2, host.stream(id)) {
            (0, Stream::Passed) => {}
            (1, Stream::Refused(response)) => assert_eq!(response.status, 429),
            other => panic!("{number}: {other:?}"),
        }
    }
}

#[test]
fn redis_is_introduced_once_with_its_password_and_again_when_it_was_forgotten() {
    let redis = Redis::start_in(
        support::Dir::temporary("redis"),
        &["--requirepass", "s3cret"],
    );
    let login = json!({ "username": "default", "password": "s3cret" });
    let mut host = start(&policy(login, per_key("5/1h")));
    assert!(host.introductions().is_empty(), "not before it is needed");
    let mut line = Line::to(&redis);
    let first = request(&mut host, "a");
    let expected = Introduction {
        cluster: CLUSTER.to_owned(),
        user: "default".to_owned(),
        password: "s3cret".to_owned(),
        timeout: 1_050,
    };
    assert_eq!(host.introductions(), std::slice::from_ref(&expected));
    // A line that says no password, as after another plugin's introduction.
    line.serve(&mut host);
    is_denied_by_an_outage(&mut host, first);
    let second = request(&mut host, "a");
    assert_eq!(host.introductions(), [expected.clone(), expected]);
    assert_eq!(line.ask(b"AUTH default s3cret\r\n"), b"+OK\r\n");
    line.serve(&mut host);
    assert_eq!(host.stream(second), Stream::Passed);
    let third = request(&mut host, "a");
    line.serve(&mut host);
    assert_eq!(host.stream(third), Stream::Passed);
    assert_eq!(host.introductions().len(), 2);
    assert!(!host.log().iter().any(|line| line.contains("s3cret")));
}

#[test]
fn a_cluster_that_the_host_does_not_know_is_an_outage_at_once_and_one_line() {
    let redis = Redis::start();
    let (mut host, mut line) = (host("5/1h"), Line::to(&redis));
    host.know_the_cluster(false);
    for _ in 0..3 {
        let id = request(&mut host, "a");
        is_denied_by_an_outage(&mut host, id);
    }
    let lines = host.log().iter().filter(|line| line.contains(CLUSTER));
    assert_eq!(lines.count(), 1, "{:?}", host.log());
    host.know_the_cluster(true);
    let id = request(&mut host, "a");
    line.serve(&mut host);
    assert_eq!(host.stream(id), Stream::Passed);
}

#[test]
fn without_redis_the_outage_answer_comes_at_the_deadline_and_the_late_reply_is_nobodys() {
    let redis = Redis::start();
    let (mut host, mut line) = (host("5/1h"), Line::to(&redis));
    let id = request(&mut host, "a");
    let call = one(&mut host);
    host.pass_time(45);
    assert_eq!(host.stream(id), Stream::Waits, "it has 50 ms");
    host.pass_time(10);
    is_denied_by_an_outage(&mut host, id);
    assert_eq!(host.metric("aforo_outages_total.cause.timeout"), 1);
    let next = request(&mut host, "b");
    host.answer(&call, b"*4\r\n:0\r\n:0\r\n:9\r\n:9\r\n");
    assert_eq!(host.stream(next), Stream::Waits, "that was for another");
    line.serve(&mut host);
    assert_eq!(host.stream(next), Stream::Passed);
    host.answer(&call, b"*4\r\n:0\r\n:0\r\n:9\r\n:9\r\n");
    host.fail(&call);
    host.pass_time(2_000);
    assert!(!host.ticks(), "nothing is under way");
}

#[test]
fn a_call_that_fails_is_an_outage_at_once_even_before_its_token_is_known() {
    let redis = Redis::start();
    let (mut host, mut line) = (host("5/1h"), Line::to(&redis));
    let id = request(&mut host, "a");
    let call = one(&mut host);
    host.fail(&call);
    is_denied_by_an_outage(&mut host, id);
    host.fail_at_once(true);
    let id = request(&mut host, "a");
    is_denied_by_an_outage(&mut host, id);
    host.fail_at_once(false);
    let id = request(&mut host, "a");
    line.serve(&mut host);
    assert_eq!(host.stream(id), Stream::Passed);
}

#[test]
fn errors_and_nonsense_are_outages_and_an_unknown_script_is_sent_whole() {
    let mut redis = Redis::start();
    let mut policy = policy(json!({}), per_key("5/1h"));
    policy["redis"]["breaker"] = json!({ "failures": 10_000, "least_requests": 100_000 });
    let mut host = start(&policy);
    for (reply, cause) in [
        (
            "-READONLY You can't write against a read only replica.\r\n",
            "readonly",
        ),
        (
            "-LOADING Redis is loading the dataset in memory\r\n",
            "loading",
        ),
        ("-WRONGTYPE Operation against a key\r\n", "wrongtype"),
        ("-NOAUTH Authentication required.\r\n", "noauth"),
        ("$-1\r\n", "garbage"),
        ("*1\r\n:1\r\n", "garbage"),
        ("*4\r\n:1\r\n", "garbage"),
        (":1\r\n:1\r\n", "garbage"),
        ("", "garbage"),
    ] {
        let name = format!("aforo_outages_total.cause.{cause}");
        let before = host.metric(&name);
        let id = request(&mut host, "a");
        let call = one(&mut host);
        host.answer(&call, reply.as_bytes());
        is_denied_by_an_outage(&mut host, id);
        host.pass_time(10);
        assert_eq!(host.metric(&name) - before, 1, "{reply:?}");
    }
    let mut line = Line::to(&redis);
    let id = request(&mut host, "a");
    assert_eq!(line.serve(&mut host), 2, "EVALSHA, then EVAL");
    assert_eq!(host.stream(id), Stream::Passed);
    // A key of another type, as Redis itself says it.
    let key = String::from_utf8(redis.keys().remove(0)).expect("text");
    redis.call::<()>(&["DEL", &key]);
    redis.call::<()>(&["SET", &key, "text"]);
    let id = request(&mut host, "a");
    line.serve(&mut host);
    is_denied_by_an_outage(&mut host, id);
    redis.restart();
    let mut line = Line::to(&redis);
    let id = request(&mut host, "a");
    line.serve(&mut host);
    assert_eq!(host.stream(id), Stream::Passed);
}

#[test]
fn a_lease_is_given_back_at_the_end_also_of_a_request_that_left_early() {
    let redis = Redis::start();
    let limits = json!([{ "name": "at-once", "key": ["header:x-api-key"],
                          "algorithm": "concurrency", "rate": 1 }]);
    let (mut host, mut line) = (start(&policy(json!({}), limits)), Line::to(&redis));
    for _ in 0..3 {
        let (first, second) = (request(&mut host, "a"), request(&mut host, "a"));
        line.serve(&mut host);
        assert_eq!(host.stream(first), Stream::Passed);
        assert_eq!(refusal(host.stream(second)).status, 429);
        host.end(first);
        host.end(second);
        line.serve(&mut host);
    }
    let early = request(&mut host, "a");
    host.end(early);
    line.serve(&mut host);
    assert_eq!(redis.keys(), Vec::<Vec<u8>>::new());
}

#[test]
fn the_switch_and_a_pushed_policy_of_several_slices_arrive() {
    let redis = Redis::start();
    let mut own = policy(json!({}), per_key("1/1h"));
    own["control"] = json!({ "policy": true });
    let (mut host, mut line) = (start(&own), Line::to(&redis));
    // The status of the last request of some that come within two seconds.
    let mut later = |host: &mut Host, key: &str| {
        let mut last = 0;
        for _ in 0..20 {
            host.pass_time(100);
            let id = request(host, key);
            line.serve(host);
            last = match host.stream(id) {
                Stream::Passed => 200,
                Stream::Refused(response) => response.status,
                Stream::Waits => panic!("nothing is owed"),
            };
            host.end(id);
            line.serve(host);
        }
        last
    };
    assert_eq!(later(&mut host, "a"), 429);
    redis.call::<()>(&["SET", "aforo:control", "shadow"]);
    assert_eq!(later(&mut host, "a"), 200, "the switch is on");
    let mut pushed = json!({ "limits": per_key("1000/1h") });
    pushed["limits"][0]["missing"] = json!(["ip"]);
    let values = (0..6_000).map(|number| format!("client-{number:020}"));
    pushed["limits"][0]["overrides"] =
        json!([{ "match": values.collect::<Vec<_>>(), "rate": "1/1h" }]);
    let text = pushed.to_string();
    assert!(text.len() > 3 * 48 * 1024, "several slices");
    redis.call::<()>(&["SET", "aforo:policy:{aforo:control}:7", &text]);
    redis.call::<()>(&["SET", "aforo:control", "policy=7"]);
    assert_eq!(later(&mut host, "b"), 200);
    assert_eq!(later(&mut host, "client-00000000000000005999"), 429);
    assert_eq!(host.metric("aforo_policy_workers.version.7"), 1);
}

#[test]
fn another_build_refuses_the_link_and_says_which_one_it_needs() {
    let other = Program::compile(&Module::Aforo.path());
    let policy = policy(json!({}), per_key("5/1h")).to_string();
    let log = Host::start(&other, &policy).err().expect("it is refused");
    let said = log.iter().find(|line| line.contains("redis.link"));
    let said = said.unwrap_or_else(|| panic!("{log:?}"));
    assert!(said.contains("--features higress"), "{said}");
}
