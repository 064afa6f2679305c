//! What is of HTTP gateways alone: their errors inside answers, their own failures, and how many calls
//! they get. What every way to Redis promises stands in `e2e_links` and, where it is about outages and
//! clients, in the other end-to-end tests.

use std::io::Write as _;
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use serde_json::{Value, json};
use support::client::{Answer, at_once, count, get};
use support::config::{Config, Link};
use support::http_stub::{HttpStub, response};
use support::load::Load;
use support::mesh::{Mesh, mesh, per_key, policy};
use support::redis::Redis;
use support::stub::Act;
use support::webdis::Webdis;
use support::{until, until_within};

const PATIENT: &str = "2s";

fn ask(mesh: &Mesh, key: &str) -> Answer {
    get("/").header("x-api-key", key).to(mesh.address())
}

fn statuses(mesh: &Mesh, key: &str, times: usize) -> Vec<u16> {
    (0..times).map(|_| ask(mesh, key).status).collect()
}

/// The outage answer, with no numbers that nobody knows.
fn is_an_outage(answer: &Answer, outage: &str, case: &str) {
    let status = if outage == "allow" { 200 } else { 503 };
    assert_eq!(answer.status, status, "{case}: {answer:?}");
    for name in ["ratelimit", "ratelimit-policy", "x-ratelimit-remaining"] {
        assert!(answer.header(name).is_none(), "{case}: {answer:?}");
    }
}

/// A breaker that lets each request ask, however many failed before it.
fn never_opens() -> Value {
    json!({ "failures": 10_000, "least_requests": 100_000 })
}

fn outages_of(mesh: &Mesh, cause: &str) -> u64 {
    let name = format!("wasmcustom.aforo_outages_total.cause.{cause}");
    mesh.envoy().stat(&name)
}

#[test]
fn b02_an_answer_that_makes_no_sense_is_an_outage_in_time_and_the_next_good_one_counts() {
    let partial = b"HTTP/1.1 200 OK\r\ncontent-length: 100\r\n\r\n{\"EVA".to_vec();
    let large = vec![b' '; 5 * 1024 * 1024];
    let html = b"<html><body>It works!</body></html>";
    let half = br#"{"EVALSHA":[1,9"#;
    let cases: Vec<(&str, Act)> = vec![
        ("closed", Act::Close),
        ("no answer", Act::Silence),
        ("reset after headers", Act::Last(partial)),
        ("no HTTP", Act::reply(b"+OK\r\n")),
        ("503, empty", Act::reply(&response("503 Unavailable", b""))),
        ("403", Act::reply(&response("403 Forbidden", b""))),
        ("404", Act::reply(&response("404 Not Found", html))),
        ("200, empty", Act::reply(&response("200 OK", b""))),
        ("200, half", Act::reply(&response("200 OK", half))),
        ("200, a page", Act::reply(&response("200 OK", html))),
        ("200, 5 MiB", Act::reply(&response("200 OK", &large))),
        ("204", Act::reply(b"HTTP/1.1 204 No Content\r\n\r\n")),
    ];
    for link in Link::GATEWAYS {
        for outage in ["allow", "deny"] {
            let stub = HttpStub::start(|_| Act::Silence);
            let mut policy = policy(outage, "100ms", json!([per_key("sliding-log", "10/1h")]));
            policy["redis"]["breaker"] = never_opens();
            policy["control"] = json!({ "switch": false });
            let mesh = mesh(link, policy).gateway_at(stub.port()).start();
            for (name, act) in &cases {
                let act = act.clone();
                stub.from_now_on(move |_| act.clone());
                for _ in 0..5 {
                    let case = format!("{link:?}, {outage}, {name}");
                    let hits = mesh.echo.hits();
                    let answer = ask(&mesh, "a");
                    is_an_outage(&answer, outage, &case);
                    let passed = usize::from(outage == "allow");
                    assert_eq!(mesh.echo.hits() - hits, passed, "{case}");
                    assert!(
                        answer.took < Duration::from_millis(500),
                        "{case}: {answer:?}"
                    );
                }
            }
            let good = match link {
                Link::Webdis => br#"{"EVALSHA":[1,7,0,60000000]}"#.as_slice(),
                _ => br#"{"result":[1,7,0,60000000]}"#,
            };
            stub.from_now_on(move |call| Act::reply(&response("200 OK", &call.wrap(good))));
            until("the gateway to be well again", || {
                ask(&mesh, "a").header("x-ratelimit-remaining") == Some("7")
            });
            for cause in [
                "lost",
                "timeout",
                "garbage",
                "gateway_down",
                "gateway_forbids",
            ] {
                until("the outages to be counted", || outages_of(&mesh, cause) > 0);
            }
        }
    }
}

