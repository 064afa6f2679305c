//! HTTP clients: one request, one connection for many, many at once, and requests that are given up.

use std::net::SocketAddr;
use std::time::{Duration, Instant};

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::client::conn::{http1, http2};
use hyper::header::{HeaderName, HeaderValue};
use hyper::{HeaderMap, Method, Request, Response, body::Incoming};
use hyper_util::rt::{TokioExecutor, TokioIo};
use tokio::net::TcpStream;
use tokio::task::JoinHandle;

use crate::runtime;

/// No request of a test waits longer: a filter that hangs fails the test by name.
const PATIENCE: Duration = Duration::from_secs(10);

/// A request to be sent.
#[derive(Clone, Debug)]
pub struct Ask {
    method: Method,
    path: String,
    headers: HeaderMap,
    body: Bytes,
}

/// A GET.
#[must_use]
pub fn get(path: &str) -> Ask {
    Ask {
        method: Method::GET,
        path: path.to_owned(),
        headers: HeaderMap::new(),
        body: Bytes::new(),
    }
}

/// A POST.
#[must_use]
pub fn post(path: &str, body: impl Into<Bytes>) -> Ask {
    Ask {
        method: Method::POST,
        body: body.into(),
        ..get(path)
    }
}

impl Ask {
    /// With one more header line.
    ///
    /// # Panics
    /// When hyper does not let it through: use [`crate::http_text::Raw`] for such.
    #[must_use]
    pub fn header(mut self, name: &str, value: impl AsRef<[u8]>) -> Self {
        let name = HeaderName::from_bytes(name.as_bytes()).expect("a header name");
        let value = HeaderValue::from_bytes(value.as_ref()).expect("a header value");
        self.headers.append(name, value);
        self
    }

    /// With another method.
    ///
    /// # Panics
    /// When it is none.
    #[must_use]
    pub fn method(mut self, method: &str) -> Self {
        self.method = Method::from_bytes(method.as_bytes()).expect("a method");
        self
    }

    /// The answer, over a connection of its own.
    ///
    /// # Panics
    /// When there is none within ten seconds.
    #[must_use]
    pub fn to(&self, address: SocketAddr) -> Answer {
        Connection::http1(address).send(self)
    }

    /// The answer, over a connection of its own, or why there is none.
    ///
    /// # Errors
    /// When there is no connection, it breaks, or nothing comes within ten seconds.
    pub fn try_to(&self, address: SocketAddr) -> Result<Answer, Silence> {
        runtime().block_on(async { Connection::open_http1(address).await?.exchange(self).await })
    }

    fn request(&self, address: SocketAddr, absolute: bool) -> Request<Full<Bytes>> {
        let uri = if absolute {
            format!("http://{address}{}", self.path)
        } else {
            self.path.clone()
        };
        let mut request = Request::new(Full::new(self.body.clone()));
        *request.method_mut() = self.method.clone();
        *request.uri_mut() = uri.parse().expect("a path");
        *request.headers_mut() = self.headers.clone();
        if !absolute && !self.headers.contains_key("host") {
            let host = HeaderValue::from_str(&address.to_string()).expect("a host");
            request.headers_mut().insert("host", host);
        }
        request
    }
}

/// What came back.
#[derive(Clone, Debug)]
pub struct Answer {
    /// The status.
    pub status: u16,
    /// All header fields.
    pub headers: HeaderMap,
    /// The body, whole.
    pub body: Bytes,
    /// From sending to the end of the body.
    pub took: Duration,
}

impl Answer {
    /// The value of a header field that stands at most once.
    ///
    /// # Panics
    /// When it stands more than once.
    #[must_use]
    pub fn header(&self, name: &str) -> Option<&str> {
        let all = self.all(name);
        assert!(all.len() < 2, "{name} stands {} times: {all:?}", all.len());
        all.first().copied()
    }

