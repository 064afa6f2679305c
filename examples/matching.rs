//! What finding the limits of a request costs, in instructions, by the number of limits.
//!
//! ```text
//! cargo run --profile native --example matching
//! ```
//! runs itself under `valgrind --tool=callgrind`, once for few requests and once for many: the
//! difference is what requests cost, without loading the policy.

use std::process::{Command, ExitCode};

use aforo::{
    policy::Policy,
    request::Facts,
    rules::{Selection, select},
};

const FEW: usize = 200;
const MANY: usize = 2_200;
/// Most that a request may cost with a thousand limits, in hundredths of what it costs with ten.
const MOST_PERCENT: u64 = 200;

fn main() -> ExitCode {
    let arguments: Vec<String> = std::env::args().skip(1).collect();
    if let [kind, limits, requests] = arguments.as_slice() {
        let limits = limits.parse().expect("a number of limits");
        run(
            kind,
            limits,
            requests.parse().expect("a number of requests"),
        );
        return ExitCode::SUCCESS;
    }
    println!(
        "{:<34} {:>10} {:>10} {:>10}",
        "instructions a request", "10", "100", "1000"
    );
    let mut within = true;
    for (kind, told, bounded) in [
        ("prefix", "limits of distinct prefixes", true),
        ("template", "limits of distinct templates", true),
        ("exact", "limits of exact paths", true),
        ("header", "limits by header (no index)", false),
    ] {
        let costs = [10, 100, 1_000].map(|limits| a_request(kind, limits));
        println!(
            "{told:<34} {:>10} {:>10} {:>10}",
            costs[0], costs[1], costs[2]
        );
        within &= !bounded || costs[2] * 100 <= costs[0] * MOST_PERCENT;
    }
    if within {
        ExitCode::SUCCESS
    } else {
        ExitCode::FAILURE
    }
}

/// Instructions of one request.
fn a_request(kind: &str, limits: usize) -> u64 {
    let [few, many] = [FEW, MANY].map(|requests| instructions(kind, limits, requests));
    many.saturating_sub(few) / (MANY - FEW) as u64
}

fn instructions(kind: &str, limits: usize, requests: usize) -> u64 {
    let this = std::env::current_exe().expect("the path of this program");
    let output = Command::new("valgrind")
        .args(["--tool=callgrind", "--callgrind-out-file=/dev/null"])
        .arg(this)
        .args([kind.to_owned(), limits.to_string(), requests.to_string()])
        .output()
        .expect("valgrind is installed");
    let told = String::from_utf8_lossy(&output.stderr);
    let collected = told
        .lines()
        .find_map(|line| line.split_once("Collected : "));
    let (_, number) = collected.unwrap_or_else(|| panic!("callgrind counted nothing:\n{told}"));
    number.trim().parse().expect("a number of instructions")
}

/// Finds the limits of that many requests, all different, each met by one limit.
fn run(kind: &str, limits: usize, requests: usize) {
    let policy = policy(kind, limits);
    let mut request = Request {
        path: String::new(),
        service: String::new(),
    };
    for i in 0..requests {
        let number = i % limits;
        request.path = format!("/svc{number}/v1/users/{i}?page=2");
        if kind == "exact" {
            request.path = format!("/svc{number}/v1/users");
        }
        request.service = format!("svc{number}");
        match std::hint::black_box(select(&policy, &request)) {
            Selection::Claims(claims) => assert_eq!(claims[0].limit, number),
            other => panic!("{other:?}"),
        }
    }
}

fn policy(kind: &str, limits: usize) -> Policy {
    let limits: Vec<String> = (0..limits)
        .map(|i| {
            let when = match kind {
                "prefix" => format!(r#"{{"path":"/svc{i}/"}}"#),
                "template" => format!(r#"{{"path":"/svc{i}/v1/users/{{id}}"}}"#),
                "exact" => format!(r#"{{"path":"/svc{i}/v1/users"}}"#),
                _ => format!(r#"{{"headers":{{"x-service":"svc{i}"}}}}"#),
            };
            format!(
                r#"{{"name":"l{i}","when":{when},"key":["header:x-user"],"algorithm":"gcra","rate":"5/10s"}}"#
            )
        })
        .collect();
    let json = format!(r#"{{"limits":[{}]}}"#, limits.join(","));
    Policy::from_json(json.as_bytes()).expect("a policy").0
}

struct Request {
    path: String,
    service: String,
}

impl Facts for Request {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        match name {
            ":path" => Some(self.path.clone().into_bytes()),
            "x-service" => Some(self.service.clone().into_bytes()),
            "x-user" => Some(b"alice".to_vec()),
            _ => None,
        }
    }

    fn property(&self, _path: &[&str]) -> Option<Vec<u8>> {
        None
    }
}
