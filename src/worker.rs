//! One worker's requests between question and answer. No host, no clock: events come in with the
//! moment they happened, and what must be done comes out as [`Orders`] and [`Settled`] requests.
//!
//! ```text
//!  begin ─► room (the link is not up yet) ─► pipeline ─► received ─► settled ─► the host answers
//!                      │                        │
//!                      └── tick: the deadline ──┴──► settled as silence
//! ```
//!
//! How to drive it: after every event take [`Worker::orders`] and [`Worker::settled`] and carry them
//! out. Call [`Worker::tick`] every few milliseconds while [`Worker::busy`].
//!
//! What must happen once is consumed: a waiting request leaves the map with the first thing that
//! settles it, so neither a late reply nor a lost link can answer it a second time.

use crate::{
    algorithm::Kind,
    claim::Claim,
    policy::{Redis, Topology},
    redis::{
        error::RedisError,
        link::{Gate, Pipeline, Start},
        resp::{Value, Violation},
        script::{self, By, Member, Mode, Script, Unreadable},
    },
    units::{Micros, Moment},
    verdict::{Judged, Reading, Source, Verdict},
};
use std::{
    collections::{HashMap, VecDeque},
    mem,
};

/// Most requests that wait for a verdict at once on one worker.
pub const MOST_WAITING: usize = 16_384;

/// Most commands that may be unanswered on one link, the abandoned ones included.
pub const MOST_UNANSWERED: usize = 65_536;

/// A link that owes a reply for this long without sending a byte is given up.
const SILENT_LINK: Micros = Micros::from_secs(1);

/// A request that waits, by number; never used twice.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Ticket(u64);

/// Why Redis gave no verdict.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Silence {
    /// The deadline passed.
    Deadline,
    /// There is no link and none can be opened now.
    NoLink,
    /// The link was lost while its reply was owed.
    LinkLost,
    /// Redis, or the proxy before it, answered an error.
    Error(RedisError),
    /// The answer is not one that the script gives.
    Garbled,
    /// Too many requests wait already.
    Full,
}

/// What came of a request.
#[derive(Debug)]
pub enum Outcome {
    /// Redis decided.
    Verdict(Verdict),
    /// Redis did not; the outage rule decides.
    Silence(Silence),
}

/// Leases that a request holds while it is in flight: to be given back with [`Worker::release`].
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

/// What the host must do for the link.
#[derive(Debug, Default)]
pub struct Orders {
    /// Open a link, under this attempt number. Only ever ordered by [`Worker::begin`].
    pub open: Option<u32>,
    /// Send these bytes on the link with this context id.
    pub write: Option<(u32, Vec<u8>)>,
    /// Close the link with this context id.
    pub close: Option<u32>,
}

/// Something an operator may want to know of.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Event {
    /// A link is up.
    LinkUp,
    /// A link that was up is gone.
    LinkLost,
    /// No link could be opened; the attempt with this number failed.
    LinkFailed(u32),
    /// The script was unknown to Redis and was sent whole.
    ScriptSent,
}

struct Waiting<R> {
    request: Option<R>,
    claims: Vec<Claim>,
    member: Member,
    parts: Vec<Part>,
    since: Moment,
}

/// The claims of one command: all of a request, or in a cluster those of one hash tag.
struct Part {
    claims: Vec<usize>,
    readings: Option<Vec<Reading>>,
}

/// What one reply on the link is for.
#[derive(Clone, Copy, Debug)]
enum Slot {
    /// One part of a request's question.
    Take(Ticket, usize, By),
    /// A give-back, by its number in `gives`.
    Give(u64, By),
}

/// See the module. `R` is whatever the host needs to find the request again.
pub struct Worker<R> {
    script: Script,
    timeout: Micros,
    split: bool,
    gate: Gate,
    pipeline: Pipeline<Slot>,
    heard: Moment,
    waiting: HashMap<Ticket, Waiting<R>>,
    room: VecDeque<Ticket>,
    deadlines: VecDeque<(Moment, Ticket)>,
    gives: HashMap<u64, Lease>,
    last: u64,
    orders: Orders,
    settled: Vec<Settled<R>>,
    events: Vec<Event>,
}

