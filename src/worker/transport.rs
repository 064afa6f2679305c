//! What carries the commands: the link, or calls, to an HTTP gateway or of a host that speaks with Redis
//! itself. The worker asks either alike.
//!
//! The link answers in the order in which it was asked, and has to be opened. Calls overtake one
//! another, and can always be tried.

use super::orders::{Event, Orders, Outgoing};
use crate::{
    outage::Silence,
    policy::{self, Redis, Topology},
    redis::{
        gate::{Attempt, Connection},
        gateway::{Called, Calls, Gateway, LONGEST_CALL},
        link::{self, Asked, Flow, Greeting, Link, Settled, Submitted},
    },
    units::{Micros, Moment},
};
use std::mem;

/// Most calls at once.
const MOST_CALLS: usize = 4_096;

/// By then the host has ended every call, and told so.
const CALL_END: Micros = Micros(LONGEST_CALL.0 + 1_000_000);

/// A connection that carries a command nobody waits for is given so long to answer it.
const LINK_PATIENCE: Micros = Micros::from_secs(60);

/// What no request waits for is waited for so long.
const CALL_PATIENCE: Micros = Micros::from_secs(1);

/// See the module. `T` says what a command is for.
pub struct Transport<T> {
    way: Way<T>,
    /// The connection that was reported as up.
    up: Option<Connection>,
    orders: Orders,
    ended: Vec<Settled<T>>,
    events: Vec<Event>,
}

enum Way<T> {
    Link(Box<Link<T>>),
    Calls(Calls<T>),
}

