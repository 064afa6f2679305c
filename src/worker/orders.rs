//! What a worker wants of its host, and what it tells it.

use crate::{
    outage::Silence,
    redis::{
        gate::{Attempt, Connection},
        gateway::Request,
        link::Asked,
    },
    units::Micros,
};

/// What the host must do, in this order.
#[derive(Debug, Default)]
pub struct Orders {
    /// Send these bytes into this connection. If that fails, say [`super::Worker::closed`].
    pub write: Option<(Connection, Vec<u8>)>,
    /// Close this connection; nothing more need be told.
    pub close: Option<Connection>,
    /// Open a connection under this number; if that fails, say [`super::Worker::open_failed`]. Only
    /// ever ordered by [`super::Worker::begin`].
    pub open: Option<Attempt>,
    /// Make these calls to the gateway. They do not wait for one another.
    pub calls: Vec<Outgoing>,
}

/// One call to be made. What comes of it is for [`super::Worker::answered`], whoever waits for it by
/// then; if it cannot be made, say [`super::Worker::call_failed`].
#[derive(Debug)]
pub struct Outgoing {
    /// Its number, never used twice.
    pub number: Asked,
    /// What is sent.
    pub request: Request,
    /// After how long the host may give it up. Whoever waits for it is settled before.
    pub timeout: Micros,
}

/// Something an operator may want to know of.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Event {
    /// A connection has brought its first good reply.
    LinkUp,
    /// That connection is gone, or was given up for this reason.
    LinkLost(Silence),
    /// No connection could be opened, or it ended for this reason before a good reply came, or no
    /// call could be made.
    LinkFailed(Silence),
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
    /// A pushed policy is here, by its number, to be taken or refused with
    /// [`super::Worker::adopt`] or [`super::Worker::refuse`].
    Policy(u64, Vec<u8>),
    /// No pushed policy is followed any more: [`super::Worker::adopt`] the configuration's own, as
    /// number 0.
    OwnPolicy,
}