impl<R> Worker<R> {
    /// A worker without a link and without requests.
    #[must_use]
    pub fn new(redis: &Redis) -> Self {
        Self {
            script: Script::production(),
            timeout: redis.timeout,
            split: redis.topology == Topology::Cluster,
            gate: Gate::default(),
            pipeline: Pipeline::new(MOST_UNANSWERED),
            heard: Moment(0),
            waiting: HashMap::new(),
            room: VecDeque::new(),
            deadlines: VecDeque::new(),
            gives: HashMap::new(),
            last: 0,
            orders: Orders::default(),
            settled: Vec::new(),
            events: Vec::new(),
        }
    }

    /// Asks for `claims`, of which there is at least one. What comes of it is in [`Worker::settled`]
    /// later, or at once when there is no way to ask.
    pub fn begin(&mut self, request: R, claims: Vec<Claim>, random: [u8; 16], now: Moment) -> Ticket {
        self.last = self.last.wrapping_add(1);
        let ticket = Ticket(self.last);
        let full = self.waiting.len() >= MOST_WAITING;
        let parts = self.parts(&claims);
        let member = Member::new(random);
        self.waiting.insert(
            ticket,
            Waiting { request: Some(request), claims, member, parts, since: now },
        );
        if full {
            self.silence(ticket, Silence::Full, now);
            return ticket;
        }
        self.deadlines.push_back((now.plus(self.timeout), ticket));
        match self.gate.want(now) {
            Start::Up(_) => self.ask(ticket, now),
            Start::Open(attempt) => {
                self.orders.open = Some(attempt);
                self.room.push_back(ticket);
            }
            Start::Wait => self.room.push_back(ticket),
            Start::NotYet => self.silence(ticket, Silence::NoLink, now),
        }
        ticket
    }

    /// The host could not open, or the opening call ended. Ignored unless `attempt` is under way.
    pub fn open_failed(&mut self, attempt: u32, random: u64, now: Moment) {
        if self.gate.failed(attempt, random, now) {
            self.events.push(Event::LinkFailed(attempt));
            self.empty_room(Silence::NoLink, now);
        }
    }

    /// A link reports itself. `false`: it is not the one that is waited for and must close.
    #[must_use]
    pub fn opened(&mut self, attempt: u32, link: u32, now: Moment) -> bool {
        let accepted = self.gate.opened(attempt, link, now);
        if accepted {
            self.pipeline = Pipeline::new(MOST_UNANSWERED);
            self.heard = now;
            self.events.push(Event::LinkUp);
        }
        accepted
    }

    /// Sends what waited for the link.
    pub fn flush_room(&mut self, now: Moment) {
        if self.gate.link().is_some() {
            for ticket in mem::take(&mut self.room) {
                self.ask(ticket, now);
            }
        }
    }

    /// Bytes came from Redis.
    ///
    /// # Errors
    /// They are not RESP: the link must be closed, and [`Worker::closed`] called.
    pub fn received(&mut self, bytes: &[u8], now: Moment) -> Result<(), Violation> {
        self.heard = now;
        let mut replies = Vec::new();
        let read = self.pipeline.receive(bytes, &mut replies);
        for (slot, value) in replies {
            match slot {
                Slot::Take(ticket, part, by) => self.replied(ticket, part, by, &value, now),
                Slot::Give(give, by) => self.given(give, by, &value),
            }
        }
        read
    }

    /// A link is gone. Whoever waits for a reply of it is settled; ignored when it is not the link
    /// in use.
    pub fn closed(&mut self, link: u32, random: u64, now: Moment) {
        if !self.gate.closed(link, random, now) {
            return;
        }
        self.events.push(Event::LinkLost);
        for slot in self.pipeline.close() {
            if let Slot::Take(ticket, ..) = slot {
                self.silence(ticket, Silence::LinkLost, now);
            }
        }
        self.gives.clear();
        // Over-and-done requests that were kept for their leases: their replies never come.
        self.waiting.retain(|_, waiting| waiting.request.is_some());
        self.empty_room(Silence::LinkLost, now);
    }

