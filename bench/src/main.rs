//! `make bench`: the same load through the same Envoy, with no filter, with a Wasm filter that does
//! nothing, with Envoy's local rate limit, and with this filter by both ways to Redis.
//!
//! One Envoy worker on the first core; load generator and Redis on the second. Every path is measured in
//! every round, one after the other, so that a machine that slows down slows all of them; what is printed
//! is the median over the rounds, and for the ratios the median of each round's ratio.
//!
//! ROUNDS (11) and MILLISECONDS (1000, per measurement) may be set in the environment.

mod generator;
mod path;
mod report;
mod script;

use std::time::Duration;

use support::mesh::turn;
use support::redis::Redis;

use generator::Measured;
use path::ALL;

/// How many connections are open at once, one column of the report each.
const CONNECTIONS: [usize; 3] = [1, 16, 128];
/// The core of Envoy, and that of everything else.
const CORES: [usize; 2] = [0, 1];

/// What one round measured: for each path, for each number of connections.
type Round = [[Measured; CONNECTIONS.len()]; ALL.len()];

fn main() {
    match std::env::args().nth(1).as_deref() {
        None => filter(),
        Some("script") => script::main(),
        Some(other) => panic!("{other}: there is `script`, or nothing for the filter"),
    }
}

fn filter() {
    let _turn = turn();
    let rounds = setting("ROUNDS", 11);
    let span = Duration::from_millis(setting("MILLISECONDS", 1_000));
    let redis = Redis::start();
    let envoys = ALL.map(|path| path.start(&redis));
    let [envoy_core, other_core] = CORES;
    for envoy in &envoys {
        envoy.process().pin(envoy_core);
    }
    redis.process().pin(other_core);
    support::pin_this_thread(other_core);

    let mut all = Vec::new();
    for round in 0..=rounds {
        let measured: Round = std::array::from_fn(|number| {
            CONNECTIONS.map(|connections| generator::run(&envoys[number], connections, span))
        });
        // The first round warms caches, connections and the VMs.
        if round > 0 {
            all.push(measured);
            eprint!("\rround {round} of {rounds}");
        }
    }
    eprintln!();
    report::print(&all);
    for (path, envoy) in ALL.iter().zip(&envoys) {
        path.check(envoy, &redis);
    }
    let words = path::command_of_a_request();
    let round_trip = generator::median(&mut redis.round_trips(&words, span));
    println!(
        "\nA bare Redis round trip with the same script: p50 {} µs.",
        round_trip.as_micros()
    );
}

fn setting(name: &str, default: u64) -> u64 {
    let text = std::env::var(name).unwrap_or_default();
    if text.is_empty() {
        return default;
    }
    text.parse()
        .unwrap_or_else(|_| panic!("{name} is {text}, no number"))
}
