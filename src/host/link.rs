//! The network filter in the role `link`: the worker's connection to Redis.
//!
//! The opener's call arrives here as an HTTP/1.1 head that names the opening root and its attempt.
//! The head is taken away, the link reports itself and pauses: from then on what the worker wants to
//! send is put into this connection's buffer, and handed on to redis_proxy or tcp_proxy behind it.

use super::{
    calls::{self, BufferType, LogLevel},
    clock, orders,
    shared::{self, Place, Shared},
};
use crate::redis::gate::{Attempt, Connection};
use proxy_wasm::{
    traits::{Context, StreamContext},
    types::Action,
};
use std::rc::Rc;

/// The longest head an opener sends is far below this.
const LONGEST_HEAD: usize = 8 * 1024;

/// One connection through the internal listener.
pub struct Link {
    id: u32,
    state: State,
}

enum State {
    /// The opener's head is not complete yet.
    Head,
    /// In use by this worker.
    Up(Rc<Shared>),
    /// Closed, or about to be.
    Over,
}

impl Link {
    /// The link with this context id.
    pub const fn new(id: u32) -> Self {
        Self {
            id,
            state: State::Head,
        }
    }

    fn close(&mut self) {
        self.state = State::Over;
        let _ = calls::close_downstream();
    }

    /// Takes the opener's head out of the buffer, once all of it is there.
    fn read_head(&mut self, size: usize) {
        let Ok(bytes) = calls::buffer(BufferType::DownstreamData, 0, size) else {
            return self.close();
        };
        if !bytes.windows(4).any(|end| end == b"\r\n\r\n") {
            if bytes.len() > LONGEST_HEAD {
                self.close();
            }
            return;
        }
        let Some((root, attempt)) = opener(&bytes) else {
            calls::log(
                LogLevel::Error,
                "aforo: the link was opened by something else than aforo",
            );
            return self.close();
        };
        let Some(shared) = shared::of(root) else {
            calls::log(
                LogLevel::Error,
                "aforo: the link and the HTTP filter are not in one VM: give both the same \
                 vm_config (vm_id, runtime, code, configuration, environment)",
            );
            return self.close();
        };
        if calls::drain_buffer(BufferType::DownstreamData, size).is_err()
            || !shared
                .worker
                .borrow_mut()
                .opened(attempt, Connection(self.id), clock::now())
        {
            self.state = State::Over;
            return shared.close_later(Connection(self.id));
        }
        self.state = State::Up(Rc::clone(&shared));
        // What waits for the link is sent in the next turn, when this callback has returned Pause.
        shared.ring();
    }
}

impl Context for Link {
    fn on_http_call_response(&mut self, token: u32, _: usize, _: usize, _: usize) {
        orders::opening_ended(token);
    }

    fn on_done(&mut self) -> bool {
        if let State::Up(shared) = std::mem::replace(&mut self.state, State::Over) {
            shared
                .worker
                .borrow_mut()
                .closed(Connection(self.id), clock::now());
            shared.report();
            shared.loaded().flush();
            shared.ring();
        }
        true
    }
}

impl StreamContext for Link {
    fn on_downstream_data(&mut self, size: usize, _end: bool) -> Action {
        match self.state {
            State::Head => self.read_head(size),
            // The rest of the opener's request: it has no body.
            State::Up(_) | State::Over => {
                let _ = calls::drain_buffer(BufferType::DownstreamData, size);
            }
        }
        Action::Pause
    }

    fn on_upstream_data(&mut self, size: usize, _end: bool) -> Action {
        let bytes = calls::buffer(BufferType::UpstreamData, 0, size).unwrap_or_default();
        // Nothing goes on to the opener: its call is never answered.
        let drained = calls::drain_buffer(BufferType::UpstreamData, size);
        let State::Up(shared) = &self.state else {
            return Action::Continue;
        };
        let shared = Rc::clone(shared);
        let connection = Connection(self.id);
        let keep = shared
            .worker
            .borrow_mut()
            .received(connection, &bytes, clock::now());
        if drained.is_err() || !keep {
            shared.worker.borrow_mut().closed(connection, clock::now());
            self.state = State::Over;
            shared.close_later(connection);
        }
        let _ = shared.carry_out(Place::Link(self.id));
        Action::Continue
    }
}

/// The opening root's id and attempt, from `POST /aforo/ROOT/ATTEMPT HTTP/1.1`.
fn opener(head: &[u8]) -> Option<(u32, Attempt)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let path = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    let (root, attempt) = path.strip_prefix("/aforo/")?.split_once('/')?;
    Some((root.parse().ok()?, Attempt(attempt.parse().ok()?)))
}
