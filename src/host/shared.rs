//! What the HTTP filter and the link of one plugin on one worker share, and how what the worker says is
//! carried out. No borrow of the worker is held across a host call: calls may come back nested.

use super::{
    calls::{self, LogLevel},
    clock,
    loaded::Loaded,
};
use crate::{
    decide::{self, Conclusion},
    outage::Silence,
    policy::Policy,
    redis::{gate::Attempt, link::Asked},
    reply::{DEBUG_HEADER, Refusal, RequestKind},
    stats::{self, BreakerEvent, LinkEvent, PolicyEvent, Stat},
    verdict::{Source, Verdict},
    worker::{Event, Lease, Outcome, Outgoing, Settled, Ticket, Worker},
};
use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    rc::{Rc, Weak},
    time::Duration,
};

/// Deadlines are looked at this often while something is under way, and not at all otherwise.
const TICK: Duration = Duration::from_millis(5);

/// So many requests are answered in one callback; the others in the next turn of the event loop. Envoy
/// carries out an answer after the callback in which it was given, and the response's own callback, inside
/// of that, then carries out the next one: each is a level deeper on the stack. With nothing but this
/// filter in the chain, V8 stops the VM at some 350 levels, and other filters make each level larger.
const ANSWERS_AT_ONCE: usize = 32;

thread_local! {
    /// The plugins of this VM by their root context's id, for links to find their worker.
    static PLUGINS: RefCell<HashMap<u32, Weak<Shared>>> = RefCell::new(HashMap::new());
}

/// The filter state that tells why: `%FILTER_STATE(wasm.aforo:PLAIN)%`.
pub const REASON: &str = "aforo";

/// A request as the worker knows it: enough to answer it from anywhere.
#[derive(Clone)]
pub struct Request {
    /// Its stream's context id.
    pub id: u32,
    /// The policy it began under.
    pub loaded: Rc<Loaded>,
    /// What kind of answer it understands.
    pub kind: RequestKind,
    /// Whether it showed the secret that opens the debug header.
    pub debug: bool,
}

/// What an allowed response will show.
pub struct Shown {
    /// The policy it began under.
    pub loaded: Rc<Loaded>,
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

/// What the log says already of a link that does not open. More is said only when there is more to say.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub enum Told {
    /// Nothing.
    Nothing,
    /// That it does not.
    Failure,
    /// That it will not until somebody mends something.
    Fault,
}

/// One plugin on one worker.
pub struct Shared {
    pub(super) root: u32,
    /// The configuration's own policy.
    pub(super) own: Rc<Loaded>,
    /// The policy in force.
    loaded: RefCell<Rc<Loaded>>,
    /// The requests under way.
    pub worker: RefCell<Worker<Request>>,
    /// What allowed responses will show, by stream.
    shown: RefCell<HashMap<u32, Shown>>,
    /// What streams hold until they end.
    leases: RefCell<HashMap<u32, Lease>>,
    /// The opening call under way, and its attempt.
    pub(super) opening: Cell<Option<(u32, Attempt)>>,
    /// The calls under way to a gateway, by token.
    pub(super) calls: RefCell<HashMap<u32, Asked>>,
    /// Whether Higress was told how to reach Redis.
    #[cfg(feature = "higress")]
    pub(super) introduced: Cell<bool>,
    /// Calls to be made in the root's next turn.
    pub(super) outgoing: RefCell<Vec<Outgoing>>,
    bell: u32,
    rung: Cell<bool>,
    ticking: Cell<bool>,
    unsettled: RefCell<Vec<Settled<Request>>>,
    /// What was said already of a link that does not open.
    pub(super) told: Cell<Told>,
    /// What the gauges of local keys and of commands in flight were last moved to.
    local_keys: Cell<i64>,
    in_flight: Cell<i64>,
    /// Whether a request came. Envoy starts plugins that never get one, on its main thread and to try
    /// a configuration, and not all of them end in an orderly way: they are no workers to count.
    in_use: Cell<bool>,
}

