//! Carries out what the worker orders: bytes into the link, openings, calls to a gateway; and takes in
//! what came of an opening or a call.

use super::{
    calls::{self, BufferType, LogLevel, Refused},
    clock,
    shared::{Place, Shared, Told, find},
};
use crate::{
    policy::Link,
    redis::{gate::Attempt, gateway::MAX_BODY_BYTES, link::Asked},
    worker::Outgoing,
};
use std::time::Duration;

/// The host's status for a cluster that it does not know.
const NOT_KNOWN: u32 = 2;

/// An opening call ended, which means that its link failed or is gone.
fn opening_ended(token: u32) {
    let found = find(|shared| shared.opening.get().filter(|(call, _)| *call == token));
    let Some((shared, (_, attempt))) = found else {
        return;
    };
    shared.opening.set(None);
    shared
        .worker
        .borrow_mut()
        .open_failed(attempt, clock::now());
    shared.ring();
}

/// A call ended, of those that the root makes or an opening one. The answer's headers and body can be
/// read in this callback.
pub fn call_ended(token: u32, headers: usize, body_size: usize) {
    // Redis calls have tokens of their own, which mean others.
    let found = find(|shared| {
        let http = shared.own.policy.redis.link != Link::Higress;
        http.then(|| shared.calls.borrow_mut().remove(&token))?
    });
    let Some((shared, number)) = found else {
        return opening_ended(token);
    };
    // Without headers there is nothing to read: the call broke off.
    let (status, body) = match headers {
        0 => (None, Vec::new()),
        _ => {
            let (status, body) = calls::answer(body_size, MAX_BODY_BYTES.saturating_add(1));
            (Some(status), body)
        }
    };
    shared.answered(number, status, &body);
}

impl Shared {
    /// A call that the root made brought this.
    pub(super) fn answered(&self, number: Asked, status: Option<u16>, body: &[u8]) {
        self.worker
            .borrow_mut()
            .answered(number, status, body, clock::now());
        self.carry_out(Place::Root(self.root));
    }

    /// Opens, writes and closes as the worker says.
    pub(super) fn obey(&self, place: Place) {
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
        self.outgoing.borrow_mut().extend(orders.calls);
        match place {
            Place::Root(_) => self.call(),
            // An answer comes to the context that asked, or to nobody once that is gone. The root
            // outlives every stream, so it makes the calls, in the next turn of the event loop.
            Place::Stream(_) | Place::Link(_) if !self.outgoing.borrow().is_empty() => self.ring(),
            Place::Stream(_) | Place::Link(_) => {}
        }
    }

    /// Makes the calls that wait to be made, to a gateway or of the host's own kind.
    fn call(&self) {
        let redis = &self.own.policy.redis;
        for Outgoing {
            number,
            request,
            timeout,
        } in self.outgoing.take()
        {
            let timeout = Duration::from_micros(timeout.0);
            let call = match redis.link {
                #[cfg(feature = "higress")]
                Link::Higress => self.redis_call(&request.body),
                _ => calls::call(&redis.cluster, &request.headers, &request.body, timeout),
            };
            match call {
                Ok(token) => {
                    self.told.set(Told::Nothing);
                    self.calls.borrow_mut().insert(token, number);
                }
                Err(why) => {
                    self.no_cluster(why);
                    self.worker.borrow_mut().call_failed(number, clock::now());
                }
            }
        }
    }

    /// Opens a link. Its filter's callbacks may run inside this call.
    fn open(&self, attempt: Attempt) {
        let path = format!("/aforo/{}/{}", self.root, attempt.0);
        match calls::open_call(&self.own.policy.redis.cluster, &path) {
            Ok(token) => self.opening.set(Some((token, attempt))),
            Err(why) => {
                self.no_cluster(why);
                self.worker.borrow_mut().open_failed(attempt, clock::now());
            }
        }
    }

    /// Says once, until things change, that there is no way to Redis.
    fn no_cluster(&self, why: Refused) {
        if self.told.replace(Told::Fault) == Told::Fault {
            return;
        }
        let cluster = &self.own.policy.redis.cluster;
        let fault = if why.0 == NOT_KNOWN {
            "is not known to this Envoy"
        } else {
            "has no host"
        };
        let text = format!("aforo: no link to Redis: the cluster {cluster:?} {fault}");
        calls::log(LogLevel::Error, &text);
    }
}
