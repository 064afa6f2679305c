//! What a client really gets: answers on the wire, through Envoy.

use std::process::Command;
use std::time::Duration;

use serde_json::{Value, json};
use support::client::{Answer, Ask, Connection, at_once, get, post};
use support::config::{Config, Link};
use support::mesh::{Plan, mesh, per_key, policy};

/// Long enough that a busy machine never turns a verdict into an outage.
const PATIENT: &str = "2s";

/// One limit by API key, with this `reply` section.
fn plan(rate: &str, reply: Value) -> Plan {
    let mut policy = policy("deny", PATIENT, json!([per_key("sliding-log", rate)]));
    policy["reply"] = reply;
    mesh(Link::Straight, policy)
}

fn ask(key: &str) -> Ask {
    get("/").header("x-api-key", key)
}

/// Fails when a field stands twice.
fn once_each(answer: &Answer) {
    for name in answer.headers.keys() {
        let _ = answer.header(name.as_str());
    }
}

const STATE: [&str; 5] = [
    "x-ratelimit-limit",
    "x-ratelimit-remaining",
    "x-ratelimit-reset",
    "ratelimit-policy",
    "ratelimit",
];

#[test]
fn b30_every_answer_has_one_of_each_field_and_the_connection_stays_usable() {
    let mesh = plan("1/1m", json!({})).start();
    for (mut connection, key) in [
        (Connection::http1(mesh.address()), "one"),
        (Connection::http2(mesh.address()), "two"),
    ] {
        for (turn, status) in [200, 429, 429].into_iter().enumerate() {
            let answer = connection.send(&ask(key));
            assert_eq!(answer.status, status, "{key}, request {turn}");
            once_each(&answer);
            for field in STATE {
                assert!(answer.header(field).is_some(), "{key}, {turn}: no {field}");
            }
            assert_eq!(answer.header("x-ratelimit-remaining"), Some("0"));
            assert_eq!(
                answer.header("ratelimit-policy"),
                Some(r#""per-key";q=1;w=60"#)
            );
            assert_eq!(answer.header("retry-after").is_some(), status == 429);
            assert!((1..=60).contains(&answer.number("x-ratelimit-reset")));
        }
        let refused = connection.send(&ask(key));
        assert_eq!(
            refused.header("content-type"),
            Some("application/problem+json")
        );
        assert_eq!(refused.header("x-envoy-ratelimited"), Some("true"));
        assert_eq!(refused.header("cache-control"), Some("no-store"));
        let body: Value = serde_json::from_slice(&refused.body).expect("JSON");
        assert_eq!(body["violated-policies"], json!(["per-key"]));
        assert_eq!(body["retry_after"], refused.number("retry-after"));
    }
    let head = ask("one").method("HEAD").to(mesh.address());
    assert_eq!((head.status, head.body.len()), (429, 0));
    assert_eq!(mesh.echo.hits(), 2, "a refused request reaches no upstream");
}

/// Two lines of one field, other families' fields, and a `Retry-After` that is none of ours.
const THEIRS: [(&str, &str); 5] = [
    ("x-ratelimit-remaining", "998"),
    ("x-ratelimit-remaining", "997"),
    ("ratelimit-limit", "999"),
    ("ratelimit", "\"theirs\";r=998;t=3"),
    ("retry-after", "7"),
];

#[test]
fn b29_of_two_sets_of_fields_one_stays() {
    for (rule, remaining) in [("replace", "9"), ("keep", "998"), ("stricter", "9")] {
        let mesh = plan("10/1m", json!({ "upstream": rule })).start();
        for (turn, status) in [200, 503, 304].into_iter().enumerate() {
            let key = format!("client-{turn}");
            mesh.echo.answer_with(status, &THEIRS);
            let answer = ask(&key).to(mesh.address());
            assert_eq!(answer.status, status);
            assert_eq!(
                answer.all("x-ratelimit-remaining")[0],
                remaining,
                "{rule}, {status}"
            );
            assert_eq!(answer.header("retry-after"), Some("7"), "{rule}, {status}");
            if rule == "keep" {
                assert_eq!(answer.header("ratelimit"), Some(THEIRS[3].1));
                assert_eq!(answer.header("x-ratelimit-reset"), None);
            } else {
                once_each(&answer);
                assert_eq!(answer.header("ratelimit-limit"), None, "{rule}, {status}");
                assert_eq!(answer.header("ratelimit"), Some(r#""per-key";r=9;t=60"#));
            }
        }
        mesh.echo
            .answer_with(429, &[("x-ratelimit-remaining", "0")]);
        let theirs = ask("another").to(mesh.address());
        assert_eq!(theirs.header("x-ratelimit-remaining"), Some("0"), "{rule}");
        assert_eq!(
            theirs.header("ratelimit"),
            None,
            "{rule}: it explains its own refusal"
        );
    }
}

fn rbac_after(config: &mut Config) {
    let deny = json!({
        "name": "rbac",
        "typed_config": {
            "@type": "type.googleapis.com/envoy.extensions.filters.http.rbac.v3.RBAC",
            "rules": { "action": "DENY", "policies": { "no": {
                "permissions": [{ "url_path": { "path": { "prefix": "/forbidden" } } }],
                "principals": [{ "any": true }],
            } } },
        },
    });
    config.http_filters().insert(1, deny);
}

#[test]
fn b30_the_reply_of_a_filter_behind_ours_shows_this_requests_numbers() {
    let mesh = plan("10/1m", json!({})).change(rbac_after).start();
    let address = mesh.address();
    let mut connection = Connection::http1(address);
    for (path, status, remaining) in [("/", 200, 9), ("/forbidden", 403, 8), ("/", 200, 7)] {
        let answer = connection.send(&get(path).header("x-api-key", "a"));
        once_each(&answer);
        assert_eq!(
            (answer.status, answer.number("x-ratelimit-remaining")),
            (status, remaining)
        );
    }
}

const MESSAGE: &str = "rate limit per-key exceeded, retry after";

#[test]
fn b49_grpc_gets_trailers_only_and_everything_else_a_429() {
    for (word, code) in [("resource-exhausted", "8"), ("unavailable", "14")] {
        let mesh = plan("1/1m", json!({ "grpc": word })).start();
        let mut connection = Connection::http2(mesh.address());
        for (content_type, kind) in [
            ("application/grpc", "grpc"),
            ("application/grpc+json", "grpc"),
            ("application/grpc-web+proto", "grpc-web"),
            ("application/json", "plain"),
        ] {
            let call = post("/a.B/C", "").header("x-api-key", content_type);
            let call = call
                .header("content-type", content_type)
                .header("te", "trailers");
            assert_eq!(connection.send(&call).status, 200);
            let refused = connection.send(&call);
            once_each(&refused);
            assert!(refused.number("retry-after") >= 1, "{content_type}");
            assert_eq!(
                refused.header("x-ratelimit-remaining"),
                Some("0"),
                "{content_type}"
            );
            let answered = refused.header("content-type").unwrap_or_default();
            let body = refused.text();
            match kind {
                "grpc" => {
                    assert_eq!((refused.status, body.len()), (200, 0), "{content_type}");
                    assert_eq!(refused.header("grpc-status"), Some(code), "{content_type}");
                    let message = refused.header("grpc-message").unwrap_or_default();
                    let message = message.replace("%20", " ");
                    assert!(message.starts_with(MESSAGE), "{message}");
                    assert_eq!(answered, "application/grpc");
                }
                "grpc-web" => {
                    assert_eq!((refused.status, answered), (200, content_type));
                    let trailers = format!("grpc-status: {code}\r\ngrpc-message: {MESSAGE}");
                    assert!(body.contains(&trailers), "{body}");
                }
                _ => {
                    assert_eq!(
                        (refused.status, answered),
                        (429, "application/problem+json")
                    );
                    assert_eq!(refused.header("grpc-status"), None);
                }
            }
        }
        assert_eq!(mesh.echo.hits(), 4);
    }
}

fn cors_before(config: &mut Config) {
    let cors = json!({
        "name": "envoy.filters.http.cors",
        "typed_config": { "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.Cors" },
    });
    config.http_filters().insert(0, cors);
    let host = &mut config.manager()["route_config"]["virtual_hosts"][0];
    host["typed_per_filter_config"] = json!({ "envoy.filters.http.cors": {
        "@type": "type.googleapis.com/envoy.extensions.filters.http.cors.v3.CorsPolicy",
        "allow_origin_string_match": [{ "exact": "https://app.example" }],
        "allow_methods": "GET",
        "expose_headers": "retry-after,ratelimit",
    } });
}

#[test]
fn b48_behind_the_cors_filter_preflights_are_free_and_a_page_can_read_its_429() {
    let mesh = plan("4/1m", json!({})).change(cors_before).start();
    let from_page = || ask("page").header("origin", "https://app.example");
    for turn in 0..5 {
        let preflight = from_page()
            .method("OPTIONS")
            .header("access-control-request-method", "GET")
            .to(mesh.address());
        assert_eq!(preflight.status, 200);
        let answer = from_page().to(mesh.address());
        assert_eq!(
            answer.status,
            if turn < 4 { 200 } else { 429 },
            "request {turn}"
        );
        let allowed = answer.header("access-control-allow-origin");
        assert_eq!(allowed, Some("https://app.example"));
        let exposed = answer.header("access-control-expose-headers");
        assert_eq!(exposed, Some("retry-after,ratelimit"));
    }
    let plain = ask("page").method("OPTIONS").to(mesh.address());
    assert_eq!(
        plain.status, 429,
        "an OPTIONS that is no preflight is no way around"
    );
}

#[test]
fn b13_whoever_waits_as_told_is_admitted_a_hundred_of_a_hundred_times() {
    let limits: Vec<Value> = ALGORITHMS
        .iter()
        .map(|algorithm| {
            let mut limit = per_key(algorithm, "3/1s");
            limit["name"] = json!(algorithm);
            limit["when"] = json!({ "path": format!("/{algorithm}") });
            limit
        })
        .collect();
    let mesh = mesh(Link::Straight, policy("deny", PATIENT, json!(limits))).start();
    let one = |number: usize| {
        let path = format!("/{}", ALGORITHMS[number % ALGORITHMS.len()]);
        (
            mesh.address(),
            get(&path).header("x-api-key", format!("client-{number}")),
        )
    };
    let asks: Vec<_> = (0..100).map(one).collect();
    // A slow machine may spread a burst of three over more than a second; then nobody is refused, and
    // the burst goes on until somebody is.
    let mut refused: Vec<Option<Answer>> = vec![None; asks.len()];
    while refused.iter().any(Option::is_none) {
        let left: Vec<usize> = (0..asks.len())
            .filter(|number| refused[*number].is_none())
            .collect();
        let answers = at_once(
            &left
                .iter()
                .map(|number| asks[*number].clone())
                .collect::<Vec<_>>(),
        );
        for (number, answer) in left.into_iter().zip(answers) {
            assert!([200, 429].contains(&answer.status), "{answer:?}");
            refused[number] = (answer.status == 429).then_some(answer);
        }
    }
    let clients: Vec<_> = refused
        .iter()
        .flatten()
        .zip(asks)
        .map(|(answer, (address, ask))| {
            let wait = u64::try_from(answer.number("retry-after")).expect("a wait");
            assert!(wait >= 1);
            std::thread::spawn(move || {
                std::thread::sleep(Duration::from_secs(wait));
                (ask.to(address).status, ask)
            })
        })
        .collect();
    assert_eq!(clients.len(), 100);
    for client in clients {
        let (status, ask) = client.join().expect("an answer");
        assert_eq!(status, 200, "{ask:?}");
    }
}

const ALGORITHMS: [&str; 5] = [
    "sliding-log",
    "sliding-window",
    "fixed-window",
    "token-bucket",
    "gcra",
];

#[test]
fn an_outage_is_a_503_with_a_wait_and_without_numbers() {
    let reply = json!({ "retry_after": { "outage": "5s" } });
    let mut mesh = plan("5/1m", reply).start();
    assert_eq!(ask("a").to(mesh.address()).status, 200);
    mesh.redis.stop();
    let answer = ask("a").to(mesh.address());
    assert_eq!((answer.status, answer.number("retry-after")), (503, 5));
    for field in STATE {
        assert_eq!(answer.header(field), None, "{field}");
    }
    let mut connection = Connection::http2(mesh.address());
    let call = post("/a.B/C", "").header("content-type", "application/grpc");
    assert_eq!(connection.send(&call).header("grpc-status"), Some("14"));
}

/// urllib3, as every Python with pip carries it, against a limit that is used up.
#[test]
fn urllib3_heeds_the_429_and_gets_through_with_one_retry() {
    let mesh = plan("3/2s", json!({})).start();
    let script = r#"
import sys
from pip._vendor import urllib3
retry = urllib3.util.Retry(total=1, status_forcelist=[429], backoff_factor=0)
pool = urllib3.PoolManager()
for _ in range(4):
    answer = pool.request("GET", sys.argv[1], headers={"x-api-key": "snake"}, retries=retry)
    print(answer.status, len(answer.retries.history))
"#;
    let url = format!("http://{}/", mesh.address());
    let output = Command::new("python3")
        .args(["-c", script, &url])
        .output()
        .expect("python3");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{errors}");
    assert_eq!(
        String::from_utf8_lossy(&output.stdout),
        "200 0\n200 0\n200 0\n200 1\n"
    );
    assert_eq!(mesh.echo.hits(), 4);
}

#[test]
fn a_template_and_a_chosen_status_are_what_the_client_gets() {
    let reply = json!({
        "body": {
            "template": "{\"of\":\"{name}\",\"limit\":{limit},\"in\":{retry_after}}",
            "content_type": "application/json",
        },
        "headers": ["retry-after"],
        "status": { "limited": 420 },
        "stop_envoy_retries": false,
    });
    let mesh = plan("1/1m", reply).start();
    let allowed = ask("a").to(mesh.address());
    assert!(STATE.iter().all(|field| allowed.header(field).is_none()));
    let refused = ask("a").to(mesh.address());
    assert_eq!(refused.status, 420);
    assert_eq!(refused.header("content-type"), Some("application/json"));
    assert_eq!(refused.header("x-envoy-ratelimited"), None);
    let wait = refused.number("retry-after");
    assert_eq!(
        refused.text(),
        format!(r#"{{"of":"per-key","limit":1,"in":{wait}}}"#)
    );
}
