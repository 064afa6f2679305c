//! An Envoy of one's own.

use std::net::{Ipv4Addr, SocketAddr};
use std::path::Path;
use std::process::Command;
use std::time::Duration;

use serde_json::Value;

use crate::client::get;
use crate::config::Config;
use crate::{Dir, Process, binary, root, until_within};

/// What a log must not hold: a panic, or a trapped VM.
const TRAPS: [&str; 2] = ["panicked at", "Uncaught RuntimeError"];

/// A running Envoy on ports that the system gave. Dropping it fails the test when its log speaks of a
/// trap, unless [`Envoy::traps_are_expected`] was said.
#[derive(Debug)]
pub struct Envoy {
    process: Process,
    http: SocketAddr,
    admin: u16,
    traps_expected: bool,
    dir: Dir,
}

impl Envoy {
    /// Starts one with `workers` worker threads and waits until it serves.
    #[must_use]
    pub fn start(config: &Config, workers: usize) -> Self {
        Self::start_in(Dir::temporary("envoy"), config, workers, &[])
    }

    /// Starts one with its files in `dir` and more words on its command line.
    ///
    /// Its listeners are a file that it watches: see [`Envoy::reload`].
    ///
    /// # Panics
    /// When it does not come up, with its log.
    #[must_use]
    pub fn start_in(dir: Dir, config: &Config, workers: usize, words: &[&str]) -> Self {
        let mut bootstrap = config.clone();
        let listeners = bootstrap.split_listeners(&dir.join("listeners.json"));
        std::fs::write(dir.join("listeners.json"), listeners.to_string()).expect("write listeners");
        std::fs::write(dir.join("envoy.json"), bootstrap.text()).expect("write bootstrap");
        let mut command = Command::new(binary("ENVOY", "envoy"));
        command
            .arg("-c")
            .arg(dir.join("envoy.json"))
            .arg("--admin-address-path")
            .arg(dir.join("admin"))
            .args([
                "--concurrency",
                &workers.to_string(),
                "--disable-hot-restart",
            ])
            .args(["--drain-time-s", "1", "--drain-strategy", "immediate"])
            .args(["--log-level", "info", "--file-flush-interval-msec", "100"])
            .args(words)
            .current_dir(root());
        let mut process = Process::start("Envoy", command, &dir.join("envoy.log"));
        let admin = wait_until_live(&mut process, &dir.join("admin"));
        let http = SocketAddr::from((Ipv4Addr::LOCALHOST, listening_port(admin)));
        Self {
            process,
            http,
            admin,
            traps_expected: false,
            dir,
        }
    }

    /// What `--mode validate` says of a configuration: `Err` with Envoy's output when it refuses.
    ///
    /// # Errors
    /// Envoy's output, when it refuses.
    ///
    /// # Panics
    /// When Envoy cannot be run.
    pub fn validate(config: &Config) -> Result<String, String> {
        let dir = Dir::temporary("validate");
        std::fs::write(dir.join("envoy.json"), config.text()).expect("write bootstrap");
        let output = Command::new(binary("ENVOY", "envoy"))
            .args(["--mode", "validate", "--disable-hot-restart", "-c"])
            .arg(dir.join("envoy.json"))
            .current_dir(root())
            .output()
            .expect("Envoy runs");
        let text = String::from_utf8_lossy(&[output.stdout, output.stderr].concat()).into_owned();
        if output.status.success() {
            Ok(text)
        } else {
            Err(text)
        }
    }