#[test]
fn b05_an_error_of_redis_is_an_outage_whatever_it_is_wrapped_in() {
    let errors = [
        (
            "READONLY You can't write against a read only replica.",
            "readonly",
        ),
        (
            "OOM command not allowed when used memory > 'maxmemory'.",
            "oom",
        ),
        ("LOADING Redis is loading the dataset in memory", "loading"),
        ("MASTERDOWN Link with MASTER is down", "masterdown"),
        ("CLUSTERDOWN The cluster is down", "clusterdown"),
        ("BUSY Redis is busy running a script.", "busy"),
        ("NOAUTH Authentication required.", "noauth"),
        ("NOPERM this user has no permissions", "noperm"),
        ("WRONGTYPE Operation against a key", "wrongtype"),
        ("NOSCRIPT No matching script.", "noscript"),
        ("ERR unknown command 'EVALSHA'", "unknown_command"),
    ];
    for link in Link::GATEWAYS {
        for outage in ["allow", "deny"] {
            let stub = HttpStub::start(|_| Act::Silence);
            let mut policy = policy(outage, "1s", json!([per_key("sliding-log", "10/1h")]));
            policy["redis"]["breaker"] = never_opens();
            policy["control"] = json!({ "switch": false });
            let mesh = mesh(link, policy).gateway_at(stub.port()).start();
            for (text, cause) in errors {
                let (status, reply) = match link {
                    Link::Webdis => ("200 OK", json!({ "EVALSHA": [false, text] })),
                    _ => ("400 Bad Request", json!({ "error": text })),
                };
                let reply = reply.to_string();
                stub.from_now_on(move |call| {
                    Act::reply(&response(status, &call.wrap(reply.as_bytes())))
                });
                let before = stub.asked().len();
                for _ in 0..3 {
                    is_an_outage(
                        &ask(&mesh, "a"),
                        outage,
                        &format!("{link:?}, {outage}, {text}"),
                    );
                }
                let asked = stub.asked().len() - before;
                // An unknown script is sent whole, once.
                let expected = if cause == "noscript" { 6 } else { 3 };
                assert_eq!(asked, expected, "{link:?}, {text}");
                until("the outages to be counted", || {
                    outages_of(&mesh, cause) == 3
                });
            }
        }
    }
}

#[test]
fn b40_a_gateway_that_envoy_does_not_know_gives_the_outage_answer_at_once_and_one_line() {
    for link in Link::GATEWAYS {
        for outage in ["allow", "deny"] {
            let mut policy = policy(outage, "5s", json!([per_key("sliding-log", "10/1h")]));
            policy["redis"]["cluster"] = json!("nope");
            let mesh = mesh(link, policy).start();
            for _ in 0..20 {
                let answer = ask(&mesh, "a");
                is_an_outage(&answer, outage, &format!("{link:?}"));
                assert!(answer.took < Duration::from_millis(500), "{answer:?}");
            }
            until("the outages to be counted", || {
                outages_of(&mesh, "unreachable") > 0
            });
            let log = mesh.envoy().log();
            let lines = log.lines().filter(|line| line.contains("\"nope\"")).count();
            assert_eq!(lines, 1, "{log}");
        }
    }
}

