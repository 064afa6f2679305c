//! An HTTP server that answers whatever bytes a test wants: a gateway gone wrong.

use tokio::io::{AsyncBufReadExt, AsyncReadExt, BufReader};
use tokio::net::TcpStream;

use crate::stub::{Question, Scripted};

/// The server.
pub type HttpStub = Scripted<Call>;

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

impl Question for Call {
    async fn read(stream: &mut BufReader<TcpStream>) -> Option<Self> {
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
        Some(Self { target, body })
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
