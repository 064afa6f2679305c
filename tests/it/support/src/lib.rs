//! The parts that the end-to-end tests, the demo and the benchmark start, each with its own process or
//! port, directory and log, each gone when its value is dropped.
//!
//! Everything here blocks, so that a test reads from top to bottom; what must happen at once happens on
//! one runtime behind [`client`]. A wait has a name and a deadline, and a part that cannot start panics
//! with what to do about it: a test never passes by skipping in silence.

pub mod client;
pub mod cluster;
pub mod compose;
pub mod config;
pub mod docker;
pub mod echo;
pub mod envoy;
pub mod gateway;
pub mod hostile;
pub mod http_stub;
pub mod http_text;
pub mod links;
pub mod load;
pub mod mesh;
mod place;
mod process;
pub mod redis;
pub mod relay;
pub mod store;
pub mod stub;
pub mod upstash;
pub mod webdis;

use std::time::{Duration, Instant};

pub use config::yaml;
pub use place::{Dir, Module, binary, root};
pub(crate) use process::lock;
pub use process::{Process, free_port, interrupt_group, pin_this_thread};

/// Waits until `holds` is true, looking every few milliseconds.
///
/// # Panics
/// When it is not true within five seconds, naming what was waited for.
pub fn until(what: &str, holds: impl FnMut() -> bool) {
    until_within(Duration::from_secs(5), what, holds);
}

/// As [`until`], with a deadline of the caller's. Returns how long it took.
///
/// # Panics
/// When it is not true within `deadline`, naming what was waited for.
pub fn until_within(deadline: Duration, what: &str, mut holds: impl FnMut() -> bool) -> Duration {
    let started = Instant::now();
    loop {
        if holds() {
            return started.elapsed();
        }
        assert!(
            started.elapsed() < deadline,
            "waited {deadline:?} for: {what}"
        );
        std::thread::sleep(Duration::from_millis(3));
    }
}

/// Says that a test could not be made here, and why, where a test's captured output would hide it.
pub fn skipped(why: &str) {
    use std::io::Write as _;
    let test = std::thread::current();
    let name = test.name().unwrap_or("a test");
    let _ = writeln!(std::io::stderr(), "SKIPPED {name}: {why}");
}

/// Waits for Ctrl-C, which then does not end this process.
///
/// # Panics
/// When the system does not let signals be watched.
pub fn until_interrupted() {
    runtime()
        .block_on(tokio::signal::ctrl_c())
        .expect("a watch for Ctrl-C");
}

/// The one runtime that servers and clients of the fixtures run on.
fn runtime() -> &'static tokio::runtime::Runtime {
    static RUNTIME: std::sync::LazyLock<tokio::runtime::Runtime> = std::sync::LazyLock::new(|| {
        tokio::runtime::Builder::new_multi_thread()
            .worker_threads(2)
            .thread_name("fixtures")
            .enable_all()
            .build()
            .expect("a runtime for the fixtures")
    });
    &RUNTIME
}
