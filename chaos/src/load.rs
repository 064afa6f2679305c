//! Traffic at a fixed rate, whatever becomes of it.
//!
//! Each request has a moment at which it is due, and its latency counts from there: a request that is
//! sent late because the ones before it hang is as slow as its client would find it. Nothing waits for
//! an answer before the next request goes out (an open loop), so a stall cannot hide the requests that
//! it delays.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, LazyLock, Mutex, MutexGuard};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Empty};
use hyper::Request;
use hyper::client::conn::http1::{self, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::net::TcpStream;
use tokio::runtime::Runtime;
use tokio::sync::mpsc;

use crate::sample::{End, Sample, Stream};

/// Who has no answer after so long has none: shorter than the idle timeout of the shipped configuration,
/// which would end such a request in Envoy's name.
const PATIENCE: Duration = Duration::from_secs(3);

/// Connections that are open before the first request, taken in turn, so that every worker gets its part.
const OPEN: usize = 32;

/// One due request: what it asks for.
#[derive(Clone, Debug)]
pub struct Ask {
    /// Whose request it is.
    pub stream: Stream,
    /// Path.
    pub path: &'static str,
    /// The value of the header `x-api-key`.
    pub key: String,
}

/// Running traffic.
#[derive(Debug)]
pub struct Load {
    pool: Arc<Pool>,
    pacer: JoinHandle<()>,
    samples: mpsc::UnboundedReceiver<Sample>,
}

#[derive(Debug)]
struct Pool {
    headers: Vec<(&'static str, &'static str)>,
    inside: Mutex<Inside>,
}

#[derive(Debug)]
struct Inside {
    address: SocketAddr,
    /// Connections to an address of before say an older term.
    term: u64,
    idle: VecDeque<Sender>,
    over: bool,
}

type Sender = SendRequest<Empty<Bytes>>;

impl Load {
    /// Sends `asks` to `address`, `rate` of them each second, from now on.
    ///
    /// # Panics
    /// When the connections cannot be opened.
    pub fn start(
        address: SocketAddr,
        rate: u32,
        headers: Vec<(&'static str, &'static str)>,
        mut asks: impl Iterator<Item = Ask> + Send + 'static,
    ) -> Self {
        let pool = Arc::new(Pool {
            headers,
            inside: Mutex::new(Inside {
                address,
                term: 0,
                idle: VecDeque::new(),
                over: false,
            }),
        });
        pool.warm();
        let (sink, samples) = mpsc::unbounded_channel();
        let shared = Arc::clone(&pool);
        let pacer = std::thread::spawn(move || {
            let start = Instant::now();
            for number in 0_u32.. {
                let due = start + Duration::from_secs(1) * number / rate;
                if let Some(early) = due.checked_duration_since(Instant::now()) {
                    std::thread::sleep(early);
                }
                if shared.inside().over {
                    break;
                }
                let Some(ask) = asks.next() else { break };
                let (pool, sink) = (Arc::clone(&shared), sink.clone());
                runtime().spawn(async move {
                    let (end, again) = pool.send(&ask).await;
                    let _ = sink.send(Sample {
                        stream: ask.stream,
                        key: ask.key,
                        due,
                        took: due.elapsed(),
                        end,
                        again,
                    });
                });
            }
        });
        Self {
            pool,
            pacer,
            samples,
        }
    }

    /// Sends what comes from now on to another address; requests under way stay where they are.
    pub fn divert(&self, address: SocketAddr) {
        let mut inside = self.pool.inside();
        inside.address = address;
        inside.term += 1;
        inside.idle.clear();
    }

    /// Sends nothing more and waits for what is under way; what became of every request.
    ///
    /// # Panics
    /// When the sending thread panicked.
    #[must_use]
    pub fn stop(mut self) -> Vec<Sample> {
        self.pool.inside().over = true;
        self.pacer.join().expect("the pacer did not panic");
        let mut all = Vec::new();
        while let Some(sample) = self.samples.blocking_recv() {
            all.push(sample);
        }
        all.sort_by_key(|sample| sample.due);
        all
    }
}

impl Pool {
    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("no client panicked")
    }

    fn warm(&self) {
        let address = self.inside().address;
        let opened = runtime().block_on(async {
            let mut opened = VecDeque::new();
            for _ in 0..OPEN {
                opened.push_back(open(address).await.expect("a connection"));
            }
            opened
        });
        self.inside().idle = opened;
    }

    /// One request. The flag: it was sent again, because the kept connection that it was sent on first
    /// closed at that moment, which is no answer and no fault either (RFC 9112, 9.6).
    async fn send(&self, ask: &Ask) -> (End, bool) {
        let mut again = false;
        let whole = async {
            let kept = self.kept();
            let was_kept = kept.is_some();
            match self.exchange(kept, ask).await {
                Err(_) if was_kept => {
                    again = true;
                    self.exchange(None, ask).await
                }
                end => end,
            }
        };
        let end = match tokio::time::timeout(PATIENCE, whole).await {
            Err(_) => End::Hung,
            Ok(Err(why)) => End::Broken(why),
            Ok(Ok(end)) => end,
        };
        (end, again)
    }

    fn kept(&self) -> Option<Sender> {
        let mut inside = self.inside();
        while let Some(sender) = inside.idle.pop_front() {
            if sender.is_ready() {
                return Some(sender);
            }
        }
        None
    }

    async fn exchange(&self, kept: Option<Sender>, ask: &Ask) -> Result<End, String> {
        let (address, term) = {
            let inside = self.inside();
            (inside.address, inside.term)
        };
        let mut sender = match kept {
            Some(sender) => sender,
            None => open(address).await?,
        };
        let mut request = Request::get(ask.path)
            .header("host", "chaos")
            .header("x-api-key", &ask.key);
        for (name, value) in &self.headers {
            request = request.header(*name, *value);
        }
        let request = request.body(Empty::new()).map_err(|e| e.to_string())?;
        let response = sender.send_request(request).await;
        let (head, body) = response.map_err(|e| format!("{e:?}"))?.into_parts();
        body.collect().await.map_err(|e| format!("{e:?}"))?;
        let closes = head
            .headers
            .get("connection")
            .is_some_and(|value| value == "close");
        if !closes {
            let _ = sender.ready().await;
            let mut inside = self.inside();
            if inside.term == term {
                inside.idle.push_back(sender);
            }
        }
        Ok(End::read(head.status.as_u16(), &head.headers))
    }
}

async fn open(address: SocketAddr) -> Result<Sender, String> {
    let stream = TcpStream::connect(address)
        .await
        .map_err(|e| e.to_string())?;
    stream.set_nodelay(true).map_err(|e| e.to_string())?;
    let (sender, connection) = http1::handshake(TokioIo::new(stream))
        .await
        .map_err(|e| e.to_string())?;
    tokio::spawn(async move { drop(connection.await) });
    Ok(sender)
}

/// The runtime of the clients, apart from that of the servers in this process.
pub(crate) fn runtime() -> &'static Runtime {
    static RUNTIME: LazyLock<Runtime> = LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("clients")
            .enable_all()
            .build()
            .expect("a runtime for the clients")
    });
    &RUNTIME
}