#[test]
fn a_gateway_that_refuses_connections_is_an_outage_in_time() {
    for link in Link::GATEWAYS {
        let limits = json!([per_key("sliding-log", "10/1h")]);
        let mesh = mesh(link, policy("deny", "100ms", limits))
            .gateway_at(1)
            .start();
        for _ in 0..20 {
            let answer = ask(&mesh, "a");
            is_an_outage(&answer, "deny", &format!("{link:?}"));
            assert!(answer.took < Duration::from_millis(500), "{answer:?}");
        }
    }
}

#[test]
fn b55_a_webdis_that_freezes_dies_or_loses_redis_is_an_outage_and_right_again_within_two_seconds() {
    let limits = json!([per_key("sliding-log", "1000/1h")]);
    let mut mesh = mesh(Link::Webdis, policy("allow", "100ms", limits)).start();
    let counted = |mesh: &Mesh, case: &str| {
        until_within(
            Duration::from_secs(2),
            &format!("a verdict after {case}"),
            || ask(mesh, "a").header("x-ratelimit-remaining").is_some(),
        );
    };
    counted(&mesh, "the start");
    let silent = |mesh: &Mesh, case: &str| {
        for _ in 0..10 {
            is_an_outage(&ask(mesh, "a"), "allow", case);
        }
    };
    for round in 0..5 {
        mesh.redis.stop();
        silent(&mesh, "Redis is stopped");
        mesh.redis.restart();
        counted(&mesh, &format!("restart {round} of Redis"));
        mesh.redis
            .call::<i64>(&["CLIENT", "KILL", "TYPE", "normal"]);
        counted(&mesh, "its connections were killed");
    }
    let webdis = |mesh: &mut Mesh| {
        mesh.gateway
            .as_mut()
            .expect("a gateway")
            .webdis()
            .process()
            .pid()
    };
    let pid = webdis(&mut mesh);
    mesh.gateway
        .as_mut()
        .expect("a gateway")
        .webdis()
        .process()
        .freeze();
    silent(&mesh, "Webdis is frozen");
    mesh.gateway
        .as_mut()
        .expect("a gateway")
        .webdis()
        .process()
        .thaw();
    counted(&mesh, "a freeze of Webdis");
    mesh.gateway.as_mut().expect("a gateway").webdis().stop();
    silent(&mesh, "Webdis is dead");
    mesh.gateway.as_mut().expect("a gateway").webdis().restart();
    counted(&mesh, "a new Webdis");
    assert_ne!(webdis(&mut mesh), pid);
}

#[test]
fn webdis_lets_in_whom_its_access_list_names_and_the_secret_stays_out_of_the_log() {
    let access = json!([
        { "disabled": ["*"] },
        { "http_basic_auth": "aforo:open sesame", "enabled": ["EVAL", "EVALSHA", "GET"] },
    ]);
    for (password, expected) in [
        ("open sesame", [200, 429, 429]),
        ("a guess of it", [503; 3]),
    ] {
        let redis = Redis::start();
        let webdis = Webdis::start(redis.port(), &access);
        let mut policy = policy("deny", PATIENT, json!([per_key("sliding-log", "1/1h")]));
        policy["redis"]["username"] = json!("aforo");
        policy["redis"]["password"] = json!(password);
        let plan = mesh(Link::Webdis, policy).patient();
        let mesh = plan.gateway_at(webdis.address().port()).start_with(redis);
        assert_eq!(statuses(&mesh, "a", 3), expected, "{password}");
        assert!(!mesh.envoy().log().contains(password));
    }
}

