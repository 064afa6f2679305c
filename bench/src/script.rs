//! `make bench-script`: decisions a second of one Redis core, per algorithm, beside `INCR`, with
//! pipelined commands as `redis-benchmark -P 32 -c 8` sends them; and the memory of a key.
//!
//! What is counted is the processor time of Redis, so other work on the machine does not matter
//! much. Every row is measured in every round; what is printed is the median.
//!
//! ROUNDS (5) and CALLS (30000, per measurement) may be set in the environment.

use std::io::{Read, Write};
use std::net::TcpStream;

use aforo::algorithm::{Algorithm, Kind, Parameters, Window};
use aforo::claim::Claim;
use aforo::redis::script::{By, Call, Commands, Member, Mode, Script, Words};
use aforo::units::Micros;
use support::redis::Redis;

use crate::setting;

/// Clients of the limits that admit.
const CLIENTS: u64 = 10_000;
const CONNECTIONS: usize = 8;
const PIPELINED: usize = 32;

/// What one row asks.
#[derive(Clone, Copy)]
enum Load {
    Incr,
    /// So many limits of one algorithm, which admit.
    Admits(Kind, usize),
    /// One limit that has nothing left.
    Refuses(Kind),
}

/// Measures and prints.
pub fn main() {
    let rounds = setting("ROUNDS", 5);
    let calls = setting("CALLS", 30_000);
    let redis = Redis::start();
    let mut link = Link::open(&redis);
    println!("Decisions a second of one Redis core, and the share of pipelined INCR\n");
    println!("| algorithm | admits | | refuses | | three limits | cost of three | bytes a key |");
    println!("|---|---|---|---|---|---|---|---|");
    for kind in Kind::ALL {
        let loads = [
            Load::Incr,
            Load::Admits(kind, 1),
            Load::Refuses(kind),
            Load::Admits(kind, 3),
        ];
        let mut all = Vec::new();
        let mut bytes = 0;
        for round in 0..=rounds {
            let costs = loads.map(|load| {
                redis.flush();
                let empty = memory(&redis);
                link.run(load, CLIENTS, 0);
                let cost = link.run(load, calls, CLIENTS);
                if matches!(load, Load::Admits(_, 1)) {
                    bytes = (memory(&redis) - empty) / CLIENTS;
                }
                cost
            });
            // The first round warms caches.
            if round > 0 {
                all.push(costs);
            }
        }
        let median = |of: &dyn Fn(&[f64; 4]) -> f64| {
            let mut values: Vec<f64> = all.iter().map(of).collect();
            values.sort_by(f64::total_cmp);
            values[values.len() / 2]
        };
        let per_second = |row: usize| median(&|costs| 1e9 / costs[row]);
        let share = |row: usize| median(&|costs| 100.0 * costs[0] / costs[row]);
        println!(
            "| {} | {:.0} | {:.1} % | {:.0} | {:.1} % | {:.0} | {:.2} × | {bytes} |",
            kind.name(),
            per_second(1),
            share(1),
            per_second(2),
            share(2),
            per_second(3),
            median(&|costs| costs[3] / costs[1]),
        );
    }
    let incr = {
        redis.flush();
        link.run(Load::Incr, CLIENTS, 0);
        link.run(Load::Incr, calls, 0)
    };
    println!("\nINCR: {:.0} a second of one core.", 1e9 / incr);
}

/// Connections to Redis, all written to before any is read from.
struct Link {
    streams: Vec<TcpStream>,
    pid: u32,
}

impl Link {
    fn open(redis: &Redis) -> Self {
        let connect = |_| {
            let stream = TcpStream::connect(("127.0.0.1", redis.port())).expect("Redis listens");
            stream.set_nodelay(true).expect("a socket option");
            stream
        };
        let _name: String = redis.call(&["SCRIPT", "LOAD", Script::production().body()]);
        let streams = (0..CONNECTIONS).map(connect).collect();
        let pid = redis.process().pid();
        Self { streams, pid }
    }

    /// Nanoseconds of processor time that Redis spends on one call.
    fn run(&mut self, load: Load, calls: u64, first: u64) -> f64 {
        let before = self.spent();
        let mut sent = 0;
        while sent < calls {
            let mut lines = 0;
            for stream in &mut self.streams {
                let mut bytes = Vec::with_capacity(16_384);
                for _ in 0..PIPELINED {
                    lines = write(load, first + sent, &mut bytes);
                    sent += 1;
                }
                stream.write_all(&bytes).expect("Redis reads");
            }
            for stream in &mut self.streams {
                drain(stream, lines * PIPELINED);
            }
        }
        (self.spent() - before) as f64 / sent as f64
    }

    fn spent(&self) -> u64 {
        let path = format!("/proc/{}/schedstat", self.pid);
        let text = std::fs::read_to_string(path).expect("Linux");
        let spent = text.split(' ').next().and_then(|spent| spent.parse().ok());
        spent.expect("nanoseconds on the processor")
    }
}

/// Writes one call; returns how many lines its reply has.
fn write(load: Load, n: u64, bytes: &mut Vec<u8>) -> usize {
    let mut out = Commands(bytes);
    let client = n % CLIENTS;
    let (kind, limits, count, client) = match load {
        Load::Incr => {
            out.begin(2);
            out.word(b"INCR");
            out.word(format!("aforo:{{client{client:010}}}:per-key:incr").as_bytes());
            return 1;
        }
        Load::Admits(kind, limits) => (kind, limits, 100, client),
        Load::Refuses(kind) => (kind, 1, 100, 0),
    };
    let spans = [60, 3_600, 86_400];
    let claims: Vec<Claim> = (0..limits)
        .map(|limit| claim(kind, limit, count, spans[limit], client))
        .collect();
    let member = Member::new(
        u128::from(n)
            .wrapping_mul(0x9e37_79b9_7f4a_7c15_f39c_c060_5ced_c835)
            .to_be_bytes(),
    );
    let call = Call {
        mode: Mode::Take,
        by: By::Sha,
    };
    call.write(&claims, member, &mut out);
    1 + 4 * limits
}

fn claim(kind: Kind, limit: usize, count: u64, seconds: u64, client: u64) -> Claim {
    let span = Micros::from_secs(seconds);
    let algorithm = Algorithm::new(Parameters {
        kind,
        count,
        window: (kind != Kind::Concurrency).then_some(Window::Span(span)),
        burst: None,
        align: None,
        lease: (kind == Kind::Concurrency).then_some(span),
    });
    let algorithm = algorithm.expect("numbers within the bounds");
    Claim {
        limit,
        key: format!(
            "aforo:{{client{client:010}}}:limit{limit}:{}",
            algorithm.key_part()
        ),
        algorithm,
        cost: 1,
        enforced: true,
    }
}

/// Reads so many lines; every reply must be one of integers.
fn drain(stream: &mut TcpStream, lines: usize) {
    let mut buffer = [0; 65_536];
    let mut left = lines;
    while left > 0 {
        let n = stream.read(&mut buffer).expect("Redis answers");
        assert!(n > 0, "Redis closed the connection");
        let read = &buffer[..n];
        assert!(!read.contains(&b'E'), "{}", String::from_utf8_lossy(read));
        left -= read.iter().filter(|&&byte| byte == b'\n').count();
    }
}

fn memory(redis: &Redis) -> u64 {
    let info: String = redis.call(&["INFO", "memory"]);
    let line = info
        .lines()
        .find_map(|line| line.strip_prefix("used_memory:"));
    line.and_then(|bytes| bytes.trim().parse().ok())
        .expect("used_memory")
}
