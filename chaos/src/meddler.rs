//! A server in Redis's place: passes everything on to a real one, until it is told to answer otherwise.

use std::net::{Ipv4Addr, SocketAddr};
use std::sync::{Arc, Mutex};
use std::time::Duration;

use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::tcp::{OwnedReadHalf, OwnedWriteHalf};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::load::runtime;

/// What it does to replies.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Way {
    /// Passes them on.
    Pass,
    /// Writes something else in their place.
    Replace(Vec<u8>),
    /// Breaks off in the middle of one and stays silent.
    Half,
    /// Writes one byte at a time, each after this pause.
    Trickle(Duration),
    /// Stays silent.
    Never,
}

/// See the module. A connection that got a wrong answer never gets a right one: what was meddled with is
/// closed by the next change of ways, or, where silence was the fault, stays silent.
#[derive(Debug)]
pub struct Meddler {
    address: SocketAddr,
    way: Arc<Mutex<Way>>,
    server: JoinHandle<()>,
}

impl Meddler {
    /// One that leads to `port` on loopback.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn to(port: u16) -> Self {
        let listener = runtime().block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        Self::at(listener.expect("a port for the meddler"), port)
    }

    /// One that listens at the far end of a network, and from there leads to `port` on loopback.
    ///
    /// # Panics
    /// When the listener would block.
    #[must_use]
    pub fn beyond(listener: std::net::TcpListener, port: u16) -> Self {
        let _runtime = runtime().enter();
        let listener = TcpListener::from_std(listener);
        Self::at(listener.expect("a listener that does not block"), port)
    }

    fn at(listener: TcpListener, port: u16) -> Self {
        let address = listener.local_addr().expect("an address");
        let way = Arc::new(Mutex::new(Way::Pass));
        let server = runtime().spawn(serve(listener, port, Arc::clone(&way)));
        Self {
            address,
            way,
            server,
        }
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.address
    }

    /// Goes about it another way from now on.
    ///
    /// # Panics
    /// When a connection panicked.
    pub fn go(&self, way: Way) {
        *self.way.lock().expect("no connection panicked") = way;
    }
}

impl Drop for Meddler {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, port: u16, way: Arc<Mutex<Way>>) {
    loop {
        let Ok((near, _)) = listener.accept().await else {
            continue;
        };
        let way = Arc::clone(&way);
        tokio::spawn(async move {
            let Ok(far) = TcpStream::connect((Ipv4Addr::LOCALHOST, port)).await else {
                return;
            };
            let _ = near.set_nodelay(true).and_then(|()| far.set_nodelay(true));
            let (near_read, near_write) = near.into_split();
            let (far_read, far_write) = far.into_split();
            tokio::select! {
                () = commands(near_read, far_write) => {}
                () = replies(far_read, near_write, way) => {}
            }
        });
    }
}

async fn commands(mut from: OwnedReadHalf, mut into: OwnedWriteHalf) {
    let mut piece = vec![0; 64 * 1024];
    while let Ok(length) = from.read(&mut piece).await {
        if length == 0 || into.write_all(&piece[..length]).await.is_err() {
            return;
        }
    }
}

async fn replies(mut from: OwnedReadHalf, mut into: OwnedWriteHalf, way: Arc<Mutex<Way>>) {
    let mut piece = vec![0; 64 * 1024];
    let mut spoilt = Way::Pass;
    while let Ok(length) = from.read(&mut piece).await {
        let bytes = &piece[..length];
        if length == 0 {
            return;
        }
        let now = now(&way);
        let done = match spoilt {
            Way::Half | Way::Never => continue,
            Way::Replace(_) if now == Way::Pass => return,
            _ => {
                spoilt.clone_from(&now);
                write(&mut into, &now, bytes, &way).await
            }
        };
        if done.is_err() {
            return;
        }
    }
}

fn now(way: &Mutex<Way>) -> Way {
    way.lock().expect("no connection panicked").clone()
}

/// Writes `bytes` in this way, or, where that takes time, until the way is another.
async fn write(
    into: &mut OwnedWriteHalf,
    chosen: &Way,
    bytes: &[u8],
    way: &Mutex<Way>,
) -> std::io::Result<()> {
    match chosen {
        Way::Pass => into.write_all(bytes).await,
        Way::Replace(other) => into.write_all(other).await,
        Way::Half => into.write_all(&bytes[..bytes.len() / 2]).await,
        Way::Never => Ok(()),
        Way::Trickle(pause) => {
            for (at, byte) in bytes.iter().enumerate() {
                if now(way) != *chosen {
                    return into.write_all(&bytes[at..]).await;
                }
                tokio::time::sleep(*pause).await;
                into.write_all(&[*byte]).await?;
            }
            Ok(())
        }
    }
}
