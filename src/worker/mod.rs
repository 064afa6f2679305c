//! One worker's requests between question and answer. No host, no clock: events come in with the
//! moment they happened, and what must be done comes out as [`Orders`] and [`Settled`] requests.
//!
//! ```text
//!  begin ─► one command a hash tag ─► transport ─► replies ─► all parts in ─► settled
//!                                         └── deadline, error, loss ─────────► settled as silence
//! ```
//!
//! How to drive it: after every event take [`Worker::orders`] and [`Worker::settled`] and carry them
//! out. Call [`Worker::tick`] every few milliseconds while [`Worker::busy`].
//!
//! What must happen once is consumed: a waiting request leaves the map with the first thing that
//! settles it, so neither a late reply nor a lost link can answer it a second time.

use crate::{
    claim::Claim,
    outage::{
        Leave, Silence,
        shards::{Breakers, ShardAdmission},
    },
    policy::{Policy, Topology},
    redis::{
        error::ErrorKind,
        gate::{Attempt, Connection},
        link::Asked,
        resp::Value,
        script::{self, By, Call, Commands, Member, Mode, Unreadable},
    },
    units::{Micros, Moment},
    verdict::Verdict,
};
use std::{collections::HashMap, mem};

mod aside;
mod fallback;
mod follow;
mod memory;
mod orders;
mod part;
mod settle;
mod transport;

use fallback::Fallbacks;
use follow::Follow;
use memory::Memory;
pub use orders::{Event, Orders, Outgoing};
use part::{Part, by_tag, leases};
use transport::Transport;

/// A request that waits, by number; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// What came of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Redis decided.
    Verdict(Verdict),
    /// Redis did not, for this reason, and the policy leaves the request so.
    Outage(Silence, Leave),
    /// Redis did not, for this reason, and this worker's own limiter decided.
    Local(Silence, Verdict),
}

/// What a request took and has to give back, with [`Worker::release`].
#[derive(Clone, Debug)]
pub struct Lease {
    claims: Vec<Claim>,
    member: Member,
}

/// A request whose wait is over.
#[derive(Debug)]
pub struct Settled<R> {
    /// What the host gave with [`Worker::begin`].
    pub request: R,
    /// What came of it.
    pub outcome: Outcome,
    /// What it holds until it ends, when a `concurrency` limit admitted it.
    pub lease: Option<Lease>,
    /// From `begin` to here.
    pub took: Micros,
}

struct Waiting<R> {
    request: R,
    claims: Vec<Claim>,
    member: Member,
    parts: Vec<Part>,
    since: Moment,
    deadline: Moment,
}

/// What one command is for.
#[derive(Clone, Copy, Debug)]
enum Errand {
    /// The part with this index of a request's question.
    Take(Ticket, usize, By),
    /// A give-back, by its number in `gives`.
    Give(u64, By),
    /// What a request asked for that nobody waits for any more: the give-back with this number may be
    /// sent once it has ended.
    Last(u64),
    /// What was admitted here while Redis did not answer; nobody waits for this.
    Debt(u64),
    /// Reads the control key.
    Control,
    /// Fetches a slice of a pushed policy.
    Slice,
}

/// See the module. `R` is whatever the host needs to find the request again.
pub struct Worker<R> {
    timeout: Micros,
    split: bool,
    fallbacks: Fallbacks,
    follow: Follow,
    memory: Memory,
    breakers: Breakers,
    transport: Transport<Errand>,
    waiting: HashMap<Ticket, Waiting<R>>,
    gives: HashMap<u64, Lease>,
    /// Keys of the debts on their way.
    debts: HashMap<u64, String>,
    last: u64,
    settled: Vec<Settled<R>>,
    events: Vec<Event>,
    command: Vec<u8>,
}

impl<R> Worker<R> {
    /// A worker without a link and without requests. `seed`, any number, spreads the reconnects of
    /// many workers.
    #[must_use]
    pub fn new(policy: &Policy, seed: u64) -> Self {
        let redis = &policy.redis;
        Self {
            timeout: redis.timeout,
            split: redis.topology == Topology::Cluster,
            fallbacks: Fallbacks::new(policy),
            follow: Follow::new(policy),
            memory: Memory::new(redis.remember_refusals),
            breakers: Breakers::new(redis.breaker, redis.topology == Topology::Cluster),
            transport: Transport::new(redis, seed),
            waiting: HashMap::new(),
            gives: HashMap::new(),
            debts: HashMap::new(),
            last: 0,
            settled: Vec::new(),
            events: Vec::new(),
            command: Vec::new(),
        }
    }