/// The plugin of this VM in which there is such a thing, and the thing.
pub fn find<T>(mut thing: impl FnMut(&Shared) -> Option<T>) -> Option<(Rc<Shared>, T)> {
    let plugins = PLUGINS.with_borrow(|plugins| plugins.values().cloned().collect::<Vec<_>>());
    let mut plugins = plugins.iter().filter_map(Weak::upgrade);
    plugins.find_map(|shared| thing(&shared).map(|thing| (Rc::clone(&shared), thing)))
}

/// The plugin with this root context, if it is in this VM.
pub fn of(root: u32) -> Option<Rc<Shared>> {
    PLUGINS.with_borrow(|plugins| plugins.get(&root)?.upgrade())
}

impl Drop for Shared {
    fn drop(&mut self) {
        let loaded = self.loaded();
        // Gauges count workers and keys that there are.
        if self.worker.get_mut().shadow() {
            loaded.count(Stat::ShadowSwitch, -1);
        }
        move_gauge(&loaded, Stat::LocalKeys, &self.local_keys, 0);
        move_gauge(&loaded, Stat::InFlight, &self.in_flight, 0);
        loaded.flush();
        if self.in_use.get() {
            loaded.in_force(false);
        }
        PLUGINS.with_borrow_mut(|plugins| plugins.remove(&self.root));
    }
}

impl Shared {
    /// Registers a plugin. `None` when the host gives no queue.
    pub fn new(root: u32, policy: Policy) -> Option<Rc<Self>> {
        // Unique to this root on this worker, so that its bell rings here and nowhere else.
        let name = format!("aforo-{root}-{:032x}", u128::from_le_bytes(clock::random()));
        let bell = calls::register_queue(&name).ok()?;
        let own = Rc::new(Loaded::new(policy, 0));
        let shared = Rc::new(Self {
            root,
            worker: RefCell::new(Worker::new(&own.policy, clock::random_u64())),
            loaded: RefCell::new(Rc::clone(&own)),
            own,
            shown: RefCell::default(),
            leases: RefCell::default(),
            opening: Cell::new(None),
            calls: RefCell::default(),
            #[cfg(feature = "higress")]
            introduced: Cell::new(false),
            outgoing: RefCell::default(),
            bell,
            rung: Cell::new(false),
            ticking: Cell::new(false),
            unsettled: RefCell::default(),
            told: Cell::new(Told::Nothing),
            local_keys: Cell::new(0),
            in_flight: Cell::new(0),
            in_use: Cell::new(false),
        });
        PLUGINS.with_borrow_mut(|plugins| plugins.insert(root, Rc::downgrade(&shared)));
        Some(shared)
    }

    /// A request came.
    pub fn used(&self) {
        if !self.in_use.replace(true) {
            self.loaded().in_force(true);
        }
    }

    /// The policy in force.
    pub fn loaded(&self) -> Rc<Loaded> {
        Rc::clone(&self.loaded.borrow())
    }

    /// Whether the switch is on, at a request that it would let pass. Policies that refuse everybody
    /// without asking Redis can be switched off too.
    pub fn shadow(&self, stream: u32) -> bool {
        let shadow = self.worker.borrow().shadow();
        self.look(stream);
        shadow
    }

    /// A request came that no limit is about. Policies that are about nothing can be replaced too.
    pub fn look_for_policy(&self, stream: u32) {
        if self.own.policy.control.policy {
            self.look(stream);
        }
    }

    fn look(&self, stream: u32) {
        let asked = self.worker.borrow_mut().look(clock::now());
        if asked {
            let _ = self.carry_out(Place::Stream(stream));
        }
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
        self.take_stock();
        if !self.worker.borrow().busy() {
            self.ticking.set(false);
            calls::tick_every(Duration::ZERO);
        }
    }

    /// Counts what is not an event, and hands over all counts.
    fn take_stock(&self) {
        let loaded = self.loaded();
        let mut worker = self.worker.borrow_mut();
        let count = |n: u64| i64::try_from(n).unwrap_or(i64::MAX);
        loaded.count(Stat::LateReplies, count(worker.take_late()));
        let (keys, (owed, _)) = (worker.local_keys(), worker.depth());
        move_gauge(&loaded, Stat::LocalKeys, &self.local_keys, keys);
        move_gauge(&loaded, Stat::InFlight, &self.in_flight, owed);
        loaded.flush();
    }

