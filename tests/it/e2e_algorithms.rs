//! What each algorithm promises, held to from outside: exact sums over a mesh, leases that come back
//! however a request ends, costs that nobody can talk down, and policies changed while they count.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::{Arc, Mutex, PoisonError};
use std::time::{Duration, Instant};

use serde_json::{Value, json};
use support::client::{Answer, Ask, Connection, Pending, at_once, count, get};
use support::config::Link;
use support::envoy::Envoy;
use support::mesh::{Mesh, mesh, per_key, policy, turn};
use support::redis::Redis;
use support::until_within;

/// The algorithms that count units in time: all but `concurrency`.
const OF_UNITS: [&str; 5] = [
    "sliding-log",
    "sliding-window",
    "fixed-window",
    "token-bucket",
    "gcra",
];

/// Long enough that a busy machine never turns a verdict into an outage.
const PATIENT: &str = "5s";
/// How long a test waits for what is to happen.
const WAIT: Duration = Duration::from_secs(8);

/// A limit of `units` an hour that no edge of a window falls into.
fn hourly(algorithm: &str, units: usize) -> Value {
    let mut limit = per_key(algorithm, &format!("{units}/1h"));
    match algorithm {
        "fixed-window" => limit["align"] = json!("first-hit"),
        "token-bucket" | "gcra" => limit["burst"] = json!(units),
        "concurrency" => limit["rate"] = json!(units.to_string()),
        _ => {}
    }
    limit
}

fn one_policy(limit: &Value) -> Value {
    policy("deny", PATIENT, json!([limit]))
}

fn key(key: &str) -> Ask {
    get("/").header("x-api-key", key)
}

fn statuses(mesh: &Mesh, name: &str, times: usize) -> Vec<u16> {
    let ask = key(name);
    (0..times).map(|_| ask.to(mesh.address()).status).collect()
}

#[test]
fn two_envoys_with_four_workers_each_allow_exactly_50_of_200_requests_at_once_by_each_algorithm() {
    for algorithm in ["sliding-window", "fixed-window", "gcra"] {
        let mesh = mesh(Link::Straight, one_policy(&hourly(algorithm, 50)))
            .patient()
            .envoys(2)
            .workers(4)
            .start();
        let addresses = mesh.addresses();
        for round in 0..20 {
            let ask = key(&format!("round-{round}"));
            let asks: Vec<_> = (0..200)
                .map(|number| (addresses[number % 2], ask.clone()))
                .collect();
            let answers = at_once(&asks);
            let case = format!("{algorithm}, round {round}");
            assert_eq!(count(&answers, 200), 50, "{case}");
            assert_eq!(count(&answers, 429), 150, "{case}");
            assert_eq!(mesh.echo.take_seen().len(), 50, "{case}: upstream");
        }
    }
}

/// An upstream that keeps every request until it is told what to do with it.
struct Holding {
    port: u16,
    held: Arc<Mutex<Vec<TcpStream>>>,
}

impl Holding {
    fn start() -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("a port");
        let port = listener.local_addr().expect("an address").port();
        let held = Arc::<Mutex<Vec<TcpStream>>>::default();
        let shared = Arc::clone(&held);
        std::thread::spawn(move || {
            for stream in listener.incoming().flatten() {
                let held = Arc::clone(&shared);
                std::thread::spawn(move || hold(stream, &held));
            }
        });
        Self { port, held }
    }

    fn held(&self) -> usize {
        self.held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .len()
    }

    /// Ends every request that is held: with these bytes, then with the end of the connection.
    fn end(&self, bytes: &[u8]) {
        for mut stream in self
            .held
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
            .drain(..)
        {
            // Whose client has hung up is written to in vain.
            let _ = stream.write_all(bytes);
        }
    }
}

/// Reads a request's head and keeps the connection.
fn hold(mut stream: TcpStream, held: &Mutex<Vec<TcpStream>>) {
    let mut head = Vec::new();
    let mut bytes = [0; 4096];
    while !head.ends_with(b"\r\n\r\n") {
        match stream.read(&mut bytes) {
            Ok(0) | Err(_) => return,
            Ok(read) => head.extend_from_slice(&bytes[..read]),
        }
    }
    held.lock()
        .unwrap_or_else(PoisonError::into_inner)
        .push(stream);
}

