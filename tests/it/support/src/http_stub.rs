//! An HTTP server that answers whatever bytes a test wants: a gateway gone wrong.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::runtime;
use crate::stub::{Act, perform};

type Script = Box<dyn FnMut(&[u8]) -> Act + Send>;

struct Inside {
    script: Script,
    asked: usize,
}

/// The server.
pub struct HttpStub {
    port: u16,
    inside: Arc<Mutex<Inside>>,
    server: JoinHandle<()>,
}

impl HttpStub {
    /// One that does for each request, given its body, what `script` says.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn start(script: impl FnMut(&[u8]) -> Act + Send + 'static) -> Self {
        let inside = Arc::new(Mutex::new(Inside {
            script: Box::new(script),
            asked: 0,
        }));
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
    pub fn from_now_on(&self, script: impl FnMut(&[u8]) -> Act + Send + 'static) {
        self.inside.lock().expect("the script did not panic").script = Box::new(script);
    }

    /// How many requests came.
    ///
    /// # Panics
    /// When the script panicked.
    #[must_use]
    pub fn asked(&self) -> usize {
        self.inside.lock().expect("the script did not panic").asked
    }
}

/// A whole response with this status and body.
#[must_use]
pub fn response(status: &str, body: &[u8]) -> Vec<u8> {
    let head = format!(
        "HTTP/1.1 {status}\r\ncontent-length: {}\r\n\r\n",
        body.len()
    );
    [head.as_bytes(), body].concat()
}

impl Drop for HttpStub {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(stream: TcpStream, inside: Arc<Mutex<Inside>>) {
    let _ = stream.set_nodelay(true);
    let mut stream = BufReader::new(stream);
    while let Some(body) = request(&mut stream).await {
        let act = {
            let mut inside = inside.lock().expect("the script did not panic");
            inside.asked += 1;
            (inside.script)(&body)
        };
        if !perform(act, &mut stream).await {
            return;
        }
    }
}

/// The body of the next request, `None` at the end of the connection.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<Vec<u8>> {
    let mut length = 0;
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        let line = line.trim_end().to_ascii_lowercase();
        if line.is_empty() {
            break;
        }
        if let Some(value) = line.strip_prefix("content-length:") {
            length = value.trim().parse().ok()?;
        }
    }
    let mut body = vec![0; length];
    stream.read_exact(&mut body).await.ok()?;
    Some(body)
}
