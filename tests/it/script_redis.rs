//! A Redis of the script tests' own: a real server on a unix socket in its own directory, ended
//! when the test ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    ops::{Deref, DerefMut},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use aforo::redis::resp::Value;

/// The server that every test uses: what `REDIS_SERVER` names, else what there is.
pub fn usual() -> String {
    support::binary("REDIS_SERVER", "redis-server")
        .display()
        .to_string()
}

/// A server and a client of it.
pub struct Redis {
    client: Client,
    server: Server,
}

impl Redis {
    /// The server named by `REDIS_SERVER`, else `redis-server` of the PATH.
    pub fn start() -> Self {
        Self::start_with(&[])
    }

    /// The same with more options.
    pub fn start_with(options: &[&str]) -> Self {
        Self::start_binary(&usual(), options)
    }

    /// That binary, with more options.
    pub fn start_binary(binary: &str, options: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let next = NEXT.fetch_add(1, Ordering::Relaxed);
        let name = format!("aforo-script-{}-{next}", std::process::id());
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        let log = std::fs::File::create(dir.join("redis.log")).unwrap();
        let process = Command::new(binary)
            .current_dir(&dir)
            .args("--port 0 --appendonly no --unixsocket redis.sock".split(' '))
            .args(["--save", ""])
            .args(options)
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {binary}: {error}"));
        let server = Server { process, dir };
        let client = server.client();
        Self { client, server }
    }

    /// Another client of the same server.
    pub fn client(&self) -> Client {
        self.server.client()
    }
}

impl Deref for Redis {
    type Target = Client;

    fn deref(&self) -> &Client {
        &self.client
    }
}

impl DerefMut for Redis {
    fn deref_mut(&mut self) -> &mut Client {
        &mut self.client
    }
}

/// One connection.
pub struct Client {
    stream: BufReader<UnixStream>,
}

impl Client {
    /// Sends bytes as they are.
    pub fn send(&mut self, bytes: &[u8]) {
        self.stream.get_mut().write_all(bytes).unwrap();
    }

    /// One command, one reply.
    pub fn ask(&mut self, words: &[&str]) -> Value {
        let mut bytes = format!("*{}\r\n", words.len());
        for word in words {
            bytes += &format!("${}\r\n{word}\r\n", word.len());
        }
        self.send(bytes.as_bytes());
        self.reply()
    }

    /// One command whose reply is an integer.
    pub fn number(&mut self, words: &[&str]) -> i64 {
        match self.ask(words) {
            Value::Integer(n) => n,
            other => panic!("{words:?} answered {other:?}"),
        }
    }

    /// One command whose reply is text, or an array of texts, joined by spaces.
    pub fn text(&mut self, words: &[&str]) -> String {
        fn text(value: Value) -> String {
            match value {
                Value::Bulk(text) | Value::Status(text) => String::from_utf8_lossy(&text).into(),
                Value::Array(items) => items.into_iter().map(text).collect::<Vec<_>>().join(" "),
                Value::Nil => String::new(),
                other => panic!("{other:?}"),
            }
        }
        text(self.ask(words))
    }

    /// Every key there is.
    pub fn keys(&mut self) -> Vec<String> {
        self.text(&["KEYS", "*"])
            .split_whitespace()
            .map(str::to_owned)
            .collect()
    }

    /// The next reply.
    pub fn reply(&mut self) -> Value {
        let mut line = Vec::new();
        self.stream.read_until(b'\n', &mut line).unwrap();
        assert!(line.ends_with(b"\r\n"), "Redis closed the connection");
        line.truncate(line.len() - 2);
        let number = || {
            std::str::from_utf8(&line[1..])
                .unwrap()
                .parse::<i64>()
                .unwrap()
        };
        match line[0] {
            b'+' => Value::Status(line[1..].to_vec()),
            b'-' => Value::Error(line[1..].to_vec()),
            b':' => Value::Integer(number()),
            b'$' => match usize::try_from(number()) {
                Err(_) => Value::Nil,
                Ok(length) => {
                    let mut bytes = vec![0; length + 2];
                    self.stream.read_exact(&mut bytes).unwrap();
                    bytes.truncate(length);
                    Value::Bulk(bytes)
                }
            },
            b'*' => match usize::try_from(number()) {
                Err(_) => Value::Nil,
                Ok(length) => Value::Array((0..length).map(|_| self.reply()).collect()),
            },
            // RESP3, after HELLO 3: a map is read as its keys and values in turn.
            b'%' => Value::Array((0..2 * number()).map(|_| self.reply()).collect()),
            other => panic!("not RESP: {}", other as char),
        }
    }
}

/// The process and its directory.
struct Server {
    process: Child,
    dir: PathBuf,
}

impl Server {
    fn client(&self) -> Client {
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(self.dir.join("redis.sock")) {
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                return Client {
                    stream: BufReader::new(stream),
                };
            }
            thread::sleep(Duration::from_millis(10));
        }
        panic!("waited 5 s for Redis to listen");
    }
}

impl Drop for Server {
    fn drop(&mut self) {
        if thread::panicking() {
            let log = std::fs::read_to_string(self.dir.join("redis.log")).unwrap_or_default();
            eprintln!("Redis's log:\n{log}");
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        let _ = std::fs::remove_dir_all(&self.dir);
    }
}