    /// All values of a header field.
    #[must_use]
    pub fn all(&self, name: &str) -> Vec<&str> {
        let values = self.headers.get_all(name).iter();
        values
            .map(|value| value.to_str().unwrap_or("(not text)"))
            .collect()
    }

    /// A header field that is one integer.
    ///
    /// # Panics
    /// When it is absent, stands more than once, or is no integer.
    #[must_use]
    pub fn number(&self, name: &str) -> i64 {
        let text = self
            .header(name)
            .unwrap_or_else(|| panic!("no {name} in {self:?}"));
        text.parse()
            .unwrap_or_else(|_| panic!("{name} is {text}, no integer"))
    }

    /// The body as text.
    #[must_use]
    pub fn text(&self) -> String {
        String::from_utf8_lossy(&self.body).into_owned()
    }
}

/// Why there is no answer.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Silence {
    /// No connection.
    NotConnected(String),
    /// The connection broke before the whole answer came.
    Broken(String),
    /// Nothing came in time.
    Hung,
}

enum Sender {
    Http1(http1::SendRequest<Full<Bytes>>),
    Http2(http2::SendRequest<Full<Bytes>>),
}

/// One connection, kept alive.
pub struct Connection {
    address: SocketAddr,
    sender: Sender,
    driver: JoinHandle<()>,
}

impl Connection {
    /// Opens one that speaks HTTP/1.1.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn http1(address: SocketAddr) -> Self {
        runtime()
            .block_on(Self::open_http1(address))
            .expect("a connection")
    }

    /// Opens one that speaks HTTP/2 by prior knowledge.
    ///
    /// # Panics
    /// When it cannot be opened.
    #[must_use]
    pub fn http2(address: SocketAddr) -> Self {
        runtime()
            .block_on(Self::open_http2(address))
            .expect("a connection")
    }

    /// The answer.
    ///
    /// # Panics
    /// When there is none within ten seconds.
    #[must_use]
    pub fn send(&mut self, ask: &Ask) -> Answer {
        self.try_send(ask)
            .unwrap_or_else(|silence| panic!("no answer to {ask:?}: {silence:?}"))
    }

    /// The answer, or why there is none.
    ///
    /// # Errors
    /// When the connection breaks or nothing comes within ten seconds.
    pub fn try_send(&mut self, ask: &Ask) -> Result<Answer, Silence> {
        runtime().block_on(self.exchange(ask))
    }

    /// Sends and does not wait. Dropping what this gives back before it has finished hangs up: the
    /// connection closes on HTTP/1.1, the stream is reset on HTTP/2.
    #[must_use]
    pub fn start(&mut self, ask: &Ask) -> Pending {
        let answer = self.dispatch(ask);
        let task = runtime().spawn(answer);
        Pending { task: Some(task) }
    }

    pub(crate) async fn open_http1(address: SocketAddr) -> Result<Self, Silence> {
        let stream = connect(address).await?;
        let shaken = http1::handshake(TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|e| Silence::NotConnected(e.to_string()))?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self {
            address,
            sender: Sender::Http1(sender),
            driver,
        })
    }

    async fn open_http2(address: SocketAddr) -> Result<Self, Silence> {
        let stream = connect(address).await?;
        let shaken = http2::handshake(TokioExecutor::new(), TokioIo::new(stream)).await;
        let (sender, connection) = shaken.map_err(|e| Silence::NotConnected(e.to_string()))?;
        let driver = tokio::spawn(async move { drop(connection.await) });
        Ok(Self {
            address,
            sender: Sender::Http2(sender),
            driver,
        })
    }

    pub(crate) async fn exchange(&mut self, ask: &Ask) -> Result<Answer, Silence> {
        let ready = match &mut self.sender {
            Sender::Http1(sender) => sender.ready().await,
            Sender::Http2(sender) => sender.ready().await,
        };
        ready.map_err(|e| Silence::Broken(e.to_string()))?;
        self.dispatch(ask).await
    }

    fn dispatch(
        &mut self,
        ask: &Ask,
    ) -> impl Future<Output = Result<Answer, Silence>> + Send + use<> {
        let started = Instant::now();
        let sent = match &mut self.sender {
            Sender::Http1(sender) => Sent::Http1(Box::pin(
                sender.send_request(ask.request(self.address, false)),
            )),
            Sender::Http2(sender) => Sent::Http2(Box::pin(
                sender.send_request(ask.request(self.address, true)),
            )),
        };
        async move {
            let whole = async move {
                let response = match sent {
                    Sent::Http1(sent) => sent.await,
                    Sent::Http2(sent) => sent.await,
                };
                let (head, body) = response
                    .map_err(|e| Silence::Broken(format!("{e:?}")))?
                    .into_parts();
                let body = body
                    .collect()
                    .await
                    .map_err(|e| Silence::Broken(format!("{e:?}")))?;
                Ok(Answer {
                    status: head.status.as_u16(),
                    headers: head.headers,
                    body: body.to_bytes(),
                    took: started.elapsed(),
                })
            };
            tokio::time::timeout(PATIENCE, whole)
                .await
                .unwrap_or(Err(Silence::Hung))
        }
    }
}

