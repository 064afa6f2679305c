//! A server that speaks as the Upstash REST API does, in front of a Redis.

use std::convert::Infallible;
use std::net::Ipv4Addr;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use bytes::Bytes;
use http_body_util::{BodyExt, Full};
use hyper::body::Incoming;
use hyper::service::service_fn;
use hyper::{Method, Request, Response, StatusCode};
use hyper_util::rt::TokioIo;
use redis::{
    Client, Cmd, Connection, ConnectionLike, IntoConnectionInfo, RedisError, Value as Reply,
};
use serde_json::{Value, json};
use tokio::net::TcpListener;
use tokio::sync::Semaphore;
use tokio::task::JoinHandle;

use crate::runtime;

/// Connections to Redis at most.
const CONNECTIONS: usize = 128;

/// The server.
#[derive(Debug)]
pub struct Upstash {
    port: u16,
    server: JoinHandle<()>,
}

struct Inside {
    client: Client,
    authorization: String,
    idle: Mutex<Vec<Connection>>,
    room: Semaphore,
}

impl Upstash {
    /// Starts one in front of the Redis on this loopback port, for clients that know `token`.
    ///
    /// # Panics
    /// When loopback has no port for it.
    #[must_use]
    pub fn start(redis: u16, token: &str) -> Self {
        let address = format!("redis://127.0.0.1:{redis}");
        let address = address.into_connection_info().expect("an address");
        // A new connection asks at once, rather than say its name and wait for an answer first.
        let plain = address.redis_settings().clone().set_skip_set_lib_name();
        let client = Client::open(address.set_redis_settings(plain)).expect("a client");
        let inside = Arc::new(Inside {
            client,
            authorization: format!("Bearer {token}"),
            idle: Mutex::default(),
            room: Semaphore::new(CONNECTIONS),
        });
        let listener = runtime().block_on(TcpListener::bind((Ipv4Addr::LOCALHOST, 0)));
        let listener = listener.expect("a port for the gateway");
        let port = listener.local_addr().expect("an address").port();
        let server = runtime().spawn(serve(listener, inside));
        Self { port, server }
    }

    /// Its loopback port.
    #[must_use]
    pub fn port(&self) -> u16 {
        self.port
    }
}

impl Drop for Upstash {
    fn drop(&mut self) {
        self.server.abort();
    }
}

async fn serve(listener: TcpListener, inside: Arc<Inside>) {
    loop {
        let Ok((stream, _)) = listener.accept().await else {
            continue;
        };
        let _ = stream.set_nodelay(true);
        let inside = Arc::clone(&inside);
        tokio::spawn(async move {
            let service = service_fn(move |request| answer(request, Arc::clone(&inside)));
            let _ = hyper::server::conn::http1::Builder::new()
                .serve_connection(TokioIo::new(stream), service)
                .await;
        });
    }
}

async fn answer(
    request: Request<Incoming>,
    inside: Arc<Inside>,
) -> Result<Response<Full<Bytes>>, Infallible> {
    let (status, body) = match command(request, &inside).await {
        Ok(words) => inside.run(words).await,
        Err((status, text)) => (status, json!({ "error": text })),
    };
    let mut response = Response::new(Full::from(body.to_string()));
    *response.status_mut() = status;
    Ok(response)
}

/// The words of the command, or why there are none.
async fn command(
    request: Request<Incoming>,
    inside: &Inside,
) -> Result<Vec<String>, (StatusCode, &'static str)> {
    let header = |name: &str| request.headers().get(name).map(|value| value.as_bytes());
    if header("authorization") != Some(inside.authorization.as_bytes()) {
        let text = "WRONGPASS invalid or missing auth token";
        return Err((StatusCode::UNAUTHORIZED, text));
    }
    if request.method() != Method::POST || request.uri().path() != "/" {
        return Err((StatusCode::NOT_FOUND, "ERR not found"));
    }
    if header("content-type") != Some(b"application/json") {
        return Err((StatusCode::BAD_REQUEST, "ERR expected content-type JSON"));
    }
    let body = request.into_body().collect().await;
    let body = body.map(|body| body.to_bytes()).unwrap_or_default();
    serde_json::from_slice(&body)
        .map_err(|_| (StatusCode::BAD_REQUEST, "ERR failed to parse command"))
}

impl Inside {
    async fn run(self: Arc<Self>, words: Vec<String>) -> (StatusCode, Value) {
        let _room = self.room.acquire().await.expect("it is never closed");
        let inside = Arc::clone(&self);
        let asked = tokio::task::spawn_blocking(move || inside.ask(&words));
        match asked.await.expect("the gateway does not panic") {
            Ok(Reply::ServerError(error)) => {
                let text = [error.code(), error.details().unwrap_or_default()].join(" ");
                (StatusCode::BAD_REQUEST, json!({ "error": text }))
            }
            Ok(reply) => (StatusCode::OK, json!({ "result": result(&reply) })),
            Err(error) => match (error.code(), error.detail()) {
                (Some(code), detail) => {
                    let text = [code, detail.unwrap_or_default()].join(" ");
                    (StatusCode::BAD_REQUEST, json!({ "error": text }))
                }
                (None, _) => {
                    let error = json!({ "error": "no connection to Redis" });
                    (StatusCode::INTERNAL_SERVER_ERROR, error)
                }
            },
        }
    }

    /// Asks over a connection that is idle, or a new one; one that failed is not used again.
    fn ask(&self, words: &[String]) -> Result<Reply, RedisError> {
        let idle = self.idle.lock().expect("nobody panics").pop();
        let mut connection = match idle {
            Some(connection) => connection,
            None => self.connect()?,
        };
        let mut command = Cmd::new();
        for word in words {
            command.arg(word);
        }
        let reply = connection.req_command(&command);
        if connection.is_open() {
            self.idle.lock().expect("nobody panics").push(connection);
        }
        reply
    }

    fn connect(&self) -> Result<Connection, RedisError> {
        let limit = Duration::from_secs(5);
        let connection = self.client.get_connection_with_timeout(limit)?;
        connection.set_read_timeout(Some(limit))?;
        Ok(connection)
    }
}

fn result(reply: &Reply) -> Value {
    match reply {
        Reply::Int(number) => json!(number),
        Reply::BulkString(bytes) => json!(String::from_utf8_lossy(bytes)),
        Reply::SimpleString(text) => json!(text),
        Reply::Okay => json!("OK"),
        Reply::Array(items) => items.iter().map(result).collect(),
        _ => Value::Null,
    }
}