const WHOLE: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 2\r\nconnection: close\r\n\r\nok";
const HALF: &[u8] = b"HTTP/1.1 200 OK\r\ncontent-length: 9\r\nconnection: close\r\n\r\nok";

/// Two Envoys before an upstream that holds, with at most three of a client's requests in flight.
struct Seats {
    envoys: Vec<Envoy>,
    upstream: Holding,
    redis: Redis,
    _turn: std::fs::File,
}

impl Seats {
    fn three_for(lease: &str) -> Self {
        let turn = turn();
        let upstream = Holding::start();
        let redis = Redis::start();
        let mut limit = hourly("concurrency", 3);
        limit["lease"] = json!(lease);
        let plan = mesh(Link::Straight, one_policy(&limit)).patient();
        let config = plan.config(redis.port(), upstream.port);
        let envoys = (0..2).map(|_| Envoy::start(&config, 4)).collect();
        Self {
            envoys,
            upstream,
            redis,
            _turn: turn,
        }
    }

    /// Ten requests at once: three are held upstream, and come back from here; seven are refused.
    fn fill(&self, case: &str) -> Vec<(Connection, Pending)> {
        let addresses: Vec<SocketAddr> = self.envoys.iter().map(Envoy::address).collect();
        let mut open: Vec<_> = (0..10)
            .map(|number| Connection::http1(addresses[number % addresses.len()]))
            .collect();
        let pending: Vec<_> = open.iter_mut().map(|one| one.start(&key("a"))).collect();
        let answered = || pending.iter().filter(|one| one.is_answered()).count();
        until_within(WAIT, &format!("{case}: seven refused, three held"), || {
            answered() == 7 && self.upstream.held() == 3
        });
        let (refused, waiting): (Vec<_>, Vec<_>) = open
            .into_iter()
            .zip(pending)
            .partition(|(_, one)| one.is_answered());
        for (_, one) in refused {
            let answer = one.finish().expect("an answer");
            assert_eq!(answer.status, 429, "{case}: {answer:?}");
        }
        waiting
    }

    /// Waits until Redis knows of no lease any more.
    fn until_given_back(&self, case: &str) -> Duration {
        until_within(WAIT, &format!("{case}: the leases to be back"), || {
            self.redis.keys().is_empty()
        })
    }
}

fn finish(waiting: Vec<(Connection, Pending)>) -> Vec<Option<Answer>> {
    waiting
        .into_iter()
        .map(|(_open, one)| one.finish().ok())
        .collect()
}

#[test]
fn three_of_ten_are_in_flight_and_their_leases_come_back_however_the_requests_end() {
    let seats = Seats::three_for("1m");
    let whole = |waiting| {
        seats.upstream.end(WHOLE);
        for answer in finish(waiting) {
            assert_eq!(answer.map(|answer| answer.status), Some(200));
        }
    };

    whole(seats.fill("at first"));
    seats.until_given_back("after answers");

    let waiting = seats.fill("after answers");
    seats.redis.call::<()>(&["SCRIPT", "FLUSH"]);
    whole(waiting);
    seats.until_given_back("after SCRIPT FLUSH");

    drop(seats.fill("after SCRIPT FLUSH"));
    seats.until_given_back("after hang-ups");
    seats.upstream.end(WHOLE);

    let waiting = seats.fill("after hang-ups");
    seats.upstream.end(b"");
    for answer in finish(waiting) {
        assert_eq!(answer.map(|answer| answer.status), Some(503));
    }
    seats.until_given_back("after resets");

    let waiting = seats.fill("after resets");
    seats.upstream.end(HALF);
    assert!(finish(waiting).iter().all(Option::is_none));
    seats.until_given_back("after resets amid the answer");

    whole(seats.fill("at last"));
}

#[test]
fn the_leases_of_a_killed_envoy_free_themselves_when_their_time_is_over_and_not_before() {
    let lease = Duration::from_secs(3);
    let mut seats = Seats::three_for("3s");
    let second = seats.envoys.pop().expect("two Envoys");
    let before = Instant::now();
    let waiting = seats.fill("by the first Envoy");
    drop(std::mem::replace(&mut seats.envoys, vec![second]));
    assert!(finish(waiting).iter().all(Option::is_none));
    seats.upstream.end(b"");
    seats.until_given_back("after the kill");
    assert!(before.elapsed() >= lease, "{:?}", before.elapsed());
    let waiting = seats.fill("by the second Envoy");
    seats.upstream.end(WHOLE);
    assert_eq!(finish(waiting).iter().flatten().count(), 3);
}