    /// Where clients connect.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.http
    }

    /// The admin port, on loopback.
    #[must_use]
    pub fn admin_port(&self) -> u16 {
        self.admin
    }

    /// The process.
    #[must_use]
    pub fn process(&self) -> &Process {
        &self.process
    }

    /// Its log so far.
    #[must_use]
    pub fn log(&self) -> String {
        self.process.log()
    }

    /// How many lines of the log contain `text`.
    #[must_use]
    pub fn log_lines_with(&self, text: &str) -> usize {
        self.log()
            .lines()
            .filter(|line| line.contains(text))
            .count()
    }

    /// A trap in the log is this test's purpose.
    pub fn traps_are_expected(&mut self) {
        self.traps_expected = true;
    }

    /// The body of an admin page.
    ///
    /// # Panics
    /// When the admin does not answer 200.
    #[must_use]
    pub fn admin(&self, path: &str) -> String {
        page(self.admin, path).unwrap_or_else(|| panic!("the admin does not answer {path}"))
    }

    /// A counter or gauge by its full name; zero when Envoy does not know it (yet).
    ///
    /// # Panics
    /// When the admin does not answer.
    #[must_use]
    pub fn stat(&self, name: &str) -> u64 {
        let text = self.admin(&format!("/stats?filter=^{}$", name.replace('.', "\\.")));
        let line = text
            .lines()
            .find_map(|line| line.strip_prefix(name)?.strip_prefix(": "));
        line.and_then(|number| number.parse().ok()).unwrap_or(0)
    }

    /// Puts other listeners (and with them filters and policy) in the place of the running ones, and waits
    /// until Envoy has taken or refused them. True when it took them.
    ///
    /// # Panics
    /// When Envoy says nothing about it.
    #[must_use]
    pub fn reload(&self, config: &Config) -> bool {
        let outcomes = || {
            (
                self.stat("listener_manager.lds.update_success"),
                self.stat("listener_manager.lds.update_rejected"),
            )
        };
        let before = outcomes();
        let path = self.dir.join("listeners.json");
        let mut config = config.clone();
        let text = config.split_listeners(&path).to_string();
        let draft = self.dir.join("listeners.next");
        std::fs::write(&draft, text).expect("write listeners");
        std::fs::rename(&draft, &path).expect("put them in place");
        until_within(
            Duration::from_secs(10),
            "Envoy to look at its new listeners",
            || outcomes() != before,
        );
        outcomes().0 > before.0
    }
}

impl Drop for Envoy {
    fn drop(&mut self) {
        let log = self.log();
        let trap = log
            .lines()
            .find(|line| TRAPS.iter().any(|trap| line.contains(trap)));
        if let Some(line) = trap.filter(|_| !self.traps_expected && !std::thread::panicking()) {
            panic!("Envoy's log speaks of a trap: {line}\n{log}");
        }
    }
}

fn wait_until_live(process: &mut Process, address_file: &Path) -> u16 {
    let mut port = None;
    until_within(Duration::from_secs(30), "Envoy to be live", || {
        if let Some(status) = process.ended() {
            panic!("Envoy ended ({status}):\n{}", process.log());
        }
        let text = std::fs::read_to_string(address_file).unwrap_or_default();
        port = text
            .rsplit(':')
            .next()
            .and_then(|port| port.trim().parse().ok());
        port.is_some_and(|port| page(port, "/ready").is_some_and(|body| body.starts_with("LIVE")))
    });
    port.expect("a live Envoy has an admin port")
}

fn listening_port(admin: u16) -> u16 {
    let text = page(admin, "/listeners?format=json").expect("the list of listeners");
    let page: Value = serde_json::from_str(&text).expect("the list of listeners is JSON");
    let listeners = page["listener_statuses"]
        .as_array()
        .expect("listener statuses");
    let http = listeners.iter().find(|listener| listener["name"] == "http");
    let http = http.unwrap_or_else(|| panic!("no listener named http: {text}"));
    let port = http["local_address"]["socket_address"]["port_value"].as_u64();
    port.and_then(|port| u16::try_from(port).ok())
        .filter(|port| *port != 0)
        .expect("a listening port")
}

/// The body of an admin page, when the admin answers 200.
fn page(port: u16, path: &str) -> Option<String> {
    let answer = get(path)
        .try_to(SocketAddr::from((Ipv4Addr::LOCALHOST, port)))
        .ok()?;
    (answer.status == 200).then(|| answer.text())
}
