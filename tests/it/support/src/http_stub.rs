//! An HTTP server that answers whatever bytes a test wants: a gateway gone wrong.

use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::{TcpListener, TcpStream};
use tokio::task::JoinHandle;

use crate::runtime;
use crate::stub::{Act, perform};

/// One request.
#[derive(Clone, Debug)]
pub struct Call {
    /// What was asked for.
    pub target: String,
    /// The body.
    pub body: Vec<u8>,
}

impl Call {
    /// A reply in JSON as this call wants it: as a call of the function that it names, if it names one.
    #[must_use]
    pub fn wrap(&self, json: &[u8]) -> Vec<u8> {
        match self.target.split_once("?jsonp=") {
            Some((_, name)) => [name.as_bytes(), b"(", json, b");"].concat(),
            None => json.to_vec(),
        }
    }
}

type Script = Box<dyn FnMut(&Call) -> Act + Send>;

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
    /// One that does for each request what `script` says.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn start(script: impl FnMut(&Call) -> Act + Send + 'static) -> Self {
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
    pub fn from_now_on(&self, script: impl FnMut(&Call) -> Act + Send + 'static) {
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
    while let Some(call) = request(&mut stream).await {
        let act = {
            let mut inside = inside.lock().expect("the script did not panic");
            inside.asked += 1;
            (inside.script)(&call)
        };
        if !perform(act, &mut stream).await {
            return;
        }
    }
}

/// The next request, `None` at the end of the connection.
async fn request(stream: &mut BufReader<TcpStream>) -> Option<Call> {
    let (mut length, mut target) = (0, String::new());
    loop {
        let mut line = String::new();
        if stream.read_line(&mut line).await.ok()? == 0 {
            return None;
        }
        if target.is_empty() {
            line.split(' ').nth(1)?.clone_into(&mut target);
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
    Some(Call { target, body })
}