#[test]
fn a_wrong_token_is_an_outage_and_stays_out_of_the_log() {
    let limits = json!([per_key("sliding-log", "1/1h")]);
    let plan = mesh(Link::Upstash, policy("deny", PATIENT, limits)).patient();
    let wrong = |config: &mut support::config::Config| {
        let mut policy: Value = serde_json::from_str(
            config.aforo()["configuration"]["value"]
                .as_str()
                .expect("a policy"),
        )
        .expect("JSON");
        policy["redis"]["token"] = json!("a-guess-of-the-token");
        config.policy(&policy);
    };
    let mesh = plan.change(wrong).start();
    assert_eq!(statuses(&mesh, "a", 3), [503; 3]);
    until("the outages to be counted", || {
        outages_of(&mesh, "wrongpass") == 3
    });
    assert!(!mesh.envoy().log().contains("a-guess-of-the-token"));
}

#[test]
fn several_decisions_under_way_never_wait_for_one_another() {
    for link in Link::GATEWAYS {
        let delay = Duration::from_millis(300);
        let good = match link {
            Link::Webdis => br#"{"EVALSHA":[1,7,0,60000000]}"#.as_slice(),
            _ => br#"{"result":[1,7,0,60000000]}"#,
        };
        let stub = HttpStub::start(move |call| {
            Act::reply_after(delay, &response("200 OK", &call.wrap(good)))
        });
        let mut policy = policy("deny", "5s", json!([per_key("sliding-log", "10/1h")]));
        policy["control"] = json!({ "switch": false });
        let mesh = mesh(link, policy).gateway_at(stub.port()).start();
        let one = (mesh.address(), get("/").header("x-api-key", "a"));
        let started = std::time::Instant::now();
        let answers = at_once(&vec![one; 40]);
        assert_eq!(count(&answers, 200), 40, "{link:?}");
        let took = started.elapsed();
        assert!(
            took < delay * 10,
            "{link:?}: 40 took {took:?} at {delay:?} each"
        );
        assert_eq!(stub.asked().len(), 40, "one call a request");
    }
}

#[test]
fn a_lease_is_given_back_at_the_end_of_the_request_and_when_its_client_hangs_up() {
    for link in Link::GATEWAYS {
        let limits = json!([{
            "name": "at-once", "key": ["header:x-api-key"], "algorithm": "concurrency", "rate": 3,
        }]);
        let mut policy = policy("deny", PATIENT, limits);
        // So that each call is a take or a give-back.
        policy["control"] = json!({ "switch": false });
        let mesh = mesh(link, policy).patient().start();
        for _ in 0..10 {
            assert_eq!(ask(&mesh, "a").status, 200, "{link:?}");
        }
        until("the leases to be given back", || {
            mesh.redis.keys().is_empty()
        });
        let run = || mesh.redis.calls_of("evalsha") + mesh.redis.calls_of("eval");
        let before = run();
        // Behind a Redis that does not answer, clients leave while their take is on its way.
        mesh.redis.freeze();
        let hasty = get("/").header("x-api-key", "a");
        let mut connections: Vec<_> = (0..3)
            .map(|_| support::client::Connection::http1(mesh.address()))
            .collect();
        let waiting: Vec<_> = connections.iter_mut().map(|c| c.start(&hasty)).collect();
        until("the three to be asked", || {
            mesh.envoy()
                .stat("cluster.aforo-gateway.upstream_rq_active")
                >= 3
        });
        drop(waiting);
        drop(connections);
        until("the three to be gone", || {
            mesh.envoy().stat("http.http.downstream_rq_active") == 0
        });
        mesh.redis.thaw();
        until("their leases to be taken and given back", || {
            run() >= before + 6 && mesh.redis.keys().is_empty()
        });
        for _ in 0..5 {
            assert_eq!(ask(&mesh, "a").status, 200, "{link:?}");
        }
    }
}

