//! Traffic in the background of a test.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use tokio::task::JoinHandle;

use crate::client::{Answer, Ask, Connection, Silence};
use crate::runtime;

/// One request of the load.
#[derive(Clone, Debug)]
pub struct Outcome {
    /// When it was sent.
    pub sent: Instant,
    /// What came back.
    pub answer: Result<Answer, Silence>,
}

impl Outcome {
    /// The status, or 0 when there was no answer.
    #[must_use]
    pub fn status(&self) -> u16 {
        self.answer.as_ref().map_or(0, |answer| answer.status)
    }
}

/// Connections that send one request after the other until they are told to stop.
#[derive(Debug)]
pub struct Load {
    stop: Arc<AtomicBool>,
    tasks: Vec<JoinHandle<Vec<Outcome>>>,
}

impl Load {
    /// `connections` to each address, each sending `ask` with a pause of `pause` between answer and request.
    #[must_use]
    pub fn start(addresses: &[SocketAddr], connections: usize, pause: Duration, ask: &Ask) -> Self {
        let stop = Arc::new(AtomicBool::new(false));
        let every = addresses
            .iter()
            .flat_map(|address| std::iter::repeat_n(*address, connections));
        let tasks = every
            .map(|address| runtime().spawn(run(address, ask.clone(), pause, Arc::clone(&stop))));
        let tasks = tasks.collect();
        Self { stop, tasks }
    }

    /// Ends it; what became of every request, in the order of sending.
    ///
    /// # Panics
    /// When a client failed.
    #[must_use]
    pub fn stop(self) -> Vec<Outcome> {
        self.stop.store(true, Ordering::Relaxed);
        let mut all = Vec::new();
        for task in self.tasks {
            all.extend(runtime().block_on(task).expect("the client did not panic"));
        }
        all.sort_by_key(|outcome| outcome.sent);
        all
    }
}

async fn run(
    address: SocketAddr,
    ask: Ask,
    pause: Duration,
    stop: Arc<AtomicBool>,
) -> Vec<Outcome> {
    let mut outcomes = Vec::new();
    let mut open: Option<Connection> = None;
    while !stop.load(Ordering::Relaxed) {
        let sent = Instant::now();
        let answer = match open.take() {
            Some(connection) => Ok(connection),
            None => Connection::open_http1(address).await,
        };
        let answer = match answer {
            Ok(mut connection) => {
                let answer = connection.exchange(&ask).await;
                let closes = answer
                    .as_ref()
                    .is_ok_and(|a| a.header("connection") == Some("close"));
                if answer.is_ok() && !closes {
                    open = Some(connection);
                }
                answer
            }
            Err(silence) => Err(silence),
        };
        outcomes.push(Outcome { sent, answer });
        tokio::time::sleep(pause).await;
    }
    outcomes
}