    /// Time has passed: settles whoever waited too long, gives up an opening or a link that says
    /// nothing.
    pub fn tick(&mut self, random: u64, now: Moment) {
        while let Some(&(deadline, ticket)) = self.deadlines.front() {
            if deadline > now && self.waiting.get(&ticket).is_some_and(|w| w.request.is_some()) {
                break;
            }
            self.deadlines.pop_front();
            self.silence(ticket, Silence::Deadline, now);
        }
        if let Some(attempt) = self.gate.overdue(now) {
            self.open_failed(attempt, random, now);
        }
        if let Some(link) = self.gate.link()
            && self.pipeline.depth() > 0
            && now.since(self.heard) >= SILENT_LINK
        {
            self.orders.close = Some(link);
            self.closed(link, random, now);
        }
    }

    /// Whether [`Worker::tick`] is needed.
    #[must_use]
    pub fn busy(&self) -> bool {
        !self.deadlines.is_empty() || self.gate.is_opening() || self.pipeline.depth() > 0
    }

    /// The client has gone: nobody waits any more.
    pub fn forget(&mut self, ticket: Ticket) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
        waiting.request = None;
        if !waiting.holds_leases() {
            self.waiting.remove(&ticket);
        }
    }

    /// Gives back what a request held, one command a hash tag. When there is no link, leases end by
    /// themselves at their lease time.
    pub fn release(&mut self, lease: Lease) {
        let parts = self.parts(&lease.claims);
        for part in parts {
            let claims = part.claims.iter().filter_map(|index| lease.claims.get(*index));
            let part = Lease { claims: claims.cloned().collect(), member: lease.member.clone() };
            self.last = self.last.wrapping_add(1);
            self.gives.insert(self.last, part);
            self.send_give(self.last, By::Sha);
        }
    }

    /// What the host must do for the link.
    pub fn orders(&mut self) -> Orders {
        mem::take(&mut self.orders)
    }

    /// The requests whose wait is over since the last call.
    pub fn settled(&mut self) -> Vec<Settled<R>> {
        mem::take(&mut self.settled)
    }

    /// What happened since the last call.
    pub fn events(&mut self) -> Vec<Event> {
        mem::take(&mut self.events)
    }

    /// Commands on the link whose reply is owed, and requests that wait.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        (self.pipeline.depth(), self.waiting.len())
    }
}

/// The private steps.
impl<R> Worker<R> {
    /// What is asked in one command: a Redis Cluster wants one slot a command.
    fn parts(&self, claims: &[Claim]) -> Vec<Part> {
        if self.split { by_tag(claims) } else { vec![Part::all(claims)] }
    }

    /// Sends every part of a request that waits.
    fn ask(&mut self, ticket: Ticket, now: Moment) {
        let parts = self.waiting.get(&ticket).map_or(0, |waiting| waiting.parts.len());
        for part in 0..parts {
            self.ask_part(ticket, part, By::Sha, now);
        }
    }

    fn ask_part(&mut self, ticket: Ticket, part: usize, by: By, now: Moment) {
        let Some(link) = self.gate.link() else { return self.silence(ticket, Silence::NoLink, now) };
        let Some(waiting) = self.waiting.get(&ticket) else { return };
        let Some(asked) = waiting.parts.get(part) else { return };
        if !self.pipeline.ask(Slot::Take(ticket, part, by)) {
            return self.silence(ticket, Silence::Full, now);
        }
        let claims = asked.claims.iter().filter_map(|index| waiting.claims.get(*index));
        let (_, out) = self.orders.write.get_or_insert_with(|| (link, Vec::with_capacity(512)));
        self.script.write(Mode::Take, by, claims, &waiting.member, out);
    }

    /// One part was answered.
    fn replied(&mut self, ticket: Ticket, index: usize, by: By, value: &Value, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
        let Some(part) = waiting.parts.get_mut(index) else { return };
        match script::read(value, part.claims.len()) {
            Ok(readings) => {
                part.readings = Some(readings);
                if waiting.parts.iter().all(|part| part.readings.is_some()) {
                    self.decided(ticket, now);
                }
            }
            // Unknown script: sent whole, once. The call that met it changed nothing.
            Err(Unreadable::NoScript) if by == By::Sha => {
                self.events.push(Event::ScriptSent);
                self.ask_part(ticket, index, By::Body, now);
            }
            Err(why) => self.silence(ticket, silence_of(&why), now),
        }
    }

