//! One worker's requests between question and answer. No host, no clock: events come in with the
//! moment they happened, and what must be done comes out as [`Orders`] and [`Settled`] requests.
//!
//! ```text
//!  begin ─► one command a hash tag ─► redis::link ─► replies ─► all parts in ─► settled
//!                                          └── deadline, error, loss ─────────► settled as silence
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
        breaker::{Admission, Breaker, Change, Pass},
    },
    policy::{Policy, Topology},
    redis::{
        error::ErrorKind,
        gate::{Attempt, Connection},
        link::{self, Asked, Flow, Greeting, Link, Submitted},
        resp::Value,
        script::{self, By, Call, Commands, Member, Mode, Unreadable},
    },
    units::{Micros, Moment},
    verdict::{Judged, Source, Verdict},
};
use std::{collections::HashMap, mem};

mod fallback;
mod follow;
use fallback::Fallbacks;
use follow::{Follow, News};

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

/// What the host must do for the link, in this order.
#[derive(Debug, Default)]
pub struct Orders {
    /// Send these bytes into this connection. If that fails, say [`Worker::closed`].
    pub write: Option<(Connection, Vec<u8>)>,
    /// Close this connection; nothing more need be told.
    pub close: Option<Connection>,
    /// Open a connection under this number; if that fails, say [`Worker::open_failed`]. Only ever
    /// ordered by [`Worker::begin`].
    pub open: Option<Attempt>,
}

/// Something an operator may want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection is there.
    LinkUp,
    /// The connection is gone, or was given up for this reason.
    LinkLost(Silence),
    /// No connection could be opened.
    LinkFailed,
    /// Redis did not know the script and was sent it whole.
    ScriptSent,
    /// The breaker opened, lastly for this reason.
    BreakerOpened(Silence),
    /// One request tries whether Redis is back.
    BreakerProbes,
    /// Redis answers again.
    BreakerClosed,
    /// The switch put every limit into shadow mode, or took it out again.
    Shadow(bool),
    /// A pushed policy is here, by its number, to be taken or refused with [`Worker::adopt`] or
    /// [`Worker::refuse`].
    Policy(u64, Vec<u8>),
    /// No pushed policy is followed any more: [`Worker::adopt`] the configuration's own, as number 0.
    OwnPolicy,
}

struct Waiting<R> {
    request: R,
    claims: Vec<Claim>,
    member: Member,
    parts: Vec<Part>,
    /// Leave to ask, to be settled with what comes of it.
    pass: Option<Pass>,
    since: Moment,
    deadline: Moment,
}

/// The claims of one command: all of a request, or in a cluster those of one hash tag.
struct Part {
    /// Indices into the request's claims.
    claims: Vec<usize>,
    asked: Option<Asked>,
    readings: Option<Vec<crate::verdict::Reading>>,
}

/// What one command is for.
#[derive(Clone, Copy, Debug)]
enum Errand {
    /// The part with this index of a request's question.
    Take(Ticket, usize, By),
    /// A give-back, by its number in `gives`.
    Give(u64, By),
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
    breaker: Breaker,
    link: Link<Errand>,
    waiting: HashMap<Ticket, Waiting<R>>,
    gives: HashMap<u64, Lease>,
    /// Keys of the debts on their way.
    debts: HashMap<u64, String>,
    last: u64,
    orders: Orders,
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
        let mut greeting = Greeting::default();
        if let Some(password) = &redis.password {
            greeting = greeting.auth(redis.username.as_deref(), password.reveal());
        }
        let split = redis.topology == Topology::Cluster;
        let settings = link::Settings {
            greeting,
            reconnect_on_errors: !split,
            ..link::Settings::default()
        };
        Self {
            timeout: redis.timeout,
            split,
            fallbacks: Fallbacks::new(policy),
            follow: Follow::new(policy),
            breaker: Breaker::new(redis.breaker),
            link: Link::new(settings, seed),
            waiting: HashMap::new(),
            gives: HashMap::new(),
            debts: HashMap::new(),
            last: 0,
            orders: Orders::default(),
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
        let parts = self.parts(&claims);
        let count = parts.len();
        let member = Member::new(random);
        let deadline = now.plus(self.timeout);
        let (pass, skipped) = match self.breaker.admit(now) {
            Admission::Ask(pass) => (Some(pass), false),
            Admission::Probe(pass) => {
                self.events.push(Event::BreakerProbes);
                (Some(pass), false)
            }
            Admission::Skip => (None, true),
        };
        let waiting = Waiting {
            pass,
            request,
            claims,
            member,
            parts,
            since: now,
            deadline,
        };
        self.waiting.insert(ticket, waiting);
        if skipped {
            self.silence(ticket, Silence::Skipped, now);
            return ticket;
        }
        self.read_control(now);
        self.pay_debts(ticket, now);
        for part in 0..count {
            self.ask(ticket, part, By::Sha, true, now);
        }
        ticket
    }

