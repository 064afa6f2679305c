//! What the HTTP filter and the link of one plugin on one worker share, and how the worker's orders
//! are carried out. No borrow of the worker is held across a host call: calls may come back nested.

use super::{
    calls::{self, BufferType, LogLevel},
    clock,
    meter::Meter,
};
use crate::{
    decide::{self, Conclusion},
    policy::Policy,
    redis::gate::Attempt,
    reply::{DEBUG_HEADER, Refusal, RequestKind},
    stats::{self, BreakerEvent, LinkEvent, Stat},
    verdict::Verdict,
    worker::{Event, Lease, Outcome, Settled, Ticket, Worker},
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    time::Duration,
};

/// Deadlines are looked at this often while something is under way, and not at all otherwise.
const TICK: Duration = Duration::from_millis(5);

thread_local! {
    /// The plugins of this VM by their root context's id, for links to find their worker.
    static PLUGINS: RefCell<HashMap<u32, Weak<Shared>>> = RefCell::new(HashMap::new());
}

/// The filter state that tells why: `%FILTER_STATE(wasm.aforo:PLAIN)%`.
pub const REASON: &str = "aforo";

/// The host's status for a cluster that it does not know.
const NOT_KNOWN: u32 = 2;

/// A request as the worker knows it: enough to answer it from anywhere.
#[derive(Clone, Copy, Debug)]
pub struct Request {
    /// Its stream's context id.
    pub id: u32,
    /// What kind of answer it understands.
    pub kind: RequestKind,
    /// Whether it showed the secret that opens the debug header.
    pub debug: bool,
}

/// What an allowed response will show.
#[derive(Default)]
pub struct Shown {
    /// Where the client stands.
    pub verdict: Option<Verdict>,
    /// Why, for who may know.
    pub reason: Option<String>,
}

/// Where a callback runs, which says what may be done in it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Place {
    /// A callback of this HTTP stream: it may answer itself and nobody else, and open a link.
    Stream(u32),
    /// The link's upstream data: verdicts may be carried out, for any stream.
    Link(u32),
    /// A tick or a queue of the root: everything may be carried out.
    Root(u32),
}

/// One plugin on one worker.
pub struct Shared {
    root: u32,
    /// What the operator wrote, checked.
    pub policy: Policy,
    /// Envoy's statistics.
    pub meter: Meter,
    /// The requests under way.
    pub worker: RefCell<Worker<Request>>,
    /// What allowed responses will show, by stream.
    shown: RefCell<HashMap<u32, Shown>>,
    /// What streams hold until they end.
    leases: RefCell<HashMap<u32, Lease>>,
    /// The opening call under way, and its attempt.
    opening: Cell<Option<(u32, Attempt)>>,
    bell: u32,
    rung: Cell<bool>,
    ticking: Cell<bool>,
    unsettled: RefCell<Vec<Settled<Request>>>,
    /// Whether it was said already that the link does not open.
    failing: Cell<bool>,
}

/// The plugin with this root context, if it is in this VM.
pub fn of(root: u32) -> Option<Rc<Shared>> {
    PLUGINS.with_borrow(|plugins| plugins.get(&root)?.upgrade())
}

/// An opening call ended, which means that its link failed or is gone. Any context may be told.
pub fn opening_ended(token: u32) {
    let plugins = PLUGINS.with_borrow(|plugins| plugins.values().cloned().collect::<Vec<_>>());
    for shared in plugins.iter().filter_map(Weak::upgrade) {
        let Some((_, attempt)) = shared.opening.get().filter(|(call, _)| *call == token) else {
            continue;
        };
        shared.opening.set(None);
        shared
            .worker
            .borrow_mut()
            .open_failed(attempt, clock::now());
        shared.ring();
    }
}

impl Drop for Shared {
    fn drop(&mut self) {
        PLUGINS.with_borrow_mut(|plugins| plugins.remove(&self.root));
    }
}

impl Shared {
    /// Registers a plugin. `None` when the host gives no queue.
    pub fn new(root: u32, policy: Policy) -> Option<Rc<Self>> {
        // Unique to this root on this worker, so that its bell rings here and nowhere else.
        let name = format!("aforo-{root}-{:032x}", u128::from_le_bytes(clock::random()));
        let bell = calls::register_queue(&name).ok()?;
        let shared = Rc::new(Self {
            root,
            worker: RefCell::new(Worker::new(&policy, clock::random_u64())),
            meter: Meter::new(&policy),
            policy,
            shown: RefCell::default(),
            leases: RefCell::default(),
            opening: Cell::new(None),
            bell,
            rung: Cell::new(false),
            ticking: Cell::new(false),
            unsettled: RefCell::default(),
            failing: Cell::new(false),
        });
        PLUGINS.with_borrow_mut(|plugins| plugins.insert(root, Rc::downgrade(&shared)));
        Some(shared)
    }

