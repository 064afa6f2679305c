//! A server that answers whatever a test wants; here as Redis, in `http_stub` as an HTTP gateway.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncBufReadExt, AsyncReadExt, AsyncWriteExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::runtime;

/// A command: its words.
pub type Words = Vec<Vec<u8>>;

/// What to do about a command. What is decided for one is done before the next is read, as Redis does.
#[derive(Clone, Debug)]
pub enum Act {
    /// Writes these pieces, each after its pause.
    Write(Vec<(Duration, Vec<u8>)>),
    /// Says nothing, and reads on.
    Silence,
    /// Closes the connection.
    Close,
    /// Writes this and closes the connection.
    Last(Vec<u8>),
}

impl Act {
    /// Writes this at once.
    #[must_use]
    pub fn reply(bytes: &[u8]) -> Self {
        Self::Write(vec![(Duration::ZERO, bytes.to_vec())])
    }

    /// Writes this after a pause.
    #[must_use]
    pub fn reply_after(pause: Duration, bytes: &[u8]) -> Self {
        Self::Write(vec![(pause, bytes.to_vec())])
    }

    /// Writes this one byte at a time, each after a pause.
    #[must_use]
    pub fn trickle(pause: Duration, bytes: &[u8]) -> Self {
        Self::Write(bytes.iter().map(|&byte| (pause, vec![byte])).collect())
    }
}

/// What comes over a connection, one after the other.
pub trait Question: Clone + Send + Sized + 'static {
    /// The next one, `None` at the end of the connection or of its sense.
    fn read(stream: &mut BufReader<TcpStream>) -> impl Future<Output = Option<Self>> + Send;
}

impl Question for Words {
    async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
        let count = number(stream, b'*').await?;
        let mut words = Vec::with_capacity(count);
        for _ in 0..count {
            let length = number(stream, b'$').await?;
            let mut word = vec![0; length + 2];
            stream.read_exact(&mut word).await.ok()?;
            word.truncate(length);
            words.push(word);
        }
        Some(words)
    }
}

type Script<Q> = Box<dyn FnMut(&Q) -> Act + Send>;

struct Inside<Q> {
    script: Script<Q>,
    asked: Vec<Q>,
}

/// The server, by what it is asked.
pub struct Scripted<Q> {
    port: u16,
    inside: Arc<Mutex<Inside<Q>>>,
    server: JoinHandle<()>,
}

/// One that is asked commands, as a Redis.
pub type Stub = Scripted<Words>;

impl<Q: Question> Scripted<Q> {
    /// One that does for each question what `script` says.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn start(script: impl FnMut(&Q) -> Act + Send + 'static) -> Self {
        let inside = Inside {
            script: Box::new(script) as Script<Q>,
            asked: Vec::new(),
        };
        let inside = Arc::new(Mutex::new(inside));
        let listener = runtime().block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a port for the stub");
        let port = listener.local_addr().expect("an address").port();
        let shared = Arc::clone(&inside);
        let server = runtime().spawn(async move {
            loop {
                let Ok((stream, _)) = listener.accept().await else {
                    continue;
                };
                tokio::spawn(serve(stream, Arc::clone(&shared)));
            }
        });
        Self {
            port,
            inside,
            server,
        }
    }

    /// Its loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Does something else from now on.
    ///
    /// # Panics
    /// When the script that ran before panicked.
    pub fn from_now_on(&self, script: impl FnMut(&Q) -> Act + Send + 'static) {
        self.inside.lock().expect("the script did not panic").script = Box::new(script);
    }

    /// What it was asked, in order.
    ///
    /// # Panics
    /// When the script panicked.
    #[must_use]
    pub fn asked(&self) -> Vec<Q> {
        let inside = self.inside.lock().expect("the script did not panic");
        inside.asked.clone()
    }
}

impl<Q> Drop for Scripted<Q> {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve<Q: Question>(stream: TcpStream, inside: Arc<Mutex<Inside<Q>>>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    while let Some(question) = Q::read(&mut stream).await {
        let act = {
            let mut inside = inside.lock().expect("the script did not panic");
            let act = (inside.script)(&question);
            inside.asked.push(question);
            act
        };
        if !perform(act, &mut stream).await {
            return;
        }
    }
}

/// Does it. False: the connection is over.
async fn perform(act: Act, stream: &mut BufReader<TcpStream>) -> bool {
    match act {
        Act::Silence => true,
        Act::Close => false,
        Act::Last(bytes) => {
            let _ = stream.write_all(&bytes).await;
            false
        }
        Act::Write(pieces) => {
            for (pause, bytes) in pieces {
                if !pause.is_zero() {
                    tokio::time::sleep(pause).await;
                }
                if stream.write_all(&bytes).await.is_err() {
                    return false;
                }
            }
            true
        }
    }
}

async fn number(stream: &mut BufReader<TcpStream>, kind: u8) -> Option<usize> {
    let mut line = Vec::new();
    stream.read_until(b'\n', &mut line).await.ok()?;
    let text = line.strip_prefix(&[kind])?;
    std::str::from_utf8(text).ok()?.trim().parse().ok()
}
