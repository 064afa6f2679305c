//! What a network does to those who talk over it.

use std::time::Duration;

use crate::network::Weather;
use crate::stage::{Between, Preparation, Stage};

/// Each packet is so much later.
const LATE: Duration = Duration::from_millis(100);

/// Of a hundred packets so many are lost, in each direction.
const LOST: u8 = 10;

/// A network of its own lies between Envoy and Redis.
pub fn between() -> Preparation {
    Preparation {
        between: Between::Network,
        ..Preparation::default()
    }
}

/// Loses packets.
pub fn lossy(stage: &mut Stage) {
    endure(stage, Weather::Lossy(LOST));
}

/// Takes its time.
pub fn slow(stage: &mut Stage) {
    endure(stage, Weather::Slow(LATE));
}

/// Delivers nothing: no packet, no reset.
pub fn cut(stage: &mut Stage) {
    endure(stage, Weather::Cut);
}

fn endure(stage: &Stage, weather: Weather) {
    stage.network().turn(weather);
    stage.wait(stage.span());
    stage.network().turn(Weather::Fair);
}