impl<T> Transport<T> {
    /// As the policy says. `seed`, any number, spreads the reconnects of many workers.
    pub fn new(redis: &Redis, seed: u64) -> Self {
        Self {
            way: Way::new(redis, seed),
            up: None,
            orders: Orders::default(),
            ended: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Asks one command, given as RESP.
    ///
    /// # Errors
    /// Why it is not asked; nothing more comes of it then.
    pub fn ask(
        &mut self,
        ticket: T,
        command: &[u8],
        deadline: Moment,
        now: Moment,
    ) -> Result<Asked, Silence> {
        match &mut self.way {
            Way::Link(link) => match link.submit(ticket, command, deadline, now) {
                Submitted::Send(connection, asked) => {
                    self.write(connection, command);
                    Ok(asked)
                }
                Submitted::Open(attempt, asked) => {
                    self.orders.open = Some(attempt);
                    Ok(asked)
                }
                Submitted::Wait(asked) => Ok(asked),
                Submitted::Refused(_, why) => Err(why),
            },
            Way::Calls(calls) => match calls.submit(ticket, command, deadline) {
                Called::Call(number, request) => {
                    self.orders.calls.push(Outgoing {
                        number,
                        request,
                        timeout: LONGEST_CALL,
                    });
                    Ok(number)
                }
                Called::Refused(_, why) => Err(why),
            },
        }
    }

    /// Whether what is asked now goes out without anything being opened for it.
    pub fn is_up(&self) -> bool {
        match &self.way {
            Way::Link(link) => link.connection().is_some(),
            Way::Calls(_) => true,
        }
    }

    /// By when a command that nobody waits for should be answered.
    pub fn patience(&self, now: Moment) -> Moment {
        now.plus(match self.way {
            Way::Link(_) => LINK_PATIENCE,
            Way::Calls(_) => CALL_PATIENCE,
        })
    }

    /// Gives one command up.
    pub fn abandon(&mut self, asked: Asked) {
        let _ = match &mut self.way {
            Way::Link(link) => link.abandon(asked),
            Way::Calls(calls) => calls.abandon(asked),
        };
    }

    /// Gives one command up, with something to be done that must find it carried out. `Some`: do it
    /// now, what is asked now comes behind it. `None`: `then` ends when the command does.
    pub fn succeed(&mut self, asked: Asked, then: T) -> Option<T> {
        match &mut self.way {
            Way::Link(link) => {
                let _ = link.abandon(asked);
                Some(then)
            }
            Way::Calls(calls) => calls.pass_on(asked, then, CALL_END).err(),
        }
    }

    /// See [`super::Worker::open_failed`].
    pub fn open_failed(&mut self, attempt: Attempt, now: Moment) {
        let Way::Link(link) = &mut self.way else {
            return;
        };
        let failures = link.failures();
        link.failed(attempt, now, &mut self.ended);
        if link.failures() > failures {
            self.events.push(Event::LinkFailed(Silence::Unreachable));
        }
    }

    /// See [`super::Worker::opened`].
    pub fn opened(&mut self, attempt: Attempt, connection: Connection, now: Moment) -> bool {
        let Way::Link(link) = &mut self.way else {
            return false;
        };
        let mut out = Vec::new();
        let flow = link.opened(attempt, connection, now, &mut out, &mut self.ended);
        self.write(connection, &out);
        flow == Flow::Keep
    }

    /// See [`super::Worker::received`].
    pub fn received(&mut self, connection: Connection, bytes: &[u8], now: Moment) -> bool {
        let Way::Link(link) = &mut self.way else {
            return false;
        };
        let mut out = Vec::new();
        let flow = link.received(connection, bytes, now, &mut out, &mut self.ended);
        if link.is_proven() && self.up != Some(connection) {
            self.up = Some(connection);
            self.events.push(Event::LinkUp);
        }
        self.write(connection, &out);
        if let Flow::Close(why) = flow {
            self.lost(connection, why);
        }
        flow == Flow::Keep
    }

    /// See [`super::Worker::closed`].
    pub fn closed(&mut self, connection: Connection, now: Moment) {
        let Way::Link(link) = &mut self.way else {
            return;
        };
        let current = link.connection() == Some(connection);
        link.closed(connection, now, &mut self.ended);
        if current {
            self.lost(connection, Silence::Lost);
        }
    }

    /// See [`super::Worker::answered`].
    pub fn answered(&mut self, number: Asked, status: Option<u16>, body: &[u8], now: Moment) {
        if let Way::Calls(calls) = &mut self.way {
            self.ended.extend(calls.answered(number, status, body, now));
        }
    }

    /// See [`super::Worker::call_failed`].
    pub fn call_failed(&mut self, number: Asked) {
        if let Way::Calls(calls) = &mut self.way {
            self.ended.extend(calls.failed(number));
            self.events.push(Event::LinkFailed(Silence::Unreachable));
        }
    }

    /// See [`super::Worker::tick`].
    pub fn tick(&mut self, now: Moment) {
        match &mut self.way {
            Way::Link(link) => {
                let failures = link.failures();
                if let Some((connection, why)) = link.expire(now, &mut self.ended) {
                    self.lost(connection, why);
                    self.orders.close = Some(connection);
                } else if link.failures() > failures {
                    self.events.push(Event::LinkFailed(Silence::TimedOut));
                }
            }
            Way::Calls(calls) => calls.expire(now, &mut self.ended),
        }
    }

    /// See [`super::Worker::busy`].
    pub fn busy(&self) -> bool {
        match &self.way {
            Way::Link(link) => link.next_check().is_some(),
            Way::Calls(calls) => calls.next_check().is_some(),
        }
    }

    /// Replies that came too late, since the last call.
    pub fn take_late(&mut self) -> u64 {
        match &mut self.way {
            Way::Link(link) => link.take_late(),
            Way::Calls(calls) => calls.take_late(),
        }
    }

    /// Commands whose answer is owed.
    pub fn in_flight(&self) -> usize {
        match &self.way {
            Way::Link(link) => link.in_flight(),
            Way::Calls(calls) => calls.in_flight(),
        }
    }

    /// What the host must do.
    pub fn orders(&mut self) -> Orders {
        mem::take(&mut self.orders)
    }

    /// The commands that ended.
    pub fn ended(&mut self) -> Vec<Settled<T>> {
        mem::take(&mut self.ended)
    }

    /// What happened.
    pub fn events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    fn write(&mut self, connection: Connection, bytes: &[u8]) {
        if bytes.is_empty() {
            return;
        }
        match &mut self.orders.write {
            Some((to, out)) if *to == connection => out.extend_from_slice(bytes),
            write => *write = Some((connection, bytes.to_vec())),
        }
    }

    fn lost(&mut self, connection: Connection, why: Silence) {
        // One that never said anything good was never there: a server that does not let us in closes
        // each attempt like that, and only the first of them is news.
        self.events.push(match self.up.take() {
            Some(up) if up == connection => Event::LinkLost(why),
            _ => Event::LinkFailed(why),
        });
        let write = &mut self.orders.write;
        if write.as_ref().is_some_and(|(to, _)| *to == connection) {
            *write = None;
        }
    }
}

impl<T> Way<T> {
    fn new(redis: &Redis, seed: u64) -> Self {
        let user = redis.username.as_deref();
        let password = redis.password.as_ref().map(|password| password.reveal());
        let gateway = match redis.link {
            policy::Link::Envoy => {
                let mut greeting = Greeting::default();
                if let Some(password) = password {
                    greeting = greeting.auth(user, password);
                }
                let settings = link::Settings {
                    greeting,
                    reconnect_on_errors: redis.topology == Topology::Single,
                    ..link::Settings::default()
                };
                return Self::Link(Box::new(Link::new(settings, seed)));
            }
            policy::Link::Webdis => Gateway::webdis(&redis.authority, user, password),
            policy::Link::Upstash => {
                let token = redis.token.as_ref().map_or("", |token| token.reveal());
                Gateway::upstash(&redis.authority, token)
            }
            policy::Link::Higress => Gateway::resp(),
        };
        Self::Calls(Calls::new(gateway, MOST_CALLS, seed))
    }
}