impl Drop for Connection {
    fn drop(&mut self) {
        self.driver.abort();
    }
}

type Coming = std::pin::Pin<Box<dyn Future<Output = hyper::Result<Response<Incoming>>> + Send>>;

enum Sent {
    Http1(Coming),
    Http2(Coming),
}

/// A request that was sent and may still be answered.
pub struct Pending {
    task: Option<JoinHandle<Result<Answer, Silence>>>,
}

impl Pending {
    /// Waits for the answer.
    ///
    /// # Errors
    /// When the connection breaks or nothing comes within ten seconds.
    ///
    /// # Panics
    /// When the client itself fails.
    pub fn finish(mut self) -> Result<Answer, Silence> {
        let task = self.task.take().expect("a request waits once");
        runtime().block_on(task).expect("the client did not panic")
    }

    /// Whether an answer, or its impossibility, is there.
    #[must_use]
    pub fn is_answered(&self) -> bool {
        self.task.as_ref().is_none_or(JoinHandle::is_finished)
    }
}

impl Drop for Pending {
    fn drop(&mut self) {
        if let Some(task) = &self.task {
            task.abort();
        }
    }
}

/// Sends all of these at once, each over an HTTP/1.1 connection of its own that is open before the first is
/// sent. The answers in the order of the asks.
///
/// # Panics
/// When a connection cannot be opened, or an answer does not come within ten seconds.
#[must_use]
pub fn at_once(asks: &[(SocketAddr, Ask)]) -> Vec<Answer> {
    runtime().block_on(async {
        let mut ready = Vec::with_capacity(asks.len());
        for (address, ask) in asks {
            let connection = Connection::open_http1(*address)
                .await
                .expect("a connection");
            ready.push((connection, ask.clone()));
        }
        let sent = ready.into_iter().map(|(mut connection, ask)| {
            tokio::spawn(async move { connection.exchange(&ask).await })
        });
        let sent: Vec<_> = sent.collect();
        let mut answers = Vec::with_capacity(sent.len());
        for task in sent {
            let answer = task.await.expect("the client did not panic");
            answers.push(answer.unwrap_or_else(|silence| panic!("no answer: {silence:?}")));
        }
        answers
    })
}

/// How many of these answers have this status.
#[must_use]
pub fn count(answers: &[Answer], status: u16) -> usize {
    answers
        .iter()
        .filter(|answer| answer.status == status)
        .count()
}

async fn connect(address: SocketAddr) -> Result<TcpStream, Silence> {
    let stream = TcpStream::connect(address).await;
    let stream = stream.map_err(|e| Silence::NotConnected(e.to_string()))?;
    stream
        .set_nodelay(true)
        .map_err(|e| Silence::NotConnected(e.to_string()))?;
    Ok(stream)
}
