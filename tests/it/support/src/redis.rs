//! A Redis of one's own.

use std::process::Command;
use std::time::{Duration, Instant};

use redis::{Client, Connection, FromRedisValue, RedisResult};

use crate::{Dir, Process, binary, free_port, until};

/// A Redis server on a loopback port of its own, with no persistence: stopped, it forgets.
#[derive(Debug)]
pub struct Redis {
    port: u16,
    settings: Vec<String>,
    process: Option<Process>,
    dir: Dir,
}

impl Redis {
    /// Starts one and waits until it answers.
    #[must_use]
    pub fn start() -> Self {
        Self::start_in(Dir::temporary("redis"), &[])
    }

    /// Starts one with its log in `dir` and more words on its command line, such as
    /// `["--requirepass", "secret"]`.
    #[must_use]
    pub fn start_in(dir: Dir, settings: &[&str]) -> Self {
        Self::start_at(free_port(), dir, settings)
    }

    /// Starts one on a port of the caller's.
    #[must_use]
    pub fn start_at(port: u16, dir: Dir, settings: &[&str]) -> Self {
        let settings = settings.iter().map(|&word| word.to_owned()).collect();
        let mut redis = Self {
            port,
            settings,
            process: None,
            dir,
        };
        redis.restart();
        redis
    }

    /// The loopback port it listens on; the same for its whole life, restarts included.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// The process.
    ///
    /// # Panics
    /// When it is stopped.
    #[must_use]
    pub fn process(&self) -> &Process {
        self.process.as_ref().expect("Redis runs")
    }

    /// Ends it: connections are reset, new ones are refused.
    pub fn stop(&mut self) {
        self.process = None;
    }

    /// Starts it again, empty, on the same port. Ends the one that runs.
    pub fn restart(&mut self) {
        self.stop();
        let mut command = Command::new(binary("REDIS_SERVER", "redis-server"));
        command
            .args(["--port", &self.port.to_string(), "--bind", "127.0.0.1"])
            .args(["--save", "", "--appendonly", "no"])
            .arg("--dir")
            .arg(self.dir.path())
            .args(&self.settings);
        let log = self.dir.join("redis.log");
        let mut process = Process::start("Redis", command, &log);
        until("Redis to accept connections", || {
            if let Some(status) = process.ended() {
                panic!("Redis ended ({status}):\n{}", process.log());
            }
            std::net::TcpStream::connect(("127.0.0.1", self.port)).is_ok()
        });
        self.process = Some(process);
        until("Redis to answer PING", || {
            self.try_call::<String>(&["PING"]).is_ok()
        });
    }

    /// Stops answering without closing anything.
    pub fn freeze(&self) {
        self.process().freeze();
    }

    /// Answers again, late.
    pub fn thaw(&self) {
        self.process().thaw();
    }

    /// Empties it.
    pub fn flush(&self) {
        self.call::<()>(&["FLUSHALL"]);
    }

    /// A connection, with the password that it was started with. Waits at most two seconds for it and for each answer.
    ///
    /// # Panics
    /// When there is none to be had.
    #[must_use]
    pub fn connection(&self) -> Connection {
        self.connect().expect("a connection to Redis")
    }

    /// The answer to one command.
    ///
    /// # Panics
    /// When it is an error or of another type.
    pub fn call<T: FromRedisValue>(&self, words: &[&str]) -> T {
        self.try_call(words)
            .unwrap_or_else(|error| panic!("{words:?}: {error}"))
    }

    /// The answer to one command, or why there is none.
    ///
    /// # Errors
    /// Redis's error reply, or the connection's.
    pub fn try_call<T: FromRedisValue>(&self, words: &[&str]) -> RedisResult<T> {
        let mut connection = self.connect()?;
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(*word);
        }
        command.query(&mut connection)
    }

    /// How long one command takes over one connection, sent again and again for `span`.
    ///
    /// # Panics
    /// When Redis answers with an error.
    #[must_use]
    pub fn round_trips(&self, words: &[Vec<u8>], span: Duration) -> Vec<Duration> {
        let mut connection = self.connection();
        let mut command = redis::Cmd::new();
        for word in words {
            command.arg(word);
        }
        let mut times = Vec::new();
        let started = Instant::now();
        while started.elapsed() < span {
            let sent = Instant::now();
            command.exec(&mut connection).expect("an answer");
            times.push(sent.elapsed());
        }
        times
    }

    /// How often a command ran since the start or `CONFIG RESETSTAT`; zero when it never did.
    #[must_use]
    pub fn calls_of(&self, command: &str) -> u64 {
        let stats: String = self.call(&["INFO", "commandstats"]);
        let line = stats.lines().find_map(|line| {
            line.strip_prefix("cmdstat_")?
                .strip_prefix(command)?
                .strip_prefix(":calls=")
        });
        line.and_then(|rest| rest.split(',').next()?.parse().ok())
            .unwrap_or(0)
    }

    /// All keys, sorted.
    #[must_use]
    pub fn keys(&self) -> Vec<Vec<u8>> {
        let mut keys: Vec<Vec<u8>> = self.call(&["KEYS", "*"]);
        keys.sort();
        keys
    }

    fn connect(&self) -> RedisResult<Connection> {
        let limit = Duration::from_secs(2);
        let words = self.settings.iter();
        let password = words.skip_while(|word| *word != "--requirepass").nth(1);
        let login = password.map_or_else(String::new, |password| format!(":{password}@"));
        let client = Client::open(format!("redis://{login}127.0.0.1:{}", self.port))?;
        let connection = client.get_connection_with_timeout(limit)?;
        connection.set_read_timeout(Some(limit))?;
        Ok(connection)
    }
}