#[test]
fn b37_costs_from_a_header_sum_up_exactly_and_no_value_gives_anything_back() {
    for algorithm in OF_UNITS {
        let mut limit = hourly(algorithm, 20);
        limit["cost"] = json!({ "header": "x-cost", "default": 1, "max": 100 });
        let mesh = mesh(Link::Straight, one_policy(&limit)).patient().start();
        let ask = |client: &str, costs: &[&str]| {
            let ask = costs
                .iter()
                .fold(key(client), |ask, cost| ask.header("x-cost", cost));
            let answer = ask.to(mesh.address());
            let left = answer.number("x-ratelimit-remaining");
            let wait = answer.header("retry-after").is_some();
            (answer.status, left, wait)
        };
        for (cost, outcome) in [
            ("5", (200, 15, false)),
            ("7", (200, 8, false)),
            ("9", (429, 8, true)),
            ("8", (200, 0, false)),
            ("1", (429, 0, true)),
        ] {
            assert_eq!(ask("sum", &[cost]), outcome, "{algorithm}, {cost}");
        }
        assert_eq!(ask("big", &["21"]), (429, 20, false), "{algorithm}");
        assert_eq!(ask("big", &["20"]), (200, 0, false), "{algorithm}");
        assert_eq!(ask("hostile", &["10"]), (200, 10, false), "{algorithm}");
        for (costs, outcome) in [
            (&["-5"] as &[&str], (200, 9, false)),
            (&["1.5"], (200, 8, false)),
            (&["1e9"], (200, 7, false)),
            (&["abc"], (200, 6, false)),
            (&["0"], (200, 5, false)),
            (&["9223372036854775808"], (429, 5, false)),
            (&["4", "-4"], (200, 4, false)),
            (&["2", "2"], (200, 3, false)),
            (&[], (200, 2, false)),
            (&["2"], (200, 0, false)),
            (&["-1"], (429, 0, true)),
        ] {
            assert_eq!(ask("hostile", costs), outcome, "{algorithm}, {costs:?}");
        }
    }
}

/// Gives the Envoy this limit and waits until it goes by it.
fn change(mesh: &Mesh, limit: &Value, units: usize) {
    let mut config = mesh.config.clone();
    config.policy(&one_policy(limit));
    assert!(mesh.envoy().reload(&config), "Envoy takes {limit}");
    let units = units.to_string();
    until_within(WAIT, &format!("{limit} to be in force"), || {
        let answer = key(&format!("probe {limit}")).to(mesh.address());
        answer.header("x-ratelimit-limit") == Some(&units)
    });
}

#[test]
fn b22_a_raised_number_frees_at_once_and_keeps_what_was_counted() {
    for algorithm in OF_UNITS {
        let mesh = mesh(Link::Straight, one_policy(&hourly(algorithm, 5)))
            .patient()
            .start();
        assert_eq!(statuses(&mesh, "a", 6)[4..], [200, 429], "{algorithm}");
        change(&mesh, &hourly(algorithm, 8), 8);
        let after = statuses(&mesh, "a", 4);
        assert_eq!(after, [200, 200, 200, 429], "{algorithm}");
    }
}

#[test]
fn b22_a_changed_algorithm_starts_clean_and_meets_no_key_of_another_type() {
    let algorithms = [
        "sliding-log",
        "token-bucket",
        "fixed-window",
        "concurrency",
        "sliding-window",
        "gcra",
    ];
    let first = hourly(algorithms[0], 3);
    let mesh = mesh(Link::Straight, one_policy(&first)).patient().start();
    for (units, algorithm) in (3..).zip(algorithms) {
        change(&mesh, &hourly(algorithm, units), units);
        let got = statuses(&mesh, "a", units + 1);
        assert_eq!(got[..units], vec![200; units], "{algorithm}");
        let last = if algorithm == "concurrency" { 200 } else { 429 };
        assert_eq!(got[units], last, "{algorithm}");
    }
    change(&mesh, &first, 3);
    assert_eq!(statuses(&mesh, "a", 1), [429], "what it was is still there");
    let errors: String = mesh.redis.call(&["INFO", "errorstats"]);
    assert!(!errors.contains("WRONGTYPE"), "{errors}");
}
