//! What happens on Envoy's side, and on its clients'.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use serde_json::json;
use support::client::post;
use support::envoy::Envoy;

use crate::stage::{Preparation, Stage};

/// Redis has a name that nobody knows.
pub fn without_name() -> Preparation {
    Preparation {
        change: Some(|config| {
            let cluster = config.cluster("aforo-redis");
            cluster["type"] = json!("STRICT_DNS");
            let endpoint = &mut cluster["load_assignment"]["endpoints"][0]["lb_endpoints"][0];
            endpoint["endpoint"]["address"]["socket_address"]["address"] =
                json!("redis.nowhere.invalid");
        }),
        ..Preparation::default()
    }
}

/// The internal listener is taken away and put back.
pub fn unlinked(stage: &mut Stage) {
    stage.reload(|config| {
        let listeners = &mut config.value()["static_resources"]["listeners"];
        let listeners = listeners.as_array_mut().expect("listeners");
        listeners.retain(|listener| listener["name"] != "aforo-link");
    });
    // The old one is drained for a second first.
    stage.wait(stage.span().max(std::time::Duration::from_secs(2)));
    stage.reload(|_| {});
}

/// The policy names a cluster that is not there, until the next policy.
pub fn unknown(stage: &mut Stage) {
    let policy = stage.policy("nope");
    stage.reload(|config| config.policy(&policy));
    stage.wait(stage.span());
    stage.reload(|_| {});
}

/// The policy is replaced by one of another text and the same meaning, again and again.
pub fn reloaded(stage: &mut Stage) {
    let times = 20;
    let policy = stage.policy("aforo-link").to_string();
    for round in 1..=times {
        let spaces = " ".repeat(round);
        stage.reload(|config| config.policy_text(&format!("{spaces}{policy}")));
        stage.wait(stage.span() / u32::try_from(times).unwrap_or(1));
    }
}

/// As many clients again send a request and leave while it waits for Redis.
pub fn quitters(stage: &mut Stage) {
    let address = stage.envoy().address();
    let rate = stage.setting.rate;
    let end = Instant::now() + stage.span();
    let start = Instant::now();
    let mut waiting = std::collections::VecDeque::new();
    for number in 0_u32.. {
        let due = start + Duration::from_secs(1) * number / rate;
        if due >= end {
            break;
        }
        if let Some(early) = due.checked_duration_since(Instant::now()) {
            std::thread::sleep(early);
        }
        let Ok(mut stream) = TcpStream::connect(address) else {
            continue;
        };
        let text =
            format!("GET /allow HTTP/1.1\r\nhost: chaos\r\nx-api-key: quitter-{number}\r\n\r\n");
        let _ = stream.write_all(text.as_bytes());
        // The oldest of three leaves, some milliseconds after it asked.
        waiting.push_back(stream);
        if waiting.len() > 2 {
            waiting.pop_front();
        }
    }
}

/// Another Envoy takes the traffic, and the first is drained and ends.
pub fn drained(stage: &mut Stage) {
    let another = Envoy::start(&stage.config, stage.setting.workers);
    stage.wait(stage.span() / 4);
    stage.load.divert(another.address());
    let admin = std::net::SocketAddr::from(([127, 0, 0, 1], stage.envoy().admin_port()));
    let answer = post("/drain_listeners?graceful", "").to(admin);
    assert_eq!(answer.status, 200, "{answer:?}");
    stage.wait(stage.span() / 2);
    stage.envoys.push(another);
    stage.envoys.remove(0);
}