    /// The host could not open, or the opening call ended. Ignored unless `attempt` is under way.
    pub fn open_failed(&mut self, attempt: Attempt, now: Moment) {
        let failures = self.link.failures();
        let mut ended = Vec::new();
        self.link.failed(attempt, now, &mut ended);
        if self.link.failures() > failures {
            self.events.push(Event::LinkFailed);
        }
        self.take_in(ended, now);
    }

    /// A connection reports itself. `false`: it is not the one that is waited for and must close.
    /// What waited is in the orders then, to be sent once the connection can take it.
    #[must_use]
    pub fn opened(&mut self, attempt: Attempt, connection: Connection, now: Moment) -> bool {
        let (mut out, mut ended) = (Vec::new(), Vec::new());
        let flow = self
            .link
            .opened(attempt, connection, now, &mut out, &mut ended);
        self.write(connection, &out);
        self.take_in(ended, now);
        let accepted = flow == Flow::Keep;
        if accepted {
            self.events.push(Event::LinkUp);
        }
        accepted
    }

    /// Bytes came from Redis. `false`: the connection must close.
    #[must_use]
    pub fn received(&mut self, connection: Connection, bytes: &[u8], now: Moment) -> bool {
        let (mut out, mut ended) = (Vec::new(), Vec::new());
        let flow = self
            .link
            .received(connection, bytes, now, &mut out, &mut ended);
        self.write(connection, &out);
        if let Flow::Close(why) = flow {
            self.lost(connection, why);
        }
        self.take_in(ended, now);
        flow == Flow::Keep
    }

    /// A connection is gone. Ignored when it is not the one in use.
    pub fn closed(&mut self, connection: Connection, now: Moment) {
        if self.link.connection() == Some(connection) {
            self.lost(connection, Silence::Lost);
        }
        let mut ended = Vec::new();
        self.link.closed(connection, now, &mut ended);
        self.take_in(ended, now);
    }

    /// Time has passed: settles whoever waited too long, gives up an opening that takes too long and
    /// a connection that owes and says nothing.
    pub fn tick(&mut self, now: Moment) {
        let failures = self.link.failures();
        let mut ended = Vec::new();
        if let Some((connection, why)) = self.link.expire(now, &mut ended) {
            self.lost(connection, why);
            self.orders.close = Some(connection);
        } else if self.link.failures() > failures {
            self.events.push(Event::LinkFailed);
        }
        self.take_in(ended, now);
    }

    /// Whether [`Worker::tick`] is needed.
    #[must_use]
    pub fn busy(&self) -> bool {
        self.link.next_check().is_some()
    }

    /// The client has gone: nobody waits for this any more. `false`: it was settled already.
    pub fn forget(&mut self, ticket: Ticket, now: Moment) -> bool {
        let Some(waiting) = self.waiting.remove(&ticket) else {
            return false;
        };
        for asked in waiting.parts.iter().filter_map(|part| part.asked) {
            let _ = self.link.abandon(asked);
        }
        self.release_leases(&waiting.claims, waiting.member, now);
        true
    }

