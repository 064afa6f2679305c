//! What stands in Redis's place and is none.

use std::time::Duration;

use crate::meddler::Way;
use crate::stage::{Between, Preparation, Stage};

/// Something stands between Envoy and Redis.
pub fn between() -> Preparation {
    Preparation {
        between: Between::Meddler,
        ..Preparation::default()
    }
}

/// Writes what is no reply.
pub fn garbage(stage: &mut Stage) {
    meddle(
        stage,
        Way::Replace(b"\xff\x00HTTP/1.1 200 OK\r\n\r\n".to_vec()),
    );
}

/// Breaks off and stays silent, the connection open.
pub fn half(stage: &mut Stage) {
    meddle(stage, Way::Half);
}

/// Writes far more than any reply has.
pub fn huge(stage: &mut Stage) {
    let length = 5 * 1024 * 1024;
    let head = format!("${length}\r\n").into_bytes();
    meddle(
        stage,
        Way::Replace([head, vec![b'x'; length], b"\r\n".to_vec()].concat()),
    );
}

/// Writes the right thing far too slowly.
pub fn trickle(stage: &mut Stage) {
    meddle(stage, Way::Trickle(Duration::from_millis(5)));
}

/// Writes nothing.
pub fn never(stage: &mut Stage) {
    meddle(stage, Way::Never);
}

fn meddle(stage: &Stage, way: Way) {
    stage.meddler().go(way);
    stage.wait(stage.span());
    stage.meddler().go(Way::Pass);
}
