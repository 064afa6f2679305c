//! A Redis of the script tests' own: a real server on a unix socket in its own directory, ended
//! when the test ends.

use std::{
    io::{BufRead, BufReader, Read, Write},
    os::unix::net::UnixStream,
    path::PathBuf,
    process::{Child, Command, Stdio},
    sync::atomic::{AtomicU32, Ordering},
    thread,
    time::Duration,
};

use aforo::redis::resp::Value;

/// A server and one connection to it.
pub struct Redis {
    #[expect(dead_code, reason = "ends the server when dropped")]
    server: Server,
    stream: BufReader<UnixStream>,
}

impl Redis {
    /// The server named by `REDIS_SERVER`, else `redis-server` of the PATH.
    pub fn start() -> Self {
        let binary = std::env::var("REDIS_SERVER").unwrap_or_else(|_| "redis-server".to_owned());
        Self::start_binary(&binary, &[])
    }

    /// That binary, with more options.
    pub fn start_binary(binary: &str, options: &[&str]) -> Self {
        static NEXT: AtomicU32 = AtomicU32::new(0);
        let name = format!(
            "aforo-script-{}-{}",
            std::process::id(),
            NEXT.fetch_add(1, Ordering::Relaxed)
        );
        let dir = std::env::temp_dir().join(name);
        std::fs::create_dir(&dir).unwrap();
        let socket = dir.join("redis.sock");
        let log = std::fs::File::create(dir.join("redis.log")).unwrap();
        let process = Command::new(binary)
            .current_dir(&dir)
            .args([
                "--port",
                "0",
                "--save",
                "",
                "--appendonly",
                "no",
                "--unixsocket",
            ])
            .arg(&socket)
            .args(options)
            .stdout(log)
            .stderr(Stdio::null())
            .spawn()
            .unwrap_or_else(|error| panic!("cannot start {binary}: {error}"));
        let server = Server { process, dir };
        let stream = server.connect();
        Self {
            server,
            stream: BufReader::new(stream),
        }
    }

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
            other => panic!("not RESP2: {}", other as char),
        }
    }
}

/// The process and its directory.
struct Server {
    process: Child,
    dir: PathBuf,
}

impl Server {
    fn connect(&self) -> UnixStream {
        for _ in 0..500 {
            if let Ok(stream) = UnixStream::connect(self.dir.join("redis.sock")) {
                stream
                    .set_read_timeout(Some(Duration::from_secs(30)))
                    .unwrap();
                return stream;
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
