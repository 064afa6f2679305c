//! A closed-loop HTTP/1.1 load generator on one thread.

use std::cell::RefCell;
use std::net::SocketAddr;
use std::rc::Rc;
use std::time::{Duration, Instant};

use support::envoy::Envoy;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::TcpStream;
use tokio::task::LocalSet;

/// What one measurement found.
#[derive(Clone, Copy, Debug)]
pub struct Measured {
    /// Requests answered per second.
    pub per_second: f64,
    /// Half of the requests took at most this.
    pub p50: Duration,
    /// 99 of 100 requests took at most this.
    pub p99: Duration,
    /// What Envoy's threads spent on a core, per request. Unlike the others it says something even on a
    /// machine that has other work to do.
    pub on_core: Duration,
}

/// Sends over `connections`, on each the next request when the last is answered, for `span`.
///
/// # Panics
/// When an answer is not a 200: then something else was measured.
pub fn run(envoy: &Envoy, connections: usize, span: Duration) -> Measured {
    let address = envoy.address();
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .build();
    let times = Rc::new(RefCell::new(Vec::with_capacity(100_000)));
    let local = LocalSet::new();
    let spent = envoy.process().on_core();
    let started = Instant::now();
    for number in 0..connections {
        let times = Rc::clone(&times);
        local.spawn_local(async move {
            let taken = client(address, number, started + span).await;
            times
                .borrow_mut()
                .extend(taken.unwrap_or_else(|error| panic!("client {number}: {error}")));
        });
    }
    runtime.expect("a runtime").block_on(local);
    let elapsed = started.elapsed();
    let spent = envoy.process().on_core() - spent;
    let mut times = times.take();
    let (p50, p99) = (quantile(&mut times, 0.5), quantile(&mut times, 0.99));
    let count = times.len() as f64;
    Measured {
        per_second: count / elapsed.as_secs_f64(),
        p50,
        p99,
        on_core: spent.div_f64(count),
    }
}

async fn client(
    address: SocketAddr,
    number: usize,
    end: Instant,
) -> std::io::Result<Vec<Duration>> {
    let mut stream = TcpStream::connect(address).await?;
    stream.set_nodelay(true)?;
    let request = format!("GET / HTTP/1.1\r\nhost: bench\r\nx-api-key: client-{number}\r\n\r\n");
    let mut buffer = Vec::with_capacity(4096);
    let mut times = Vec::with_capacity(32_768);
    let mut now = Instant::now();
    loop {
        stream.write_all(request.as_bytes()).await?;
        buffer.clear();
        while !is_whole(&buffer) {
            if stream.read_buf(&mut buffer).await? == 0 {
                return Err(std::io::ErrorKind::UnexpectedEof.into());
            }
        }
        assert!(
            buffer.starts_with(b"HTTP/1.1 200"),
            "{}",
            String::from_utf8_lossy(&buffer)
        );
        let answered = Instant::now();
        times.push(answered - now);
        now = answered;
        if now >= end {
            return Ok(times);
        }
    }
}

/// Whether a head and the body that its `content-length` speaks of are there.
fn is_whole(answer: &[u8]) -> bool {
    let Some(end) = answer.windows(4).position(|window| window == b"\r\n\r\n") else {
        return false;
    };
    let head = String::from_utf8_lossy(&answer[..end]);
    let length = head
        .lines()
        .find_map(|line| line.strip_prefix("content-length: ")?.parse().ok());
    answer.len() >= end + 4 + length.unwrap_or(0)
}

/// Half of `times` are at most this.
pub fn median(times: &mut [Duration]) -> Duration {
    quantile(times, 0.5)
}

fn quantile(times: &mut [Duration], share: f64) -> Duration {
    let last = times.len().checked_sub(1).expect("at least one answer");
    let index = (last as f64 * share).round() as usize;
    *times.select_nth_unstable(index).1
}