    /// Asks for a turn of the root, in which everything may be carried out.
    pub fn ring(&self) {
        if !self.rung.replace(true) && calls::ring(self.bell).is_err() {
            self.rung.set(false);
        }
    }

    /// The bell was heard.
    pub fn heard_bell(&self) {
        while calls::answer_ring(self.bell) {}
        self.rung.set(false);
        self.carry_out(Place::Root(self.root));
    }

    /// The root's tick.
    pub fn tick(&self) {
        self.worker.borrow_mut().tick(clock::now());
        self.carry_out(Place::Root(self.root));
        self.meter.flush(&self.policy);
        if !self.worker.borrow().busy() {
            self.ticking.set(false);
            calls::tick_every(Duration::ZERO);
        }
    }

    /// Hands over what was counted, unless a tick will do so.
    pub fn count(&self, stat: Stat) {
        self.meter.add(stat, 1);
        if !self.ticking.get() {
            self.meter.flush(&self.policy);
        }
    }

    /// Carries out what the worker ordered, as far as `place` allows; the root does the rest in the
    /// next turn. Returns what came of the stream of `place` itself.
    pub fn carry_out(&self, place: Place) -> Option<Conclusion> {
        self.obey(place);
        self.report();
        if !self.ticking.get() && self.worker.borrow().busy() {
            self.ticking.set(true);
            calls::tick_every(TICK);
        }
        let mut own = None;
        let settled = {
            let mut waiting = self.unsettled.take();
            waiting.append(&mut self.worker.borrow_mut().settled());
            waiting
        };
        let mut later = Vec::new();
        for one in settled {
            let prompt = match place {
                Place::Stream(id) => one.request.id == id,
                Place::Link(_) => matches!(one.outcome, Outcome::Verdict(_)),
                Place::Root(_) => true,
            };
            if !prompt {
                later.push(one);
            } else if place == Place::Stream(one.request.id) {
                own = Some(self.conclude(one));
            } else {
                self.answer(one);
            }
        }
        if !later.is_empty() {
            self.unsettled.borrow_mut().append(&mut later);
            self.ring();
        }
        // Answers may have released leases of streams that are gone.
        self.obey(place);
        let _ = calls::act_for(place.id());
        own
    }

    /// Opens, writes and closes as the worker says.
    fn obey(&self, place: Place) {
        let orders = self.worker.borrow_mut().orders();
        if let Some((link, bytes)) = orders.write {
            let sent = calls::act_for(link.0)
                .and_then(|()| calls::append_buffer(BufferType::DownstreamData, &bytes))
                .and_then(|()| calls::resume_downstream());
            let _ = calls::act_for(place.id());
            if sent.is_err() {
                self.worker.borrow_mut().closed(link, clock::now());
            }
        }
        if let Some(link) = orders.close {
            if calls::act_for(link.0).is_ok() {
                let _ = calls::close_downstream();
            }
            let _ = calls::act_for(place.id());
        }
        if let Some(attempt) = orders.open {
            self.open(attempt);
        }
    }

    /// Opens a link. Its filter's callbacks may run inside this call.
    fn open(&self, attempt: Attempt) {
        let path = format!("/aforo/{}/{}", self.root, attempt.0);
        match calls::open_call(&self.policy.redis.cluster, &path) {
            Ok(token) => self.opening.set(Some((token, attempt))),
            Err(why) => {
                if !self.failing.replace(true) {
                    let cluster = &self.policy.redis.cluster;
                    let fault = if why.0 == NOT_KNOWN {
                        "is not known to this Envoy"
                    } else {
                        "has no host"
                    };
                    let text = format!("aforo: no link to Redis: the cluster {cluster:?} {fault}");
                    calls::log(LogLevel::Error, &text);
                }
                self.worker.borrow_mut().open_failed(attempt, clock::now());
            }
        }
    }
}

/// The settled requests of one plugin.
impl Shared {
    /// What came of a request, with its stream as the effective context.
    fn conclude(&self, settled: Settled<Request>) -> Conclusion {
        let Settled {
            request,
            outcome,
            lease,
            took,
        } = settled;
        if let Some(lease) = lease {
            self.leases.borrow_mut().insert(request.id, lease);
        }
        match &outcome {
            Outcome::Verdict(verdict) => {
                stats::of_verdict(verdict).for_each(|stat| self.meter.add(stat, 1));
                self.meter
                    .record(Stat::RedisMicroseconds, took.0, &self.policy);
            }
            Outcome::Local(why, verdict) => {
                stats::of_verdict(verdict).for_each(|stat| self.meter.add(stat, 1));
                self.meter.add(Stat::Outage(why.label()), 1);
            }
            Outcome::Outage(why, _) => self.meter.add(Stat::Outage(why.label()), 1),
        }
        let silent = matches!(outcome, Outcome::Outage(..));
        let reason = decide::reason(&self.policy, &outcome, took);
        calls::set_property(REASON, reason.as_bytes());
        let reason = request.debug.then_some(reason);
        let circumstances = clock::circumstances(request.kind);
        let mut conclusion = decide::conclude(&self.policy, outcome, circumstances);
        match &mut conclusion {
            Conclusion::Forward(verdict) => {
                let verdict = verdict.take();
                if verdict.is_some() || reason.is_some() {
                    self.shown
                        .borrow_mut()
                        .insert(request.id, Shown { verdict, reason });
                }
            }
            Conclusion::Refuse(refusal) => {
                refusal
                    .headers
                    .extend(reason.map(|reason| (DEBUG_HEADER, reason)));
            }
        }
        self.meter.add(Stat::Pending, -1);
        if silent {
            let outcome = match conclusion {
                Conclusion::Forward(_) => stats::Outcome::OutageAllowed,
                Conclusion::Refuse(_) => stats::Outcome::OutageRefused,
            };
            self.meter.add(Stat::Request(outcome), 1);
        }
        conclusion
    }

