//! The link to Redis as a state machine: one connection, opened when needed, pipelined.
//!
//! ```text
//!            submit                       opened                      received
//!  command ─────────► waiting room ────────────────► pipeline ───────────────────► Settled
//!                       (Gate opens)    (greeting first)   (replies in order)
//! ```
//!
//! No host, no clock, no socket: the host carries bytes and moments in and out.

use super::{
    error::ErrorKind,
    gate::{Attempt, Connection, Gate, Pace, Want},
    pipeline::Pipeline,
    resp::{self, Reader, Value, Violation},
    room::{Guest, WaitingRoom},
};
use crate::{
    outage::Silence,
    units::{Micros, Moment},
};
use std::fmt;

/// How a link behaves.
#[derive(Clone, Debug)]
pub struct Settings {
    /// What to say first on a new connection.
    pub greeting: Greeting,
    /// How long to wait for a connection, and between attempts.
    pub pace: Pace,
    /// Most questions on their way at once, abandoned ones included.
    pub in_flight: usize,
    /// Most commands that wait for a connection.
    pub waiting: usize,
    /// Most bytes of those together.
    pub waiting_bytes: usize,
    /// A connection that owes a reply for so long is given up: a dead network looks like that.
    /// Longer than any timeout of a proxy behind it.
    pub stall: Micros,
    /// Whether an error such as `READONLY` makes a new connection. For a connection straight to one
    /// Redis; behind a proxy to many it would take away the answers of the others.
    pub reconnect_on_errors: bool,
}

impl Default for Settings {
    fn default() -> Self {
        Self {
            greeting: Greeting::default(),
            pace: Pace::default(),
            in_flight: 4096,
            waiting: 1024,
            waiting_bytes: 1024 * 1024,
            stall: Micros::from_secs(1),
            reconnect_on_errors: true,
        }
    }
}

/// The commands that a new connection begins with. Each must be answered `+OK`.
#[derive(Clone, Default)]
pub struct Greeting {
    bytes: Vec<u8>,
    replies: u32,
}

impl Greeting {
    /// Says who we are. Without a user, the default one.
    #[must_use]
    pub fn auth(self, user: Option<&str>, password: &str) -> Self {
        match user {
            Some(user) => self.then(&["AUTH", user, password]),
            None => self.then(&["AUTH", password]),
        }
    }

    /// Chooses a database.
    #[must_use]
    pub fn select(self, database: u32) -> Self {
        self.then(&["SELECT", &database.to_string()])
    }

    fn then(mut self, words: &[&str]) -> Self {
        resp::write_command(&mut self.bytes, words);
        self.replies = self.replies.saturating_add(1);
        self
    }
}

impl fmt::Debug for Greeting {
    /// Without the password.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Greeting")
            .field("replies", &self.replies)
            .finish_non_exhaustive()
    }
}

/// A command that does nothing, with more words than Redis takes from a client that has not logged in:
/// it closes that connection (since 5.0.14, 6.0.16 and 6.2.6), and a proxy opens another and logs in anew.
/// The reply means nothing.
fn shake(out: &mut Vec<u8>) {
    let mut words = vec!["EVAL", "return 0", "1", "aforo:shake"];
    words.resize(16, "-");
    resp::write_command(out, &words);
}

/// What became of a submitted command.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Submitted<T> {
    /// Put the command into this connection now. If that fails, say [`Link::closed`].
    Send(Connection, Asked),
    /// It waits. Start this attempt to open a connection now; if that fails, say [`Link::failed`].
    Open(Attempt, Asked),
    /// It waits for the attempt that is under way.
    Wait(Asked),
    /// It is not asked, and will not be settled.
    Refused(T, Silence),
}

/// One submitted command, to give it up by.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Asked(pub(crate) u64);

/// The end of one submitted command. Every ticket that was not refused or abandoned gets one.
#[derive(Debug, PartialEq, Eq)]
pub struct Settled<T> {
    /// Whose.
    pub ticket: T,
    /// The reply, which may be an error of Redis, or why there is none.
    pub answer: Result<Value, Silence>,
}

/// What to do with the connection that a call was about.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Flow {
    /// Keep it.
    Keep,
    /// Close it, for this reason. The link knows; nothing more need be told.
    Close(Silence),
    /// Close it: it is not the link's connection, any more or ever.
    Stale,
}

/// The link of one worker to its Redis.
///
/// To drive it:
/// - [`submit`](Self::submit) each command and do what it says. Opening may call back into
///   [`opened`](Self::opened) and even [`closed`](Self::closed) before it returns: hold no borrow.
/// - The connection, once there, says `opened` with the number of its attempt, then
///   [`received`](Self::received) with what comes, and `closed` when it is gone. Bytes that a call
///   appends to `out` go into that connection before anything else does.
/// - [`expire`](Self::expire) at [`next_check`](Self::next_check); no timer runs while that is `None`.
/// - Settled tickets are appended to `settled`, in the order in which they were settled.
///
/// Nothing is ever sent twice: whoever was on a connection that closed is settled as lost.
#[derive(Debug)]
pub struct Link<T> {
    settings: Settings,
    gate: Gate,
    room: WaitingRoom<T>,
    pipeline: Pipeline<T>,
    /// While the connection greets: its reader, and how many replies have not come.
    greeting: Option<(Reader, u32)>,
    /// The proxy behind the last connection is not let in by Redis: the next one begins with [`shake`].
    shakes: bool,
    last_asked: u64,
}

