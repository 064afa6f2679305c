//! A Webdis of one's own: an HTTP gateway in front of a Redis.

use std::net::SocketAddr;
use std::process::Command;

use serde_json::{Value, json};

use crate::{Dir, Process, binary, free_port, until};

/// A Webdis on a loopback port of its own.
#[derive(Debug)]
pub struct Webdis {
    address: SocketAddr,
    process: Option<Process>,
    // Its configuration and log live as long as it does.
    dir: Dir,
}

impl Webdis {
    /// Starts one in front of the Redis on this loopback port, with an access list as its documentation
    /// describes it, and waits until it accepts connections.
    ///
    /// # Panics
    /// When it does not start.
    #[must_use]
    pub fn start(redis: u16, access: &Value) -> Self {
        let dir = Dir::temporary("webdis");
        let port = free_port();
        let settings = json!({
            "redis_host": "127.0.0.1",
            "redis_port": redis,
            "http_host": "127.0.0.1",
            "http_port": port,
            "threads": 2,
            "pool_size": 4,
            "daemonize": false,
            "websockets": false,
            "database": 0,
            "acl": access,
            "verbosity": 4,
            "logfile": dir.join("webdis-requests.log"),
        });
        let file = dir.join("webdis.json");
        std::fs::write(&file, settings.to_string()).expect("a configuration file");
        let mut webdis = Self {
            address: SocketAddr::from(([127, 0, 0, 1], port)),
            process: None,
            dir,
        };
        webdis.restart();
        webdis
    }

    /// Ends it: connections are reset, new ones are refused.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again on the same port. Ends the one that runs.
    ///
    /// # Panics
    /// When it does not start.
    pub fn restart(&mut self) {
        self.stop();
        let mut command = Command::new(binary("WEBDIS", "webdis"));
        command
            .arg(self.dir.join("webdis.json"))
            .current_dir(self.dir.path());
        let mut process = Process::start("Webdis", command, &self.dir.join("webdis.log"));
        until("Webdis to accept connections", || {
            if let Some(status) = process.ended() {
                panic!("Webdis ended ({status}):\n{}", process.log());
            }
            std::net::TcpStream::connect(self.address).is_ok()
        });
        self.process = Some(process);
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// The process.
    ///
    /// # Panics
    /// When it is stopped.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("Webdis runs")
    }
}
