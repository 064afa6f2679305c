//! The Redis call of Higress: its Envoy speaks with Redis, and hands commands and replies on as they are.
//!
//! Only in the build for it: no other Envoy has these functions, and a module that imports what its host
//! does not have is not loaded. That Envoy keeps one connection per worker to each host of a cluster, asks
//! in a pipeline, and fails all that is under way on a connection when one reply takes too long.

use super::{
    calls::{self, BufferType, Refused},
    shared::{self, Shared},
};
use crate::{redis::gateway::MAX_BODY_BYTES, units::Micros};
use std::cell::Cell;

/// How much longer than a request waits, a reply may take before its connection is given up.
const GRACE: Micros = Micros::from_secs(1);

/// What the status of a reply counts as, when there is one.
const ANSWERED: u16 = 200;

/// The host's status for what went wrong within it.
const INTERNAL: u32 = 10;

#[link(wasm_import_module = "env")]
unsafe extern "C" {
    fn proxy_redis_init(
        cluster: *const u8,
        cluster_len: usize,
        user: *const u8,
        user_len: usize,
        password: *const u8,
        password_len: usize,
        timeout: u32,
    ) -> u32;
    fn proxy_redis_call(
        cluster: *const u8,
        cluster_len: usize,
        command: *const u8,
        command_len: usize,
        token: *mut u32,
    ) -> u32;
}

thread_local! {
    /// The last call that ended and that nobody knew: perhaps the one that is being made.
    static UNKNOWN: Cell<Option<u32>> = const { Cell::new(None) };
}

/// A Redis call of this root ended. Its reply can be read in this callback.
pub fn call_ended(root: u32, token: u32, status: u32, size: usize) {
    let known = shared::of(root).and_then(|shared| {
        let number = shared.calls.borrow_mut().remove(&token)?;
        Some((shared, number))
    });
    let Some((shared, number)) = known else {
        return UNKNOWN.set(Some(token));
    };
    if status != 0 {
        return shared.answered(number, None, &[]);
    }
    let size = size.min(MAX_BODY_BYTES.saturating_add(1));
    let reply = calls::buffer(BufferType::RedisCallResponse, 0, size).unwrap_or_default();
    if reply.starts_with(b"-NOAUTH") {
        // Another plugin told Higress of this cluster without the password, for the whole worker.
        shared.introduced.set(false);
    }
    shared.answered(number, Some(ANSWERED), &reply);
}

impl Shared {
    /// Makes a Redis call. Its end comes with this token. An error means that no end comes.
    pub(super) fn redis_call(&self, command: &[u8]) -> Result<u32, Refused> {
        let cluster = &self.own.policy.redis.cluster;
        self.introduce()?;
        let mut token = 0;
        UNKNOWN.set(None);
        // SAFETY: both slices and the out-pointer live through the call; the host copies them.
        calls::done(unsafe {
            proxy_redis_call(
                cluster.as_ptr(),
                cluster.len(),
                command.as_ptr(),
                command.len(),
                &raw mut token,
            )
        })?;
        // It may have failed before its token was known here.
        if UNKNOWN.take() == Some(token) {
            return Err(Refused(INTERNAL));
        }
        Ok(token)
    }

    /// Tells the host how to reach Redis, once. It closes the connections that it has to that cluster.
    fn introduce(&self) -> Result<(), Refused> {
        if self.introduced.get() {
            return Ok(());
        }
        let redis = &self.own.policy.redis;
        let user = redis.username.as_deref().unwrap_or_default();
        let password = redis.password.as_ref().map_or("", |secret| secret.reveal());
        let timeout = redis.timeout.0.saturating_add(GRACE.0).div_ceil(1_000);
        // SAFETY: all slices live through the call; the host copies them.
        calls::done(unsafe {
            proxy_redis_init(
                redis.cluster.as_ptr(),
                redis.cluster.len(),
                user.as_ptr(),
                user.len(),
                password.as_ptr(),
                password.len(),
                u32::try_from(timeout).unwrap_or(u32::MAX),
            )
        })?;
        self.introduced.set(true);
        Ok(())
    }
}