    /// Asks for `claims`, of which there is at least one. What comes of it is in [`Worker::settled`]
    /// later, or at once when there is no way to ask.
    pub fn begin(
        &mut self,
        request: R,
        claims: Vec<Claim>,
        random: [u8; 16],
        now: Moment,
    ) -> Ticket {
        let ticket = Ticket(self.number());
        let claims = self.heed_switch(claims);
        if let Some(verdict) = self.memory.recall(&claims, now) {
            self.read_control(now);
            self.settled.push(Settled {
                request,
                outcome: Outcome::Verdict(verdict),
                lease: None,
                took: Micros::ZERO,
            });
            return ticket;
        }
        let mut parts = self.parts(&claims);
        let count = parts.len();
        let member = Member::new(random);
        let deadline = now.plus(self.timeout);
        let admitted = parts.iter_mut().all(|part| self.admit(part, &claims, now));
        let waiting = Waiting {
            request,
            claims,
            member,
            parts,
            since: now,
            deadline,
        };
        self.waiting.insert(ticket, waiting);
        if !admitted {
            self.silence(ticket, None, Silence::Skipped, now);
            return ticket;
        }
        self.read_control(now);
        self.pay_debts(ticket, now);
        for part in 0..count {
            self.ask(ticket, part, By::Sha, true, now);
        }
        ticket
    }

    /// A request came that no limit is asked about. Nobody else may come for long, and what such a
    /// request gets may be what the operator wants to change: reads the control key when it is time.
    /// Returns whether there are orders because of that.
    pub fn look(&mut self, now: Moment) -> bool {
        self.read_control(now)
    }

    /// The host could not open, or the opening call ended. Ignored unless `attempt` is under way.
    pub fn open_failed(&mut self, attempt: Attempt, now: Moment) {
        self.transport.open_failed(attempt, now);
        self.take_in(now);
    }

    /// A connection reports itself. `false`: it is not the one that is waited for and must close.
    /// What waited is in the orders then, to be sent once the connection can take it.
    #[must_use]
    pub fn opened(&mut self, attempt: Attempt, connection: Connection, now: Moment) -> bool {
        let accepted = self.transport.opened(attempt, connection, now);
        self.take_in(now);
        accepted
    }

    /// Bytes came from Redis. `false`: the connection must close.
    #[must_use]
    pub fn received(&mut self, connection: Connection, bytes: &[u8], now: Moment) -> bool {
        let keep = self.transport.received(connection, bytes, now);
        self.take_in(now);
        keep
    }

    /// A connection is gone. Ignored when it is not the one in use.
    pub fn closed(&mut self, connection: Connection, now: Moment) {
        self.transport.closed(connection, now);
        self.take_in(now);
    }

    /// A call has ended: with this status and body, or with no status when no response came of it.
    pub fn answered(&mut self, number: Asked, status: Option<u16>, body: &[u8], now: Moment) {
        self.transport.answered(number, status, body, now);
        self.take_in(now);
    }

    /// A call could not be made.
    pub fn call_failed(&mut self, number: Asked, now: Moment) {
        self.transport.call_failed(number);
        self.take_in(now);
    }

    /// Time has passed: settles whoever waited too long, gives up an opening that takes too long and
    /// a connection that owes and says nothing.
    pub fn tick(&mut self, now: Moment) {
        self.transport.tick(now);
        self.take_in(now);
    }

    /// Whether [`Worker::tick`] is needed.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.transport.busy()
    }

    /// The client has gone: nobody waits for this any more. `false`: it was settled already.
    pub fn forget(&mut self, ticket: Ticket, now: Moment) -> bool {
        let Some(waiting) = self.waiting.remove(&ticket) else {
            return false;
        };
        self.take_back(&waiting.claims, waiting.member, &waiting.parts, now);
        true
    }

    /// Whether the switch has put every limit into shadow mode.
    #[must_use]
    pub const fn shadow(&self) -> bool {
        self.follow.shadow()
    }

    /// This policy is in force from now on, by its number in Redis, 0 for the configuration's own.
    /// Its `redis` and `control` sections stay without effect: they are the configuration's.
    pub fn adopt(&mut self, policy: &Policy, number: u64) {
        self.fallbacks = Fallbacks::new(policy);
        self.memory.clear();
        self.follow.took(number);
    }

    /// This pushed policy cannot be; what is in force stays.
    pub fn refuse(&mut self, number: u64) {
        self.follow.refused(number);
    }

    /// What the host must do.
    pub fn orders(&mut self) -> Orders {
        self.transport.orders()
    }

    /// The requests whose wait is over since the last call.
    pub fn settled(&mut self) -> Vec<Settled<R>> {
        mem::take(&mut self.settled)
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        let mut events = self.transport.events();
        events.append(&mut self.events);
        events
    }

    /// Replies that came too late, since the last call.
    pub fn take_late(&mut self) -> u64 {
        self.transport.take_late()
    }

    /// Keys that this worker's own limiter remembers, and refusals that still hold.
    #[must_use]
    pub fn local_keys(&self) -> usize {
        self.fallbacks.keys().saturating_add(self.memory.len())
    }

    /// Commands whose reply is owed, and requests that wait.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        (self.transport.in_flight(), self.waiting.len())
    }
}

