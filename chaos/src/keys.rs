//! Which keys the requests carry, so that afterwards every admission can be held against its limit.
//!
//! Requests of one stream come in slots of [`SLOT`]. In each slot one in five asks with the slot's hot
//! key, which is exhausted when [`LIMIT`] of them have passed; the others share keys that have room for
//! all of them. No key outlives its slot, so no count of before a fault excuses one after it.

use crate::load::Ask;
use crate::sample::Stream;

/// Requests of one slot.
pub const SLOT: usize = 50;

/// How many requests may pass with one key, in an hour.
pub const LIMIT: usize = 5;

/// One in so many asks with the hot key, which makes it twice as many as may pass.
const HOT: usize = 5;

/// Requests without the filter for each hundred with one: enough to know the machine, and too few to
/// load it.
const CONTROLS: usize = 10;

/// Endless requests, one of each of `streams` in turn, and some without a filter in between.
pub fn asks(streams: Vec<Stream>) -> impl Iterator<Item = Ask> + Send {
    let all = streams.len().max(1);
    (0..).flat_map(move |round: usize| {
        let mut asks: Vec<Ask> = streams.iter().map(|stream| ask(*stream, round)).collect();
        if round.is_multiple_of(100 / CONTROLS) {
            let controls = (0..all).map(|_| Ask {
                stream: Stream::Control,
                path: Stream::Control.path(),
                key: String::new(),
            });
            asks.extend(controls);
        }
        asks
    })
}

/// How many requests each second make `rate` for each of so many streams.
#[must_use]
pub fn total_rate(rate: u32, streams: usize) -> u32 {
    let streams = u32::try_from(streams).unwrap_or(1);
    rate * streams + rate * streams / 10
}

/// Whether a key is exhausted within its slot.
#[must_use]
pub fn is_hot(key: &str) -> bool {
    key.starts_with("hot-")
}

fn ask(stream: Stream, round: usize) -> Ask {
    let key = if round.is_multiple_of(HOT) {
        format!("hot-{}", round / SLOT)
    } else {
        format!("cold-{}", round / LIMIT)
    };
    Ask {
        stream,
        path: stream.path(),
        key,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;

    #[test]
    fn a_slot_has_one_hot_key_with_more_requests_than_may_pass_and_cold_ones_with_fewer() {
        let mut keys: HashMap<(Stream, String), usize> = HashMap::new();
        let asks: Vec<Ask> = asks(Stream::OUTAGES.to_vec()).take(33 * SLOT).collect();
        for ask in asks.iter().filter(|ask| ask.stream != Stream::Control) {
            *keys.entry((ask.stream, ask.key.clone())).or_default() += 1;
        }
        for ((_, key), count) in &keys {
            if is_hot(key) {
                assert_eq!(*count, SLOT / HOT, "{key}");
            } else {
                assert!(*count <= LIMIT, "{key}: {count}");
            }
        }
        let controls = asks.iter().filter(|ask| ask.stream == Stream::Control);
        assert_eq!(controls.count(), 3 * SLOT);
    }
}