    /// Hands over what was counted, unless a tick will do so.
    pub fn count(&self, stat: Stat) {
        self.loaded().count(stat, 1);
        self.flush_if_idle();
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
        let (mut later, mut answered) = (Vec::new(), 0_usize);
        for one in settled {
            let prompt = match place {
                Place::Stream(id) => one.request.id == id,
                Place::Link(_) => matches!(one.outcome, Outcome::Verdict(_)),
                Place::Root(_) => true,
            };
            if prompt && place == Place::Stream(one.request.id) {
                own = Some(self.conclude(one));
            } else if prompt && answered < ANSWERS_AT_ONCE {
                answered = answered.saturating_add(1);
                self.answer(one);
            } else {
                later.push(one);
            }
        }
        if !later.is_empty() {
            self.unsettled.borrow_mut().append(&mut later);
            self.ring();
        }
        // Answers may have released leases of streams that are gone.
        self.obey(place);
        let _ = calls::act_for(place.id());
        self.flush_if_idle();
        own
    }

    /// Hands over what was counted, unless a tick will do so.
    fn flush_if_idle(&self) {
        if !self.ticking.get() {
            self.loaded().flush();
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
        let loaded = Rc::clone(&request.loaded);
        match &outcome {
            Outcome::Verdict(verdict) => {
                stats::of_verdict(verdict).for_each(|stat| loaded.count(stat, 1));
                if verdict.source == Source::Redis {
                    loaded.record(Stat::RedisMicroseconds, took.0);
                }
            }
            Outcome::Local(why, verdict) => {
                stats::of_verdict(verdict).for_each(|stat| loaded.count(stat, 1));
                loaded.count(Stat::Outage(why.label()), 1);
            }
            Outcome::Outage(why, _) => loaded.count(Stat::Outage(why.label()), 1),
        }
        let silent = matches!(outcome, Outcome::Outage(..));
        let reason = decide::reason(&loaded.policy, &outcome, took);
        calls::set_property(REASON, reason.as_bytes());
        let reason = request.debug.then_some(reason);
        let circumstances = clock::circumstances(request.kind);
        let mut conclusion = decide::conclude(&loaded.policy, outcome, circumstances);
        loaded.count(Stat::Pending, -1);
        if silent {
            let outcome = match conclusion {
                Conclusion::Forward(_) => stats::Outcome::OutageAllowed,
                Conclusion::Refuse(_) => stats::Outcome::OutageRefused,
            };
            loaded.count(Stat::Request(outcome), 1);
        }
        self.flush_if_old(&loaded);
        match &mut conclusion {
            Conclusion::Forward(verdict) => {
                let verdict = verdict.take();
                if verdict.is_some() || reason.is_some() {
                    let shown = Shown {
                        loaded,
                        verdict,
                        reason,
                    };
                    self.shown.borrow_mut().insert(request.id, shown);
                }
            }
            Conclusion::Refuse(refusal) => {
                let reason = reason.map(|reason| (DEBUG_HEADER, reason));
                refusal.headers.extend(reason);
            }
        }
        conclusion
    }

    /// Nobody hands over what is counted under a policy that is no longer in force.
    fn flush_if_old(&self, loaded: &Rc<Loaded>) {
        if !Rc::ptr_eq(loaded, &self.loaded.borrow()) {
            loaded.flush();
        }
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
        self.flush_if_idle();
    }

    /// A request's client left before the answer.
    fn gone(&self) {
        let loaded = self.loaded();
        loaded.count(Stat::Request(stats::Outcome::Gone), 1);
        loaded.count(Stat::Pending, -1);
    }

    /// Counts and tells what happened: one line a change, never one a request.
    pub fn report(&self) {
        let events = self.worker.borrow_mut().events();
        for event in events {
            let loaded = self.loaded();
            match event {
                Event::LinkUp => {
                    self.told.set(Told::Nothing);
                    loaded.count(Stat::Link(LinkEvent::Up), 1);
                    loaded.count(Stat::LinksUp, 1);
                    calls::log(LogLevel::Info, "aforo: the link to Redis is up");
                }
                Event::LinkLost(why) => {
                    loaded.count(Stat::Link(LinkEvent::Lost), 1);
                    loaded.count(Stat::LinksUp, -1);
                    let text = format!("aforo: the link to Redis is lost: {}", explained(why));
                    calls::log(LogLevel::Warn, &text);
                }
                Event::LinkFailed(why) => {
                    loaded.count(Stat::Link(LinkEvent::Failed), 1);
                    self.complain(why);
                }
                Event::ScriptSent => loaded.count(Stat::ScriptLoads, 1),
                Event::BreakerOpened(why) => {
                    loaded.count(Stat::Breaker(BreakerEvent::Opened), 1);
                    loaded.count(Stat::BreakersOpen, 1);
                    let text = format!("aforo: Redis does not answer: {}", explained(why));
                    calls::log(LogLevel::Warn, &text);
                }
                Event::BreakerProbes => loaded.count(Stat::Breaker(BreakerEvent::Probed), 1),
                Event::BreakerClosed => {
                    loaded.count(Stat::Breaker(BreakerEvent::Closed), 1);
                    loaded.count(Stat::BreakersOpen, -1);
                    calls::log(LogLevel::Info, "aforo: Redis answers again");
                }
                Event::Shadow(on) => {
                    loaded.count(Stat::ShadowSwitch, if on { 1 } else { -1 });
                    let state = if on { "on: nobody is refused" } else { "off" };
                    calls::log(
                        LogLevel::Warn,
                        &format!("aforo: the shadow switch is {state}"),
                    );
                }
                Event::Policy(number, text) => self.take_policy(number, &text),
                Event::OwnPolicy => self.put_in_force(Rc::clone(&self.own), 0),
            }
        }
    }

    /// Says why there is no link: once, and once more when it turns out to be a fault that only a
    /// person can mend.
    fn complain(&self, why: Silence) {
        let fault = if why.configuration_fault().is_some() {
            Told::Fault
        } else {
            Told::Failure
        };
        if self.told.get() < fault {
            self.told.set(fault);
            let text = format!("aforo: the link to Redis does not open: {}", explained(why));
            calls::log(LogLevel::Warn, &text);
        }
    }

    /// A pushed policy came.
    fn take_policy(&self, number: u64, text: &[u8]) {
        let refused = match Policy::from_json(text) {
            Ok((policy, _)) if policy.key_head == self.own.policy.key_head => {
                let policy = policy.under(&self.own.policy);
                return self.put_in_force(Rc::new(Loaded::new(policy, number)), number);
            }
            Ok(_) => "its prefix or domain is not the configuration's".to_owned(),
            Err(errors) => errors.to_string(),
        };
        self.worker.borrow_mut().refuse(number);
        self.loaded().count(Stat::Policy(PolicyEvent::Refused), 1);
        let text = format!("aforo: the pushed policy {number} is refused: {refused}");
        calls::log(LogLevel::Error, &text);
    }

    fn put_in_force(&self, next: Rc<Loaded>, number: u64) {
        let last = self.loaded.replace(Rc::clone(&next));
        last.flush();
        last.in_force(false);
        next.in_force(true);
        next.count(Stat::Policy(PolicyEvent::Loaded), 1);
        self.worker.borrow_mut().adopt(&next.policy, number);
        let text = match number {
            0 => "aforo: the configuration's own policy is in force".to_owned(),
            _ => format!("aforo: the pushed policy {number} is in force"),
        };
        calls::log(LogLevel::Info, &text);
    }
}

/// Moves a gauge that all workers share from what this one last said to what it says now.
fn move_gauge(loaded: &Loaded, stat: Stat, last: &Cell<i64>, now: usize) {
    let now = i64::try_from(now).unwrap_or(i64::MAX);
    loaded.count(stat, now.saturating_sub(last.replace(now)));
}

/// The reason, and what to do about it.
fn explained(why: Silence) -> String {
    let hint = why.configuration_fault();
    format!(
        "{}: {}",
        why.label(),
        hint.unwrap_or("trying again by itself")
    )
}

impl Place {
    /// The context whose callback this is.
    pub const fn id(self) -> u32 {
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
