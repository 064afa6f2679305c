//! HTTP/1.1 as text on a socket: what a well-behaved client library would not send.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};
use std::time::Duration;

/// A raw connection. Reads wait at most ten seconds.
#[derive(Debug)]
pub struct Raw(TcpStream);

impl Raw {
    /// Connects.
    ///
    /// # Panics
    /// When it cannot.
    #[must_use]
    pub fn to(address: SocketAddr) -> Self {
        let stream = TcpStream::connect(address).expect("a connection");
        stream
            .set_read_timeout(Some(Duration::from_secs(10)))
            .expect("a read timeout");
        stream.set_nodelay(true).expect("no delay");
        Self(stream)
    }

    /// Sends bytes as they are.
    ///
    /// # Panics
    /// When the peer has closed.
    pub fn send(&mut self, bytes: &[u8]) {
        self.0.write_all(bytes).expect("the peer reads");
    }

    /// A GET with these header lines, each given as raw bytes without the line's end.
    pub fn get(&mut self, path: &[u8], lines: &[&[u8]]) {
        let mut text = [b"GET ".as_slice(), path, b" HTTP/1.1\r\nhost: test\r\n"].concat();
        for line in lines {
            text.extend_from_slice(line);
            text.extend_from_slice(b"\r\n");
        }
        text.extend_from_slice(b"\r\n");
        self.send(&text);
    }

    /// The status of the next answer, whose head and body (by `content-length`) are taken off the
    /// connection; the answer's text with it. Status 0 when the peer closed without an answer.
    ///
    /// # Panics
    /// When nothing comes within ten seconds.
    pub fn answer(&mut self) -> (u16, String) {
        let mut text = Vec::new();
        let mut byte = [0];
        while !text.ends_with(b"\r\n\r\n") {
            match self.0.read(&mut byte) {
                Ok(0) => return (0, String::from_utf8_lossy(&text).into_owned()),
                Ok(_) => text.extend_from_slice(&byte),
                Err(error) if error.kind() == std::io::ErrorKind::ConnectionReset => {
                    return (0, String::new());
                }
                Err(error) => panic!("no answer within ten seconds: {error}"),
            }
        }
        let head = String::from_utf8_lossy(&text).to_lowercase();
        let length = head
            .lines()
            .find_map(|line| line.strip_prefix("content-length:")?.trim().parse().ok());
        let mut body = vec![0; length.unwrap_or(0)];
        self.0.read_exact(&mut body).expect("the body");
        let status = head.split(' ').nth(1).and_then(|code| code.parse().ok());
        text.extend_from_slice(&body);
        (
            status.expect("a status line"),
            String::from_utf8_lossy(&text).into_owned(),
        )
    }
}
