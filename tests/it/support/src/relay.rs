//! A wire between Envoy and Redis that a test can slow down or cut.

use std::net::Ipv4Addr;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::runtime;

/// Carries bytes both ways; replies after a delay of the test's choosing, which may change at any time.
#[derive(Debug)]
pub struct Relay {
    port: u16,
    delay: Arc<AtomicU64>,
    cuts: watch::Sender<u64>,
    server: JoinHandle<()>,
}

impl Relay {
    /// One that leads to `port` on loopback.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = runtime().block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a port for the relay");
        let own = listener.local_addr().expect("an address").port();
        let delay = Arc::new(AtomicU64::new(0));
        let (cuts, cut) = watch::channel(0);
        let server = runtime().spawn(serve(listener, port, Arc::clone(&delay), cut));
        Self {
            port: own,
            delay,
            cuts,
            server,
        }
    }

    /// Its own loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// Holds each piece of a reply back for this long from now on.
    pub fn delay_replies(&self, delay: Duration) {
        let micros = u64::try_from(delay.as_micros()).unwrap_or(u64::MAX);
        self.delay.store(micros, Ordering::Relaxed);
    }

    /// Closes every connection that is open now.
    pub fn cut(&self) {
        self.cuts.send_modify(|count| *count += 1);
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.server.abort();
        self.cut();
    }
}

async fn serve(listener: TcpListener, port: u16, delay: Arc<AtomicU64>, cut: watch::Receiver<u64>) {
    loop {
        let Ok((near, _)) = listener.accept().await else {
            continue;
        };
        let delay = Arc::clone(&delay);
        let mut cut = cut.clone();
        cut.mark_unchanged();
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
                return;
            };
            let _ = near.set_nodelay(true).and_then(|()| far.set_nodelay(true));
            let (near_read, near_write) = near.into_split();
            let (far_read, far_write) = far.into_split();
            let none = Arc::new(AtomicU64::new(0));
            tokio::select! {
                () = carry(near_read, far_write, none) => {}
                () = carry(far_read, near_write, delay) => {}
                _ = cut.changed() => {}
            }
        });
    }
}

async fn carry(mut from: OwnedReadHalf, mut into: OwnedWriteHalf, delay: Arc<AtomicU64>) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut piece).await {
        if length == 0 {
            return;
        }
        let wait = Duration::from_micros(delay.load(Ordering::Relaxed));
        if !wait.is_zero() {
            tokio::time::sleep(wait).await;
        }
        if into.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}
