//! `make demo` does what it says, and leaves nothing behind.

use std::io::{BufRead, BufReader};
use std::net::{SocketAddr, TcpStream};
use std::os::unix::process::CommandExt;
use std::process::{Command, Stdio};
use std::time::Duration;

use support::client::get;
use support::{interrupt_group, mesh::turn, root, until_within};

#[test]
fn make_demo_shows_one_exact_limit_over_two_envoys_and_exits_0() {
    let _turn = turn();
    let output = Command::new("make")
        .arg("demo")
        .env_remove("HOLD")
        .current_dir(root())
        .output();
    let output = output.expect("make runs");
    let text = String::from_utf8_lossy(&output.stdout);
    let complaints = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{text}\n{complaints}");
    let rows: Vec<Vec<&str>> = text
        .lines()
        .map(|line| line.split_whitespace().collect::<Vec<_>>())
        .filter(|cells| cells.len() == 6 && cells[0].parse::<u32>().is_ok())
        .collect();
    // Number, Envoy, client, status, remaining, retry-after.
    let of = |client: &str| {
        rows.iter()
            .filter(move |row| row[2] == client)
            .collect::<Vec<_>>()
    };
    let (a, b) = (of("A"), of("B"));
    assert!(
        a.iter().any(|row| row[1] == "1") && a.iter().any(|row| row[1] == "2"),
        "{text}"
    );
    let remaining: Vec<&str> = a.iter().map(|row| row[4]).collect();
    assert_eq!(
        remaining,
        ["9", "8", "7", "6", "5", "4", "3", "2", "1", "0", "0", "0"],
        "{text}"
    );
    assert!(
        a[..10].iter().all(|row| row[3] == "200" && row[5] == "-"),
        "{text}"
    );
    assert!(
        a[10..]
            .iter()
            .all(|row| row[3] == "429" && row[5].parse::<u32>().is_ok()),
        "{text}"
    );
    assert!(
        !b.is_empty() && b.iter().all(|row| row[3] == "200"),
        "{text}"
    );
    for part in ["Redis", "Envoy 1", "Envoy 2", "upstream"] {
        assert!(
            text.lines().any(|line| line.trim_start().starts_with(part)),
            "{part}: {text}"
        );
    }
    for address in addresses(&text) {
        assert!(
            TcpStream::connect(address).is_err(),
            "{address} still listens:\n{text}"
        );
    }
}

#[test]
fn make_demo_held_serves_until_ctrl_c_and_then_leaves_nothing_running() {
    let _turn = turn();
    let mut demo = Command::new("make")
        .args(["demo", "HOLD=1"])
        .current_dir(root())
        .stdout(Stdio::piped())
        .process_group(0)
        .spawn()
        .expect("make runs");
    let mut text = String::new();
    let mut lines = BufReader::new(demo.stdout.take().expect("its output"));
    while text.matches("curl ").count() < 2 {
        assert!(
            lines.read_line(&mut text).expect("its output") > 0,
            "it ended: {text}"
        );
    }
    let curl = text
        .lines()
        .find(|line| line.contains("curl "))
        .expect("a curl line");
    let url = curl
        .rsplit("http://")
        .next()
        .expect("a URL")
        .trim_end_matches('/');
    let answer = get("/")
        .header("x-api-key", "me")
        .to(url.parse().expect("an address"));
    assert_eq!(
        (answer.status, answer.number("x-ratelimit-remaining")),
        (200, 9)
    );
    interrupt_group(&demo);
    until_within(Duration::from_secs(10), "the demo to end", || {
        demo.try_wait().expect("its status").is_some()
    });
    until_within(Duration::from_secs(5), "its parts to be gone", || {
        addresses(&text)
            .iter()
            .all(|address| TcpStream::connect(address).is_err())
    });
}

/// Every loopback address that the demo spoke of.
fn addresses(text: &str) -> Vec<SocketAddr> {
    let words = text.split(|c: char| c.is_whitespace() || "()/".contains(c));
    let found: Vec<_> = words
        .filter_map(|word| word.parse::<SocketAddr>().ok())
        .collect();
    assert!(found.len() >= 6, "{text}");
    found
}