/// The private steps.
impl<R> Worker<R> {
    fn number(&mut self) -> u64 {
        self.last = self.last.wrapping_add(1);
        self.last
    }

    /// What is asked in one command: a Redis Cluster wants one slot a command.
    fn parts(&self, claims: &[Claim]) -> Vec<Part> {
        if self.split {
            by_tag(claims)
        } else {
            vec![Part::of((0..claims.len()).collect())]
        }
    }

    /// Whether the breaker lets a part be asked.
    fn admit(&mut self, part: &mut Part, claims: &[Claim], now: Moment) -> bool {
        let tag = part.asked_for(claims).next().map_or("", Claim::tag);
        part.pass = match self.breakers.admit(tag, now) {
            ShardAdmission::Ask(pass) => Some(pass),
            ShardAdmission::Probe(pass) => {
                self.events.push(Event::BreakerProbes);
                Some(pass)
            }
            ShardAdmission::Skip => None,
        };
        part.pass.is_some()
    }

    /// Asks one part. `may_open`: this runs in a stream's own callback.
    fn ask(&mut self, ticket: Ticket, index: usize, by: By, may_open: bool, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else {
            return;
        };
        let Some(part) = waiting.parts.get_mut(index) else {
            return;
        };
        if !may_open && !self.transport.is_up() {
            return self.silence(ticket, Some(index), Silence::Lost, now);
        }
        let mut command = mem::take(&mut self.command);
        command.clear();
        let claims = part.asked_for(&waiting.claims);
        Call {
            mode: Mode::Take,
            by,
        }
        .write(claims, waiting.member, &mut Commands(&mut command));
        let errand = Errand::Take(ticket, index, by);
        let asked = self.transport.ask(errand, &command, waiting.deadline, now);
        self.command = command;
        match asked {
            Ok(asked) => part.asked = Some(asked),
            Err(why) => self.silence(ticket, Some(index), why, now),
        }
    }

    /// Takes in what the transport ended.
    fn take_in(&mut self, now: Moment) {
        for one in self.transport.ended() {
            match (one.ticket, one.answer) {
                (Errand::Take(ticket, part, by), Ok(value)) => {
                    self.replied(ticket, part, by, &value, now);
                }
                (Errand::Take(ticket, part, _), Err(why)) => {
                    self.silence(ticket, Some(part), why, now);
                }
                (Errand::Give(number, By::Sha), Ok(Value::Error(text)))
                    if ErrorKind::of(&text) == ErrorKind::NoScript =>
                {
                    self.give(number, By::Body, now);
                }
                (Errand::Give(number, _), _) => self.given(number),
                // An error of Redis's means that it took nothing.
                (Errand::Last(number), Ok(Value::Error(_))) => self.given(number),
                (Errand::Last(number), _) => self.give(number, By::Sha, now),
                (Errand::Control, Ok(value)) => {
                    let news = self.follow.controlled(&value);
                    self.heard(news, now);
                }
                (Errand::Control, Err(_)) => {}
                (Errand::Slice, answer) => {
                    let news = self.follow.fetched(answer.as_ref().ok());
                    self.heard(news, now);
                }
                (Errand::Debt(number), answer) => {
                    let told = answer.is_ok_and(|value| !matches!(value, Value::Error(_)));
                    self.paid(number, told);
                }
            }
        }
    }

    /// One part was answered.
    fn replied(&mut self, ticket: Ticket, index: usize, by: By, value: &Value, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else {
            return;
        };
        let Some(part) = waiting.parts.get_mut(index) else {
            return;
        };
        match script::read(value, part.asked_for(&waiting.claims)) {
            Ok(readings) => {
                part.readings = Some(readings);
                if waiting.parts.iter().all(|part| part.readings.is_some()) {
                    self.decided(ticket, now);
                }
            }
            // The call that met an unknown script changed nothing, so asking again counts once.
            Err(Unreadable::Redis(ErrorKind::NoScript)) if by == By::Sha => {
                self.events.push(Event::ScriptSent);
                self.ask(ticket, index, By::Body, false, now);
            }
            Err(why) => self.silence(ticket, Some(index), silence_of(why), now),
        }
    }

    /// Under the switch every claim is one in shadow mode.
    fn heed_switch(&self, mut claims: Vec<Claim>) -> Vec<Claim> {
        if self.follow.shadow() {
            claims.iter_mut().for_each(|claim| claim.enforced = false);
        }
        claims
    }
}

const fn silence_of(why: Unreadable) -> Silence {
    match why {
        Unreadable::Redis(kind) => Silence::Refused(kind),
        Unreadable::Malformed { .. } => Silence::Garbage,
    }
}

#[cfg(test)]
mod tests;
