//! What Redis is told or asked though no request waits for it: give-backs, debts of this worker's
//! limiter, the control key.

use super::{Errand, Event, Lease, Part, Worker, follow::News, leases};
use crate::{
    claim::Claim,
    redis::script::{By, Call, Commands, Member, Mode},
    units::Moment,
};
use std::mem;

impl<R> Worker<R> {
    /// Gives back what a request took, one command a hash tag. Without a connection nothing is sent,
    /// and leases end by themselves at their lease time.
    pub fn release(&mut self, lease: Lease, now: Moment) {
        self.fallbacks.give(&lease.claims, lease.member, now);
        for part in self.parts(&lease.claims) {
            let claims = part.asked_for(&lease.claims).cloned().collect();
            let number = self.note_give(claims, lease.member);
            self.give(number, By::Sha, now);
        }
    }

    /// Gives up what a request asked, and gives back the leases that it may have taken without anybody
    /// knowing: never before the command that may yet take them has run, or was given up itself.
    pub(super) fn take_back(
        &mut self,
        claims: &[Claim],
        member: Member,
        parts: &[Part],
        now: Moment,
    ) {
        for part in parts {
            let Some(asked) = part.asked else { continue };
            let held = leases(part.asked_for(claims));
            if held.is_empty() {
                self.transport.abandon(asked);
                continue;
            }
            let number = self.note_give(held, member);
            let last = Errand::Last(number);
            if self.transport.succeed(asked, last).is_some() {
                self.give(number, By::Sha, now);
            }
        }
    }

    fn note_give(&mut self, claims: Vec<Claim>, member: Member) -> u64 {
        let number = self.number();
        self.gives.insert(number, Lease { claims, member });
        number
    }

    /// Sends a give-back.
    pub(super) fn give(&mut self, number: u64, by: By, now: Moment) {
        let Some(lease) = self.gives.get(&number) else {
            return;
        };
        if !self.transport.is_up() {
            return self.given(number);
        }
        let mut command = mem::take(&mut self.command);
        command.clear();
        let mode = Mode::Give;
        Call { mode, by }.write(&lease.claims, lease.member, &mut Commands(&mut command));
        let errand = Errand::Give(number, by);
        let deadline = self.transport.patience(now);
        let asked = self.transport.ask(errand, &command, deadline, now);
        self.command = command;
        if asked.is_err() {
            self.given(number);
        }
    }

    /// A give-back is over, whatever came of it.
    pub(super) fn given(&mut self, number: u64) {
        self.gives.remove(&number);
    }

    /// Tells Redis, just before it is asked for the same keys, what this worker admitted while it did
    /// not answer. So a client that had its share here does not find the whole limit there. Calls to a
    /// gateway may overtake one another: then it finds it once.
    pub(super) fn pay_debts(&mut self, ticket: super::Ticket, now: Moment) {
        let Some(waiting) = self.waiting.get(&ticket) else {
            return;
        };
        if !self.transport.is_up() {
            return;
        }
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
            let errand = Errand::Debt(number);
            let deadline = now.plus(self.timeout);
            if self.transport.ask(errand, &command, deadline, now).is_err() {
                self.paid(number, false);
            }
        }
    }

    /// Reads the control key when it is time. On a link its answer comes before that of the question
    /// that follows, so the very next verdict heeds it, that of a worker's first request included; a
    /// gateway's may be overtaken once.
    ///
    /// May order to open, and so runs in a stream's own callback. Returns whether it was asked.
    pub(super) fn read_control(&mut self, now: Moment) -> bool {
        let Some(command) = self.follow.due(now) else {
            return false;
        };
        let deadline = self.transport.patience(now);
        let asked = self
            .transport
            .ask(Errand::Control, &command, deadline, now)
            .is_ok();
        if !asked {
            self.follow.unasked();
        }
        asked
    }

    /// Something was read beside decisions.
    pub(super) fn heard(&mut self, (news, next): (News, Option<Vec<u8>>), now: Moment) {
        match news {
            News::Nothing => {}
            News::Shadow(on) => self.events.push(Event::Shadow(on)),
            News::Policy(number, text) => self.events.push(Event::Policy(number, text)),
            News::OwnPolicy => self.events.push(Event::OwnPolicy),
        }
        if let Some(command) = next
            && !self.ask_aside(Errand::Slice, &command, now)
        {
            // From the start, the next time the control key is read.
            let _nothing = self.follow.fetched(None);
        }
    }

    /// Asks something that no request waits for. `false`: it is not asked.
    fn ask_aside(&mut self, errand: Errand, command: &[u8], now: Moment) -> bool {
        let deadline = self.transport.patience(now);
        let up = self.transport.is_up();
        up && self.transport.ask(errand, command, deadline, now).is_ok()
    }

    /// Redis was told of a debt, or not.
    pub(super) fn paid(&mut self, number: u64, told: bool) {
        if let Some(key) = self.debts.remove(&number) {
            self.fallbacks.paid(&key, told);
        }
    }
}
