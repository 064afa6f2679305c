//! The only clock and the only randomness of the filter.

use crate::{
    reply::{Circumstances, RequestKind},
    units::Moment,
};
use std::{
    cell::RefCell,
    time::{Instant, SystemTime, UNIX_EPOCH},
};

const POOL: usize = 256;

thread_local! {
    static START: Instant = start();
    static RANDOM: RefCell<Pool> = const { RefCell::new(Pool { bytes: [0; POOL], used: POOL }) };
}

/// Random bytes fetched from the host in blocks: one host call serves several requests.
struct Pool {
    bytes: [u8; POOL],
    used: usize,
}

#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everything else is handed"
)]
fn start() -> Instant {
    Instant::now()
}

/// Now, by a clock that never goes backwards; the epoch is this VM's first look at it.
pub fn now() -> Moment {
    let elapsed = START.with(|start| start.elapsed());
    // One second is added so that no moment is ever the epoch itself.
    Moment(
        u64::try_from(elapsed.as_micros())
            .unwrap_or(u64::MAX)
            .saturating_add(1_000_000),
    )
}

/// Now, by the proxy's wall clock: for headers that show a time, never for a decision.
#[expect(
    clippy::disallowed_methods,
    reason = "this is the clock that everything else is handed"
)]
pub fn wall() -> Moment {
    let since = SystemTime::now()
        .duration_since(UNIX_EPOCH)
        .unwrap_or_default();
    Moment(u64::try_from(since.as_micros()).unwrap_or(u64::MAX))
}

/// What an answer needs to know beside the verdict.
pub fn circumstances(kind: RequestKind) -> Circumstances {
    Circumstances {
        kind,
        random: random_u64(),
        now: Some(wall()),
    }
}

/// Eight of them, as a number.
pub fn random_u64() -> u64 {
    u64::from_le_bytes(random().first_chunk().copied().unwrap_or_default())
}

/// Sixteen bytes of the host's good randomness.
pub fn random() -> [u8; 16] {
    RANDOM.with_borrow_mut(Pool::take)
}

impl Pool {
    fn take(&mut self) -> [u8; 16] {
        let mut out = [0; 16];
        if self.used.saturating_add(out.len()) > POOL {
            // Envoy always has randomness; without it members would still be told apart by time.
            if getrandom::fill(&mut self.bytes).is_err() {
                return u128::from(now().0).to_le_bytes();
            }
            self.used = 0;
        }
        let end = self.used.saturating_add(out.len());
        if let Some(block) = self.bytes.get(self.used..end) {
            out.copy_from_slice(block);
        }
        self.used = end;
        out
    }
}