    /// Gives back what a request took, one command a hash tag. Without a connection nothing is sent,
    /// and leases end by themselves at their lease time.
    pub fn release(&mut self, lease: Lease, now: Moment) {
        self.fallbacks.give(&lease.claims, lease.member, now);
        for part in self.parts(&lease.claims) {
            let claims = part.asked_for(&lease.claims);
            let part = Lease {
                claims: claims.cloned().collect(),
                member: lease.member,
            };
            let number = self.number();
            self.gives.insert(number, part);
            self.give(number, By::Sha, now);
        }
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
        self.follow.took(number);
    }

    /// This pushed policy cannot be; what is in force stays.
    pub fn refuse(&mut self, number: u64) {
        self.follow.refused(number);
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

    /// Replies that came too late, since the last call.
    pub fn take_late(&mut self) -> u64 {
        self.link.take_late()
    }

    /// Keys that this worker's own limiter remembers.
    #[must_use]
    pub fn local_keys(&self) -> usize {
        self.fallbacks.keys()
    }

    /// Commands whose reply is owed, and requests that wait.
    #[must_use]
    pub fn depth(&self) -> (usize, usize) {
        (self.link.in_flight(), self.waiting.len())
    }
}

/// How long something that no request waits for may take.
const ASIDE: Micros = Micros::from_secs(1);

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

