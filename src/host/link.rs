//! The network filter in the role `link`: the worker's connection to Redis.
//!
//! The opener's call arrives here as an HTTP/1.1 head that names the opening root and its attempt.
//! The head is taken away, the link reports itself and pauses: from then on what the worker wants to
//! send is put into this connection's buffer, and handed on to redis_proxy or tcp_proxy behind it.

use super::{
    calls::{self, BufferType, LogLevel},
    clock,
    shared::{self, Place, Shared},
};
use crate::redis::gate::{Attempt, Connection};
use std::{cell::RefCell, rc::Rc};

/// Most bytes of replies that are read at a time.
const PIECE: usize = 64 * 1024;

/// The longest head an opener sends is far below this.
const LONGEST_HEAD: usize = 8 * 1024;

/// One connection through the internal listener.
pub struct Link {
    id: u32,
    state: RefCell<State>,
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
            state: RefCell::new(State::Head),
        }
    }

    /// What came from the opener: its head, and after that nothing of interest.
    pub fn on_downstream_data(&self, size: usize) {
        let is_head = matches!(*self.state.borrow(), State::Head);
        if is_head {
            self.read_head(size);
        } else {
            // The rest of the opener's request: it has no body.
            let _ = calls::drain_buffer(BufferType::DownstreamData, size);
        }
    }

    /// What came from Redis.
    pub fn on_upstream_data(&self, size: usize) {
        let mut left = size;
        // A VM's memory never shrinks, so however much came, it is read in pieces. Nothing goes on to
        // the opener: its call is never answered.
        while left > 0
            && let Some(shared) = self.shared()
        {
            let bytes = calls::buffer(BufferType::UpstreamData, 0, left.min(PIECE));
            let bytes = bytes.unwrap_or_default();
            let drained = calls::drain_buffer(BufferType::UpstreamData, bytes.len());
            left = left.saturating_sub(bytes.len());
            let (connection, now) = (Connection(self.id), clock::now());
            let read = drained.is_ok() && !bytes.is_empty();
            if !read || !shared.worker.borrow_mut().received(connection, &bytes, now) {
                shared.worker.borrow_mut().closed(connection, now);
                self.close();
            }
            let _ = shared.carry_out(Place::Link(self.id));
        }
        if left > 0 {
            let _ = calls::drain_buffer(BufferType::UpstreamData, left);
        }
    }

    /// The connection is gone.
    pub fn on_done(&self) {
        if let State::Up(shared) = self.state.replace(State::Over) {
            shared
                .worker
                .borrow_mut()
                .closed(Connection(self.id), clock::now());
            shared.report();
            shared.loaded().flush();
            shared.ring();
        }
    }

    fn shared(&self) -> Option<Rc<Shared>> {
        match &*self.state.borrow() {
            State::Up(shared) => Some(Rc::clone(shared)),
            State::Head | State::Over => None,
        }
    }

    fn close(&self) {
        self.state.replace(State::Over);
        let _ = calls::close_downstream();
    }

    /// Takes the opener's head out of the buffer, once all of it is there.
    fn read_head(&self, size: usize) {
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
            return self.close();
        }
        self.state.replace(State::Up(Rc::clone(&shared)));
        // What waits for the link is sent in the next turn, when this callback has returned Pause.
        shared.ring();
    }
}

/// The opening root's id and attempt, from `POST /aforo/ROOT/ATTEMPT HTTP/1.1`.
fn opener(head: &[u8]) -> Option<(u32, Attempt)> {
    let line = head.split(|byte| *byte == b'\r').next()?;
    let path = std::str::from_utf8(line).ok()?.split(' ').nth(1)?;
    let (root, attempt) = path.strip_prefix("/aforo/")?.split_once('/')?;
    Some((root.parse().ok()?, Attempt(attempt.parse().ok()?)))
}
