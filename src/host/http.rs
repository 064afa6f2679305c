//! The HTTP filter: one stream.

use super::{
    calls::{self, Action, MapType},
    clock,
    shared::{self, Place, REASON, Request, Shared, Shown},
};
use crate::{
    decide::{self, Conclusion},
    policy::Policy,
    reply::{DEBUG_HEADER, Edit, RequestKind},
    request::Facts,
    rules::{self, Selection},
    stats::{LimitVerdict, Outcome, Stat},
    worker::Ticket,
};
use std::{cell::Cell, rc::Rc};

/// One request and its response.
pub struct Http {
    id: u32,
    /// `None` when the plugin has no configuration: in the build that does nothing.
    shared: Option<Rc<Shared>>,
    ticket: Cell<Option<Ticket>>,
}

impl Http {
    /// The stream with this context id.
    pub const fn new(id: u32, shared: Option<Rc<Shared>>) -> Self {
        Self {
            id,
            shared,
            ticket: Cell::new(None),
        }
    }

    fn carry_out(&self, conclusion: Option<Conclusion>) -> Action {
        match conclusion {
            None => Action::Pause,
            Some(Conclusion::Forward(_)) => Action::Continue,
            Some(Conclusion::Refuse(refusal)) => {
                shared::send(&refusal);
                Action::Pause
            }
        }
    }

    /// The stream is over.
    pub fn on_done(&self) {
        if let Some(shared) = &self.shared {
            shared.ended(self.id, self.ticket.take());
        }
    }

    /// Whether the request goes on, and if not yet, asks.
    pub fn on_request_headers(&self) -> Action {
        #[cfg(feature = "trap")]
        trap();
        let Some(shared) = self.shared.clone() else {
            return Action::Continue;
        };
        shared.used();
        let loaded = shared.loaded();
        let debug = debugs(&loaded.policy);
        let count = |limit, verdict| loaded.count(Stat::Limit(limit, verdict), 1);
        let mut would_deny = |limit| count(limit, LimitVerdict::WouldRefuse);
        match rules::select_and_tell(&loaded.policy, &RequestFacts, &mut would_deny) {
            Selection::Nothing => {
                shared.look_for_policy(self.id);
                shared.count(Stat::Request(Outcome::Unmatched));
                Action::Continue
            }
            // Under the switch a rule refuses nobody either.
            Selection::Deny { limit, .. } if shared.shadow(self.id) => {
                count(limit, LimitVerdict::WouldRefuse);
                shared.count(Stat::Request(Outcome::Allowed));
                Action::Continue
            }
            Selection::Deny { limit, .. } => {
                count(limit, LimitVerdict::Refused);
                shared.count(Stat::Request(Outcome::Denied));
                let reason = decide::denial_reason(&loaded.policy, limit);
                calls::set_property(REASON, reason.as_bytes());
                let conclusion = decide::deny(&loaded.policy, clock::circumstances(kind()));
                self.carry_out(Some(conclusion))
            }
            Selection::Claims(claims) => {
                loaded.count(Stat::Pending, 1);
                let request = Request {
                    id: self.id,
                    loaded,
                    kind: kind(),
                    debug,
                };
                let ticket = shared.worker.borrow_mut().begin(
                    request,
                    claims,
                    clock::random(),
                    clock::now(),
                );
                self.ticket.set(Some(ticket));
                let own = shared.carry_out(Place::Stream(self.id));
                self.carry_out(own)
            }
        }
    }

    /// Shows the client where it stands.
    pub fn on_response_headers(&self) {
        if let Some(shared) = &self.shared
            && let Some(Shown {
                loaded,
                verdict,
                reason,
            }) = shared.shown(self.id)
        {
            if let Some(reason) = reason {
                calls::set_header(MapType::Response, DEBUG_HEADER, &reason);
            }
            let Some(verdict) = verdict else {
                return;
            };
            let theirs = |name: &str| calls::header(MapType::Response, name);
            let status = theirs(":status")
                .and_then(|status| std::str::from_utf8(&status).ok()?.parse().ok())
                .unwrap_or(0);
            let now = clock::wall();
            for edit in decide::shown(&loaded.policy, &verdict, now, status, &theirs) {
                match edit {
                    Edit::Remove(name) => calls::remove_header(MapType::Response, name),
                    Edit::Set(name, value) => {
                        calls::set_header(MapType::Response, name, &value);
                    }
                }
            }
        }
    }
}

/// The facts of the request whose callback is running.
struct RequestFacts;

impl Facts for RequestFacts {
    fn header(&self, name: &str) -> Option<Vec<u8>> {
        if name.starts_with(':') {
            return calls::header(MapType::Request, name);
        }
        // The header map's own call gives the first line of a repeated header only; the attribute
        // joins all of them, so that a second line is not overlooked.
        self.property(&["request", "headers", name])
    }

    fn property(&self, path: &[&str]) -> Option<Vec<u8>> {
        calls::property(path.join("\0").as_bytes())
    }
}

fn kind() -> RequestKind {
    let header = |name| calls::header(MapType::Request, name);
    let method = header(":method").unwrap_or_default();
    RequestKind::of(&method, header("content-type").as_deref())
}

/// Whether the request shows the secret that opens the debug header. It is taken away, so that no
/// upstream sees it.
fn debugs(policy: &Policy) -> bool {
    let Some(secret) = &policy.reply.parts().debug else {
        return false;
    };
    let Some(value) = calls::header(MapType::Request, DEBUG_HEADER) else {
        return false;
    };
    calls::remove_header(MapType::Request, DEBUG_HEADER);
    secret.opens(&value)
}

/// The hidden switch of the test build `trap`: this request stops the VM.
#[cfg(feature = "trap")]
#[expect(clippy::panic, reason = "it is what this build is for")]
fn trap() {
    if calls::header(MapType::Request, "x-aforo-trap").is_some() {
        panic!("trapped as asked");
    }
}