    /// Asks one part. `may_open`: this runs in a stream's own callback.
    fn ask(&mut self, ticket: Ticket, index: usize, by: By, may_open: bool, now: Moment) {
        let Some(waiting) = self.waiting.get_mut(&ticket) else {
            return;
        };
        let Some(part) = waiting.parts.get_mut(index) else {
            return;
        };
        if !may_open && self.link.connection().is_none() {
            return self.silence(ticket, Silence::Lost, now);
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
        match self.link.submit(errand, &command, waiting.deadline, now) {
            Submitted::Send(connection, asked) => {
                part.asked = Some(asked);
                self.write(connection, &command);
            }
            Submitted::Open(attempt, asked) => {
                part.asked = Some(asked);
                self.orders.open = Some(attempt);
            }
            Submitted::Wait(asked) => part.asked = Some(asked),
            Submitted::Refused(_, why) => self.silence(ticket, why, now),
        }
        self.command = command;
    }

    /// Takes in what the link settled.
    fn take_in(&mut self, ended: Vec<link::Settled<Errand>>, now: Moment) {
        for link::Settled {
            ticket: errand,
            answer,
        } in ended
        {
            match (errand, answer) {
                (Errand::Take(ticket, part, by), Ok(value)) => {
                    self.replied(ticket, part, by, &value, now);
                }
                (Errand::Take(ticket, ..), Err(why)) => self.silence(ticket, why, now),
                (Errand::Give(number, By::Sha), Ok(value)) if is_unknown_script(&value) => {
                    self.give(number, By::Body, now);
                }
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
                (Errand::Give(number, _), _) => {
                    self.gives.remove(&number);
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
            Err(Unreadable::NoScript) if by == By::Sha => {
                self.events.push(Event::ScriptSent);
                self.ask(ticket, index, By::Body, false, now);
            }
            Err(why) => self.silence(ticket, silence_of(&why), now),
        }
    }

    /// Under the switch every claim is one in shadow mode.
    fn heed_switch(&self, mut claims: Vec<Claim>) -> Vec<Claim> {
        if self.follow.shadow() {
            claims.iter_mut().for_each(|claim| claim.enforced = false);
        }
        claims
    }

    /// Every part was answered.
    fn decided(&mut self, ticket: Ticket, now: Moment) {
        let Some(Waiting {
            request,
            claims,
            member,
            parts,
            pass,
            since,
            ..
        }) = self.waiting.remove(&ticket)
        else {
            return;
        };
        self.settle_pass(pass, Ok(()), now);
        // The switch may have been turned since this was asked.
        let allowed = self.shadow() || parts.iter().all(|part| part.admits(&claims));
        let mut readings = vec![None; claims.len()];
        let mut returned = Vec::new();
        for part in parts {
            let took = part.admits(&claims);
            let answers = part.readings.into_iter().flatten();
            for (index, mut reading) in part.claims.into_iter().zip(answers) {
                let Some(claim) = claims.get(index) else {
                    continue;
                };
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
        let mut lease = (!returned.is_empty()).then_some(Lease {
            claims: returned,
            member,
        });
        // Another part refused: what this one took goes back at once, not at the request's end.
        if !allowed && let Some(lease) = lease.take() {
            self.release(lease, now);
        }
        let judged = self.heed_switch(claims).into_iter().zip(readings);
        let judged = judged.filter_map(|(claim, reading)| {
            Some(Judged {
                claim,
                reading: reading?,
            })
        });
        let verdict = Verdict {
            allowed,
            judged: judged.collect(),
            source: Source::Redis,
        };
        let took = now.since(since);
        self.settled.push(Settled {
            request,
            outcome: Outcome::Verdict(verdict),
            lease,
            took,
        });
    }

    /// A request gets no verdict. Ignored when it is settled already.
    fn silence(&mut self, ticket: Ticket, why: Silence, now: Moment) {
        let Some(waiting) = self.waiting.remove(&ticket) else {
            return;
        };
        for asked in waiting.parts.iter().filter_map(|part| part.asked) {
            let _ = self.link.abandon(asked);
        }
        self.settle_pass(waiting.pass, Err(why), now);
        let Waiting {
            request,
            claims,
            member,
            since,
            ..
        } = waiting;
        self.release_leases(&claims, member, now);
        let claims = self.heed_switch(claims);
        let leave = self.fallbacks.leave(&claims, why);
        let (outcome, held) = match leave {
            Leave::Local => {
                let verdict = self.fallbacks.decide(&claims, member, now);
                let held = if verdict.allowed {
                    leases(&claims)
                } else {
                    Vec::new()
                };
                (Outcome::Local(why, verdict), held)
            }
            Leave::Forward | Leave::Refuse => (Outcome::Outage(why, leave), Vec::new()),
        };
        self.settled.push(Settled {
            request,
            outcome,
            lease: (!held.is_empty()).then_some(Lease {
                claims: held,
                member,
            }),
            took: now.since(since),
        });
    }

    /// Tells Redis, just before it is asked for the same keys, what this worker admitted while it did
    /// not answer. So a client that had its share here does not find the whole limit there.
    fn pay_debts(&mut self, ticket: Ticket, now: Moment) {
        let (Some(waiting), Some(_)) = (self.waiting.get(&ticket), self.link.connection()) else {
            return;
        };
        let member = waiting.member;
        for debt in self.fallbacks.debts(&waiting.claims, now) {
            let mut command = Vec::new();
            let call = Call {
                mode: Mode::Take,
                by: By::Body,
            };
            // A name of its own: the request's is taken by the question that follows.
            call.write([&debt], member.other(), &mut Commands(&mut command));
            let number = self.number();
            self.debts.insert(number, debt.key);
            let deadline = now.plus(self.timeout);
            match self
                .link
                .submit(Errand::Debt(number), &command, deadline, now)
            {
                Submitted::Send(connection, _) => self.write(connection, &command),
                Submitted::Wait(_) => {}
                Submitted::Open(..) | Submitted::Refused(..) => self.paid(number, false),
            }
        }
    }

    /// Reads the control key when it is time. On the same connection its answer comes before that of
    /// the question that follows, so the very next verdict heeds it.
    fn read_control(&mut self, now: Moment) {
        if self.link.connection().is_some()
            && let Some(command) = self.follow.due(now)
        {
            self.ask_aside(Errand::Control, &command, now);
        }
    }

    /// Asks something that no request waits for.
    fn ask_aside(&mut self, errand: Errand, command: &[u8], now: Moment) {
        let deadline = now.plus(ASIDE);
        match self.link.submit(errand, command, deadline, now) {
            Submitted::Send(connection, _) => self.write(connection, command),
            Submitted::Wait(_) | Submitted::Open(..) | Submitted::Refused(..) => {}
        }
    }

    /// Something was read beside decisions.
    fn heard(&mut self, (news, next): (News, Option<Vec<u8>>), now: Moment) {
        match news {
            News::Nothing => {}
            News::Shadow(on) => self.events.push(Event::Shadow(on)),
            News::Policy(number, text) => self.events.push(Event::Policy(number, text)),
            News::OwnPolicy => self.events.push(Event::OwnPolicy),
        }
        if let Some(command) = next {
            self.ask_aside(Errand::Slice, &command, now);
        }
    }

    fn paid(&mut self, number: u64, told: bool) {
        if let Some(key) = self.debts.remove(&number) {
            self.fallbacks.paid(&key, told);
        }
    }

    /// Tells the breaker what came of a request.
    fn settle_pass(&mut self, pass: Option<Pass>, end: Result<(), Silence>, now: Moment) {
        let change = pass.and_then(|pass| self.breaker.settle(pass, end, now));
        self.events.extend(change.map(|change| match change {
            Change::Opened(why) => Event::BreakerOpened(why),
            Change::Closed => Event::BreakerClosed,
        }));
    }

    /// Leases that a request may have taken without anybody knowing. Redis answers in order, so the
    /// give-back comes after the take even when that is still on its way.
    fn release_leases(&mut self, claims: &[Claim], member: Member, now: Moment) {
        let claims = leases(claims);
        if !claims.is_empty() {
            self.release(Lease { claims, member }, now);
        }
    }

    fn give(&mut self, number: u64, by: By, now: Moment) {
        let Some(lease) = self.gives.get(&number) else {
            return;
        };
        if self.link.connection().is_none() {
            self.gives.remove(&number);
            return;
        }
        let mut command = mem::take(&mut self.command);
        command.clear();
        Call {
            mode: Mode::Give,
            by,
        }
        .write(&lease.claims, lease.member, &mut Commands(&mut command));
        // Nobody waits for it, so it may take as long as a connection is given to answer at all.
        let deadline = now.plus(Micros::from_secs(60));
        match self
            .link
            .submit(Errand::Give(number, by), &command, deadline, now)
        {
            Submitted::Send(connection, _) => self.write(connection, &command),
            Submitted::Wait(_) => {}
            Submitted::Open(..) | Submitted::Refused(..) => {
                self.gives.remove(&number);
            }
        }
        self.command = command;
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
        self.events.push(Event::LinkLost(why));
        if self
            .orders
            .write
            .as_ref()
            .is_some_and(|(to, _)| *to == connection)
        {
            self.orders.write = None;
        }
    }
}

impl Part {
    const fn of(claims: Vec<usize>) -> Self {
        Self {
            claims,
            asked: None,
            readings: None,
        }
    }

    /// The claims of this part.
    fn asked_for<'a>(&self, claims: &'a [Claim]) -> impl Iterator<Item = &'a Claim> + Clone {
        self.claims.iter().filter_map(|index| claims.get(*index))
    }

    /// Whether the script took what this part asked for: no enforced claim of it was refused.
    fn admits(&self, claims: &[Claim]) -> bool {
        self.claims
            .iter()
            .zip(self.readings.iter().flatten())
            .all(|(index, reading)| {
                reading.admitted || claims.get(*index).is_some_and(|claim| !claim.enforced)
            })
    }
}

/// One part a hash tag, in the order in which the tags first come.
fn by_tag(claims: &[Claim]) -> Vec<Part> {
    let mut parts: Vec<(&str, Part)> = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        match parts.iter_mut().find(|(tag, _)| *tag == claim.tag()) {
            Some((_, part)) => part.claims.push(index),
            None => parts.push((claim.tag(), Part::of(vec![index]))),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// The claims that are held while a request is in flight.
fn leases(claims: &[Claim]) -> Vec<Claim> {
    let held = claims.iter().filter(|claim| claim.is_lease());
    held.cloned().collect()
}

fn is_unknown_script(value: &Value) -> bool {
    matches!(value, Value::Error(text) if ErrorKind::of(text) == ErrorKind::NoScript)
}

fn silence_of(why: &Unreadable) -> Silence {
    match why {
        Unreadable::NoScript => Silence::Refused(ErrorKind::NoScript),
        Unreadable::Redis { text, .. } => Silence::Refused(ErrorKind::of(text.as_bytes())),
        _ => Silence::Garbage,
    }
}

#[cfg(test)]
mod tests;
