//! The table.

use std::time::Duration;

use crate::generator::Measured;
use crate::path::{ALL, Path};
use crate::{CONNECTIONS, Round};

/// Prints the medians over all rounds.
pub fn print(rounds: &[Round]) {
    let noop = ALL
        .iter()
        .position(|path| *path == Path::Noop)
        .expect("the do-nothing filter");
    for (column, connections) in CONNECTIONS.iter().enumerate() {
        let title = format!("{connections} connections");
        println!(
            "\n{title:<32}{:>7}{:>9}{:>9}{:>14}{:>15}",
            "req/s", "p50 µs", "p99 µs", "of do-nothing", "Envoy CPU µs"
        );
        for (row, path) in ALL.iter().enumerate() {
            let of = |what: fn(&Measured) -> f64| {
                median(
                    rounds
                        .iter()
                        .map(|round| what(&round[row][column]))
                        .collect(),
                )
            };
            let ratio = median(
                rounds
                    .iter()
                    .map(|round| round[row][column].per_second / round[noop][column].per_second)
                    .collect(),
            );
            println!(
                "  {:<30}{:>7.0}{:>9.0}{:>9.0}{:>12.0} %{:>15.1}",
                path.name(),
                of(|measured| measured.per_second),
                of(|measured| micros(measured.p50)),
                of(|measured| micros(measured.p99)),
                ratio * 100.0,
                of(|measured| micros(measured.on_core)),
            );
        }
    }
}

fn micros(time: Duration) -> f64 {
    time.as_secs_f64() * 1e6
}

fn median(mut numbers: Vec<f64>) -> f64 {
    numbers.sort_by(f64::total_cmp);
    numbers.get(numbers.len() / 2).copied().unwrap_or(f64::NAN)
}