    /// Every part was answered.
    fn decided(&mut self, ticket: Ticket, now: Moment) {
        let Some(Waiting { request, claims, member, parts, since }) = self.waiting.remove(&ticket)
        else {
            return;
        };
        let allowed = parts.iter().all(|part| part.admits(&claims));
        let mut readings = vec![None; claims.len()];
        let mut returned = Vec::new();
        for part in parts {
            let took = part.admits(&claims);
            for (index, mut reading) in part.claims.into_iter().zip(part.readings.into_iter().flatten()) {
                let Some(claim) = claims.get(index) else { continue };
                let goes_back = took && reading.admitted && (!allowed || claim.is_lease());
                if goes_back {
                    returned.push(claim.clone());
                }
                if goes_back && !allowed {
                    let left = reading.remaining.saturating_add(claim.cost);
                    reading.remaining = left.min(claim.algorithm.quota());
                }
                if let Some(place) = readings.get_mut(index) {
                    *place = Some(reading);
                }
            }
        }
        let mut lease = (!returned.is_empty()).then_some(Lease { claims: returned, member });
        // Another part refused, or nobody waits any more: it goes back at once, not at the end.
        if !allowed || request.is_none() {
            if let Some(lease) = lease.take() {
                self.release(lease);
            }
        }
        let Some(request) = request else { return };
        let judged = claims.into_iter().zip(readings);
        let judged = judged.filter_map(|(claim, reading)| Some(Judged { claim, reading: reading? }));
        let verdict = Verdict { allowed, judged: judged.collect(), source: Source::Redis };
        let took = now.since(since);
        self.settled.push(Settled { request, outcome: Outcome::Verdict(verdict), lease, took });
    }

    /// A request gets no verdict. Ignored when it is settled already.
    fn silence(&mut self, ticket: Ticket, why: Silence, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else { return };
        let request = waiting.request.take();
        let took = now.since(waiting.since);
        // A reply that comes later may say that a lease was taken: only then it is still of interest.
        if !matches!(why, Silence::Deadline) || !waiting.holds_leases() {
            self.waiting.remove(&ticket);
        }
        if let Some(request) = request {
            let outcome = Outcome::Silence(why);
            self.settled.push(Settled { request, outcome, lease: None, took });
        }
    }

    fn empty_room(&mut self, why: Silence, now: Moment) {
        for ticket in mem::take(&mut self.room) {
            self.silence(ticket, why, now);
        }
    }

    fn send_give(&mut self, number: u64, by: By) {
        let (Some(link), Some(lease)) = (self.gate.link(), self.gives.get(&number)) else { return };
        if self.pipeline.ask(Slot::Give(number, by)) {
            let (_, out) = self.orders.write.get_or_insert_with(|| (link, Vec::with_capacity(512)));
            self.script.write(Mode::Give, by, lease.claims.iter(), &lease.member, out);
        } else {
            self.gives.remove(&number);
        }
    }

    /// A give-back was answered.
    fn given(&mut self, number: u64, by: By, value: &Value) {
        let unknown = script::is_no_script(value);
        if unknown && by == By::Sha {
            self.send_give(number, By::Body);
        } else {
            self.gives.remove(&number);
        }
    }
}

impl<R> Waiting<R> {
    fn holds_leases(&self) -> bool {
        self.claims.iter().any(Claim::is_lease)
    }
}

impl Part {
    /// One part for all claims.
    fn all(claims: &[Claim]) -> Self {
        Self { claims: (0..claims.len()).collect(), readings: None }
    }

    /// Whether the script took what this part asked for: no enforced claim of it was refused.
    fn admits(&self, claims: &[Claim]) -> bool {
        self.claims.iter().zip(self.readings.iter().flatten()).all(|(index, reading)| {
            reading.admitted || claims.get(*index).is_some_and(|claim| !claim.enforced)
        })
    }
}

/// One part a hash tag, in the order in which the tags first come: in a Redis Cluster one command
/// reaches one slot.
fn by_tag(claims: &[Claim]) -> Vec<Part> {
    let mut parts: Vec<(&str, Part)> = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        match parts.iter_mut().find(|(tag, _)| *tag == claim.tag()) {
            Some((_, part)) => part.claims.push(index),
            None => parts.push((claim.tag(), Part { claims: vec![index], readings: None })),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}
