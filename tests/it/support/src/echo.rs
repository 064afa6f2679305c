//! The upstream: gives a request's body back and remembers what came.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex, MutexGuard};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::header::{HeaderName, HeaderValue};
use hyper::service::service_fn;
use hyper::{HeaderMap, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use tokio::net::TcpListener;
use tokio::sync::watch;
use tokio::task::JoinHandle;

use crate::runtime;

/// An HTTP/1.1 server in this process.
#[derive(Debug)]
pub struct Echo {
    port: u16,
    inside: Arc<Mutex<Inside>>,
    server: JoinHandle<()>,
}

/// A request that reached the upstream.
#[derive(Clone, Debug)]
pub struct Seen {
    /// Path and query as they came.
    pub path: String,
    /// All header fields.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
}

#[derive(Debug)]
struct Inside {
    seen: Vec<Seen>,
    status: StatusCode,
    headers: HeaderMap,
    open: watch::Sender<bool>,
}

impl Echo {
    /// Starts one.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn start() -> Self {
        let inside = Inside {
            seen: Vec::new(),
            status: StatusCode::OK,
            headers: HeaderMap::new(),
            open: watch::Sender::new(true),
        };
        let inside = Arc::new(Mutex::new(inside));
        let listener = runtime().block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a port for the upstream");
        let port = listener.local_addr().expect("an address").port();
        let server = runtime().spawn(serve(listener, Arc::clone(&inside)));
        Self {
            port,
            inside,
            server,
        }
    }

    /// The loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }

    /// How many requests came.
    #[must_use]
    pub fn hits(&self) -> usize {
        self.inside().seen.len()
    }

    /// How many requests came whose header `name` is `value`.
    #[must_use]
    pub fn hits_with(&self, name: &str, value: &[u8]) -> usize {
        let holds = |seen: &&Seen| {
            seen.headers
                .get(name)
                .is_some_and(|v| v.as_bytes() == value)
        };
        self.inside().seen.iter().filter(holds).count()
    }

    /// What came since the start or the last call.
    #[must_use]
    pub fn take_seen(&self) -> Vec<Seen> {
        std::mem::take(&mut self.inside().seen)
    }

    /// Answers from now on with this status and these header fields too.
    ///
    /// # Panics
    /// When they are no status and no header fields.
    pub fn answer_with(&self, status: u16, headers: &[(&str, &str)]) {
        let mut inside = self.inside();
        inside.status = StatusCode::from_u16(status).expect("a status");
        inside.headers = HeaderMap::new();
        for (name, value) in headers {
            let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
            inside
                .headers
                .append(name, HeaderValue::from_str(value).expect("a header value"));
        }
    }

    /// Answers nobody from now on, until [`Echo::go_on`].
    pub fn hold(&self) {
        self.inside().open.send_replace(false);
    }

    /// Answers again, those that wait too.
    pub fn go_on(&self) {
        self.inside().open.send_replace(true);
    }

    fn inside(&self) -> MutexGuard<'_, Inside> {
        self.inside.lock().expect("the upstream did not panic")
    }
}

impl Drop for Echo {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, inside: Arc<Mutex<Inside>>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let inside = Arc::clone(&inside);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&inside)));
            let connection = hyper::server::conn::http1::Builder::new();
            let _ = connection
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    inside: Arc<Mutex<Inside>>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (head, body) = request.into_parts();
    // A body that breaks off is no request: nothing is counted, and the connection is gone anyway.
    let Ok(body) = body.collect().await else {
        return Ok(Response::new(Full::default()));
    };
    let body = body.to_bytes();
    let path = head
        .uri
        .path_and_query()
        .map_or("", |path| path.as_str())
        .to_owned();
    let lock = || inside.lock().expect("the upstream did not panic");
    let mut open = {
        let mut inside = lock();
        inside.seen.push(Seen {
            path,
            headers: head.headers,
            body: body.clone(),
        });
        inside.open.subscribe()
    };
    let _ = open.wait_for(|open| *open).await;
    let inside = lock();
    let mut response = Response::new(Full::new(body));
    *response.status_mut() = inside.status;
    *response.headers_mut() = inside.headers.clone();
    Ok(response)
}