#[test]
fn b72_reloads_under_load_lose_no_request_and_no_count() {
    for link in Link::GATEWAYS {
        let limits = json!([per_key("sliding-log", "50/1h")]);
        let policy = support::mesh::through(link, policy("deny", "2s", limits));
        let mesh = mesh(link, policy.clone()).patient().workers(2).start();
        let ask = get("/").header("x-api-key", "b");
        let load = Load::start(&mesh.addresses(), 8, Duration::from_millis(5), &ask);
        until("the load to run", || mesh.echo.hits() > 10);
        for round in 0..6 {
            let mut config = mesh.config.clone();
            config.policy_text(&format!("{}{policy}", " ".repeat(round + 1)));
            config.listener("http")["metadata"] =
                json!({ "filter_metadata": { "reload": { "round": round } } });
            assert!(mesh.envoy().reload(&config), "{link:?}: Envoy takes it");
        }
        until("the limit to be reached", || mesh.echo.hits() == 50);
        assert_eq!(ask.to(mesh.address()).status, 429, "{link:?}");
        let outcomes = load.stop();
        let odd = outcomes
            .iter()
            .find(|outcome| ![200, 429].contains(&outcome.status()));
        assert!(odd.is_none(), "{link:?}: {odd:?}");
        let allowed = outcomes
            .iter()
            .filter(|outcome| outcome.status() == 200)
            .count();
        assert_eq!(allowed, 50, "{link:?}: of {}", outcomes.len());
    }
}

/// Asks Webdis something and hangs up before the answer, again and again until it is dropped.
struct Quitters(Arc<AtomicBool>, Vec<JoinHandle<()>>);

impl Quitters {
    fn at(address: SocketAddr) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let quit = move |stop: Arc<AtomicBool>| {
            while !stop.load(Ordering::Relaxed) {
                let Ok(mut stream) = TcpStream::connect(address) else {
                    continue;
                };
                // A reply that one of ours could be.
                let body = "EVAL/return%20%7B1%2C7%2C0%2C1%7D/0";
                let length = body.len();
                std::thread::sleep(Duration::from_micros(100));
                let _ = write!(
                    stream,
                    "POST /?jsonp=another HTTP/1.1\r\nHost: w\r\nContent-Length: {length}\r\n\r\n{body}"
                );
            }
        };
        let threads = (0..4).map(|_| {
            let stop = Arc::clone(&stop);
            std::thread::spawn(move || quit(stop))
        });
        Self(Arc::clone(&stop), threads.collect())
    }
}

impl Drop for Quitters {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
        self.1.drain(..).for_each(|thread| drop(thread.join()));
    }
}

#[test]
fn b58_replies_that_webdis_gives_to_the_wrong_client_are_nobodys_verdict() {
    let mut policy = policy("deny", "1s", json!([per_key("sliding-log", "2/1h")]));
    policy["redis"]["breaker"] = never_opens();
    // A connection for each call: the descriptors of those who quit are taken by ours.
    let fresh = |config: &mut Config| {
        let options = &mut config.cluster("aforo-gateway")["typed_extension_protocol_options"];
        options["envoy.extensions.upstreams.http.v3.HttpProtocolOptions"]["common_http_protocol_options"]
            ["max_requests_per_connection"] = json!(1);
    };
    let plan = mesh(Link::Webdis, policy).workers(2).patient();
    let mut mesh = plan.change(fresh).start();
    let webdis = mesh.gateway.as_mut().expect("a gateway").webdis().address();
    let _quitters = Quitters::at(webdis);
    let mut asked = 0;
    until_within(Duration::from_secs(30), "Webdis to mix up replies", || {
        // Eight keys, each four times at once: whoever gets another's reply, no key gets more than two.
        let asks: Vec<_> = (0..32)
            .map(|n| {
                (
                    mesh.address(),
                    get("/").header("x-api-key", format!("{asked}-{}", n % 8)),
                )
            })
            .collect();
        asked += 1;
        let answers = at_once(&asks);
        for key in 0..8 {
            let own = answers.iter().skip(key).step_by(8);
            let passed = own.filter(|answer| answer.status == 200).count();
            assert!(passed <= 2, "{passed} of round {asked}, key {key}");
        }
        outages_of(&mesh, "foreign") >= 5
    });
}