    /// Answers a request that waits, from a callback that is not its own.
    fn answer(&self, settled: Settled<Request>) {
        // An error means that its client has gone and its stream with it.
        if calls::act_for(settled.request.id).is_err() {
            self.gone();
            if let Some(lease) = settled.lease {
                self.worker.borrow_mut().release(lease, clock::now());
            }
            return;
        }
        match self.conclude(settled) {
            Conclusion::Forward(_) => {
                let _ = calls::resume_request();
            }
            Conclusion::Refuse(refusal) => send(&refusal),
        }
    }

    /// What this stream's response shows; told once.
    pub fn shown(&self, id: u32) -> Option<Shown> {
        self.shown.borrow_mut().remove(&id)
    }

    /// A stream is over.
    pub fn ended(&self, id: u32, ticket: Option<Ticket>) {
        let Some(ticket) = ticket else { return };
        if self.worker.borrow_mut().forget(ticket, clock::now()) {
            self.gone();
        }
        self.shown.borrow_mut().remove(&id);
        if let Some(lease) = self.leases.borrow_mut().remove(&id) {
            self.worker.borrow_mut().release(lease, clock::now());
        }
        self.obey(Place::Stream(id));
    }

    /// A request's client left before the answer.
    fn gone(&self) {
        self.meter.add(Stat::Request(stats::Outcome::Gone), 1);
        self.meter.add(Stat::Pending, -1);
    }

    /// One line a change, never one a request.
    pub fn report(&self) {
        let events = self.worker.borrow_mut().events();
        for event in events {
            match event {
                Event::LinkUp => {
                    self.failing.set(false);
                    self.meter.add(Stat::Link(LinkEvent::Up), 1);
                    self.meter.add(Stat::LinksUp, 1);
                    calls::log(LogLevel::Info, "aforo: the link to Redis is up");
                }
                Event::LinkLost(why) => {
                    self.meter.add(Stat::Link(LinkEvent::Lost), 1);
                    self.meter.add(Stat::LinksUp, -1);
                    let text = format!("aforo: the link to Redis is lost: {}", why.label());
                    calls::log(LogLevel::Warn, &text);
                }
                Event::LinkFailed => {
                    self.meter.add(Stat::Link(LinkEvent::Failed), 1);
                    if !self.failing.replace(true) {
                        calls::log(LogLevel::Warn, "aforo: the link to Redis does not open");
                    }
                }
                Event::ScriptSent => self.meter.add(Stat::ScriptLoads, 1),
                Event::BreakerOpened(why) => {
                    self.meter.add(Stat::Breaker(BreakerEvent::Opened), 1);
                    self.meter.add(Stat::BreakersOpen, 1);
                    let hint = why
                        .configuration_fault()
                        .unwrap_or("trying again by itself");
                    let text = format!("aforo: Redis does not answer ({}): {hint}", why.label());
                    calls::log(LogLevel::Warn, &text);
                }
                Event::BreakerProbes => self.meter.add(Stat::Breaker(BreakerEvent::Probed), 1),
                Event::BreakerClosed => {
                    self.meter.add(Stat::Breaker(BreakerEvent::Closed), 1);
                    self.meter.add(Stat::BreakersOpen, -1);
                    calls::log(LogLevel::Info, "aforo: Redis answers again");
                }
            }
        }
    }
}

impl Place {
    /// The context whose callback this is.
    const fn id(self) -> u32 {
        match self {
            Self::Stream(id) | Self::Link(id) | Self::Root(id) => id,
        }
    }
}

/// Answers the request of the effective context.
pub fn send(refusal: &Refusal) {
    let headers: Vec<(&str, &str)> = refusal
        .headers
        .iter()
        .map(|(name, value)| (*name, value.as_str()))
        .collect();
    let status = refusal.status;
    let _ = calls::reply(
        status,
        refusal.details,
        &headers,
        &refusal.body,
        refusal.grpc_status,
    );
}