impl<T> Link<T> {
    /// A link without a connection. `seed`, any number, spreads the attempts of many workers.
    #[must_use]
    pub fn new(settings: Settings, seed: u64) -> Self {
        Self {
            gate: Gate::new(settings.pace, seed),
            room: WaitingRoom::new(settings.waiting, settings.waiting_bytes),
            pipeline: Pipeline::new(settings.in_flight),
            greeting: None,
            shakes: false,
            last_asked: 0,
            settings,
        }
    }

    /// Asks one command, which Redis must answer with exactly one reply.
    pub fn submit(
        &mut self,
        ticket: T,
        command: &[u8],
        deadline: Moment,
        now: Moment,
    ) -> Submitted<T> {
        let want = self.gate.want(now);
        if let Want::NotBefore(_) = want {
            return Submitted::Refused(ticket, Silence::Unreachable);
        }
        let number = self.last_asked.saturating_add(1);
        self.last_asked = number;
        let asked = Asked(number);
        if let Want::Use(connection) = want {
            return match self.pipeline.ask(number, ticket, now, deadline) {
                Ok(()) => Submitted::Send(connection, asked),
                Err(ticket) => Submitted::Refused(ticket, Silence::Full),
            };
        }
        let entered = self.room.enter(Guest {
            number,
            ticket,
            deadline,
            command: command.to_vec(),
        });
        match (entered, want) {
            (Ok(()), Want::Start(attempt)) => Submitted::Open(attempt, asked),
            (Ok(()), _) => Submitted::Wait(asked),
            (Err(ticket), _) => Submitted::Refused(ticket, Silence::Full),
        }
    }

    /// Gives one command up. Its reply, should it come, is dropped. `None` when it has been settled.
    pub fn abandon(&mut self, asked: Asked) -> Option<T> {
        let Asked(number) = asked;
        self.room
            .abandon(number)
            .or_else(|| self.pipeline.abandon(number))
    }

    /// A connection is there. What `out` then holds goes into it first.
    pub fn opened(
        &mut self,
        attempt: Attempt,
        connection: Connection,
        now: Moment,
        out: &mut Vec<u8>,
        settled: &mut Vec<Settled<T>>,
    ) -> Flow {
        let replies = match self.settings.greeting.replies {
            0 => u32::from(self.shakes),
            replies => replies,
        };
        if !self.gate.opened(attempt, connection, replies > 0) {
            return Flow::Stale;
        }
        self.pipeline = Pipeline::new(self.settings.in_flight);
        if replies > 0 {
            self.greeting = Some((Reader::new(), replies));
            if self.shakes {
                shake(out);
            } else {
                out.extend_from_slice(&self.settings.greeting.bytes);
            }
        } else {
            self.send_waiting(now, out, settled);
        }
        Flow::Keep
    }

    /// Bytes came from a connection.
    pub fn received(
        &mut self,
        connection: Connection,
        bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        settled: &mut Vec<Settled<T>>,
    ) -> Flow {
        if !self.gate.is_current(connection) {
            return Flow::Stale;
        }
        let end = if self.greeting.is_some() {
            self.hear_greeting(connection, bytes, now, out, settled)
        } else {
            self.hear_replies(connection, bytes, settled)
        };
        match end {
            Ok(()) => Flow::Keep,
            Err(silence) => {
                self.hang_up(connection, silence, now, settled);
                Flow::Close(silence)
            }
        }
    }

    /// A connection is gone.
    pub fn closed(&mut self, connection: Connection, now: Moment, settled: &mut Vec<Settled<T>>) {
        if self.gate.is_current(connection) {
            self.hang_up(connection, Silence::Lost, now, settled);
        }
    }

    /// An attempt came to nothing.
    pub fn failed(&mut self, attempt: Attempt, now: Moment, settled: &mut Vec<Settled<T>>) {
        if self.gate.failed(attempt, now) {
            self.settle_all(Silence::Unreachable, settled);
        }
    }

    /// Settles whoever's time is up. `Some`: close this connection, for that reason; the link knows.
    #[must_use]
    pub fn expire(
        &mut self,
        now: Moment,
        settled: &mut Vec<Settled<T>>,
    ) -> Option<(Connection, Silence)> {
        let timed_out = |ticket| Settled {
            ticket,
            answer: Err(Silence::TimedOut),
        };
        self.pipeline
            .expire(now, |ticket| settled.push(timed_out(ticket)));
        self.room
            .expire(now, |ticket| settled.push(timed_out(ticket)));
        if let Some(connection) = self.gate.check(now) {
            self.settle_all(Silence::Unreachable, settled);
            return connection.map(|connection| (connection, Silence::TimedOut));
        }
        let stalled = self
            .gate
            .current()
            .filter(|_| self.stall().is_some_and(|at| at <= now))?;
        self.hang_up(stalled, Silence::TimedOut, now, settled);
        Some((stalled, Silence::TimedOut))
    }

    /// When to call [`expire`](Self::expire) next. `None`: nothing runs out.
    #[must_use]
    pub fn next_check(&self) -> Option<Moment> {
        let checks = [
            self.pipeline.soonest(),
            self.room.soonest(),
            self.gate.deadline(),
            self.stall(),
        ];
        checks.into_iter().flatten().min()
    }

    /// Ends the link: everyone who still waits is settled. `Some`: close this connection.
    #[must_use]
    pub fn end(mut self, settled: &mut Vec<Settled<T>>) -> Option<Connection> {
        self.settle_all(Silence::Lost, settled);
        self.gate.current()
    }

    /// The connection that counts, be it up or greeting.
    #[must_use]
    pub fn connection(&self) -> Option<Connection> {
        self.gate.current()
    }

    /// Whether the connection that counts has brought a good reply.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        self.gate.is_proven()
    }

    /// Questions on their way, abandoned ones included.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.pipeline.depth()
    }

    /// Commands that wait for a connection.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.room.len()
    }

    /// Replies that came after their command was given up, since the last call.
    pub fn take_late(&mut self) -> u64 {
        self.pipeline.take_late()
    }

    /// Failed attempts in a row.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.gate.failures()
    }

    fn hear_greeting(
        &mut self,
        connection: Connection,
        mut bytes: &[u8],
        now: Moment,
        out: &mut Vec<u8>,
        settled: &mut Vec<Settled<T>>,
    ) -> Result<(), Silence> {
        while let Some((reader, left)) = &mut self.greeting {
            match reader.read(&mut bytes)? {
                None => return Ok(()),
                Some(_) if self.shakes => *left = left.saturating_sub(1),
                Some(Value::Status(text)) if text == b"OK" => *left = left.saturating_sub(1),
                Some(Value::Error(text)) => return Err(Silence::Refused(ErrorKind::of(&text))),
                Some(_) => return Err(Silence::Garbage),
            }
            if *left == 0 {
                self.greeting = None;
            }
        }
        if !bytes.is_empty() {
            return Err(Violation::Unasked.into());
        }
        self.shakes = false;
        self.gate.greeted(connection);
        self.send_waiting(now, out, settled);
        Ok(())
    }

    fn hear_replies(
        &mut self,
        connection: Connection,
        bytes: &[u8],
        settled: &mut Vec<Settled<T>>,
    ) -> Result<(), Silence> {
        let mut end = Ok(());
        let read = self.pipeline.receive(bytes, |ticket, value| {
            match &value {
                Value::Error(text) => {
                    let kind = ErrorKind::of(text);
                    if self.settings.reconnect_on_errors && kind.wants_a_new_connection() {
                        end = Err(Silence::Refused(kind));
                    }
                }
                _ => self.gate.proven(connection),
            }
            settled.push(Settled {
                ticket,
                answer: Ok(value),
            });
        });
        end.and(read.map_err(Silence::from))
    }

    fn stall(&self) -> Option<Moment> {
        self.pipeline
            .oldest()
            .map(|asked| asked.plus(self.settings.stall))
    }

    /// Sends what waits, except for those whose time is up.
    fn send_waiting(&mut self, now: Moment, out: &mut Vec<u8>, settled: &mut Vec<Settled<T>>) {
        self.room.expire(now, |ticket| {
            settled.push(Settled {
                ticket,
                answer: Err(Silence::TimedOut),
            });
        });
        while let Some(Guest {
            number,
            ticket,
            deadline,
            command,
        }) = self.room.take_oldest()
        {
            match self.pipeline.ask(number, ticket, now, deadline) {
                Ok(()) => out.extend_from_slice(&command),
                Err(ticket) => settled.push(Settled {
                    ticket,
                    answer: Err(Silence::Full),
                }),
            }
        }
    }

    /// Gives the current connection up.
    fn hang_up(
        &mut self,
        connection: Connection,
        silence: Silence,
        now: Moment,
        settled: &mut Vec<Settled<T>>,
    ) {
        // We have no password to say, so the proxy behind the link has one, and it was not accepted. Its
        // connection stays as it is, also when Redis would accept it by now.
        self.shakes =
            self.settings.greeting.replies == 0 && silence == Silence::Refused(ErrorKind::NoAuth);
        self.gate.closed(connection, now);
        self.settle_all(silence, settled);
    }

    fn settle_all(&mut self, silence: Silence, settled: &mut Vec<Settled<T>>) {
        self.greeting = None;
        let pipeline = std::mem::replace(&mut self.pipeline, Pipeline::new(0));
        let waiting = std::iter::from_fn(|| self.room.take_oldest()).map(|guest| guest.ticket);
        let tickets = pipeline.close().chain(waiting);
        settled.extend(tickets.map(|ticket| Settled {
            ticket,
            answer: Err(silence),
        }));
    }
}

#[cfg(test)]
mod tests;
