//! What was asked on one connection and not answered yet, in order.

use super::resp::{Reader, Value, Violation};
use crate::units::Moment;
use std::collections::VecDeque;

/// The questions on their way over one connection. Redis answers in order, so a reply belongs to the
/// oldest question.
///
/// To drive it: [`ask`](Self::ask) for each command just sent, [`receive`](Self::receive) for each
/// piece of bytes that came, [`expire`](Self::expire) at [`soonest`](Self::soonest),
/// [`close`](Self::close) once the connection is gone. A question that is given up keeps its place,
/// so that its late reply is dropped instead of reaching the next one. Every ticket that went in comes
/// out once: with a reply, from `expire`, from `abandon` or from `close`.
#[derive(Debug)]
pub struct Pipeline<T> {
    reader: Reader,
    slots: VecDeque<Slot<T>>,
    room: usize,
    /// Tickets among the slots.
    waiting: usize,
    /// Replies that came for nobody.
    late: u64,
    /// No deadline of a waiting ticket is before this. Means nothing while none waits.
    soonest: Option<Moment>,
}

#[derive(Debug)]
struct Slot<T> {
    /// Grows from slot to slot, not always by one.
    number: u64,
    asked: Moment,
    deadline: Moment,
    /// `None` once nobody waits for this reply.
    ticket: Option<T>,
}

impl<T> Pipeline<T> {
    /// An empty pipeline that holds at most `room` questions, abandoned ones included.
    #[must_use]
    pub fn new(room: usize) -> Self {
        Self {
            reader: Reader::new(),
            slots: VecDeque::new(),
            room,
            waiting: 0,
            late: 0,
            soonest: None,
        }
    }

    /// Notes a command that goes out now. `number` must be larger than that of every question before.
    ///
    /// # Errors
    /// Gives the ticket back when the pipeline is full; then the command must not be sent.
    pub fn ask(&mut self, number: u64, ticket: T, now: Moment, deadline: Moment) -> Result<(), T> {
        if self.slots.len() >= self.room {
            return Err(ticket);
        }
        self.slots.push_back(Slot {
            number,
            asked: now,
            deadline,
            ticket: Some(ticket),
        });
        self.waiting = self.waiting.saturating_add(1);
        self.soonest = Some(
            self.soonest
                .map_or(deadline, |soonest| soonest.min(deadline)),
        );
        Ok(())
    }

    /// Gives up one question. `None` when it has been answered or given up already.
    pub fn abandon(&mut self, number: u64) -> Option<T> {
        let at = self
            .slots
            .binary_search_by_key(&number, |slot| slot.number)
            .ok()?;
        let ticket = self.slots.get_mut(at)?.ticket.take()?;
        self.waiting = self.waiting.saturating_sub(1);
        Some(ticket)
    }

    /// Gives up every question whose deadline is `now` or earlier, and hands out their tickets.
    pub fn expire(&mut self, now: Moment, mut expired: impl FnMut(T)) {
        if self.soonest().is_none_or(|soonest| soonest > now) {
            return;
        }
        self.soonest = None;
        for slot in &mut self.slots {
            if slot.ticket.is_none() {
                continue;
            }
            if slot.deadline <= now {
                self.waiting = self.waiting.saturating_sub(1);
                if let Some(ticket) = slot.ticket.take() {
                    expired(ticket);
                }
            } else {
                let soonest = self.soonest.map_or(slot.deadline, |s| s.min(slot.deadline));
                self.soonest = Some(soonest);
            }
        }
    }

    /// Takes the bytes that came and hands out each whole reply with its ticket, in order. A reply to
    /// an abandoned question is dropped.
    ///
    /// # Errors
    /// When the bytes are no replies, or more replies than questions. Replies before the violation
    /// have been handed out; the connection must be closed, and the pipeline with it.
    pub fn receive(
        &mut self,
        mut bytes: &[u8],
        mut reply: impl FnMut(T, Value),
    ) -> Result<(), Violation> {
        while let Some(value) = self.reader.read(&mut bytes)? {
            let slot = self.slots.pop_front().ok_or(Violation::Unasked)?;
            match slot.ticket {
                Some(ticket) => {
                    self.waiting = self.waiting.saturating_sub(1);
                    reply(ticket, value);
                }
                None => self.late = self.late.saturating_add(1),
            }
        }
        if self.slots.is_empty() && self.reader.is_inside_a_reply() {
            return Err(Violation::Unasked);
        }
        Ok(())
    }

    /// Ends the pipeline: the tickets still waiting, oldest first.
    pub fn close(self) -> impl Iterator<Item = T> {
        self.slots.into_iter().filter_map(|slot| slot.ticket)
    }

    /// Questions not answered yet, abandoned ones included.
    #[must_use]
    pub fn depth(&self) -> usize {
        self.slots.len()
    }

    /// Replies that came after their question was given up, since the last call.
    pub fn take_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    /// Questions that somebody still waits for.
    #[must_use]
    pub fn waiting(&self) -> usize {
        self.waiting
    }

    /// When the oldest unanswered question was asked, abandoned or not.
    #[must_use]
    pub fn oldest(&self) -> Option<Moment> {
        self.slots.front().map(|slot| slot.asked)
    }

    /// When to call [`expire`](Self::expire) next: no deadline is earlier, though none need be then.
    #[must_use]
    pub fn soonest(&self) -> Option<Moment> {
        self.soonest.filter(|_| self.waiting > 0)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use proptest::prelude::*;

    fn asked(tickets: u64) -> Pipeline<u64> {
        let mut pipeline = Pipeline::new(100);
        for n in 0..tickets {
            pipeline.ask(n, n, Moment(0), Moment(10 + n)).unwrap();
        }
        pipeline
    }

    fn receive(pipeline: &mut Pipeline<u64>, bytes: &[u8]) -> Vec<(u64, Value)> {
        let mut replies = Vec::new();
        pipeline
            .receive(bytes, |ticket, value| replies.push((ticket, value)))
            .unwrap();
        replies
    }

    fn expire(pipeline: &mut Pipeline<u64>, now: u64) -> Vec<u64> {
        let mut expired = Vec::new();
        pipeline.expire(Moment(now), |ticket| expired.push(ticket));
        expired
    }

    #[test]
    fn b58_a_late_reply_reaches_nobody() {
        let mut pipeline = asked(3);
        assert_eq!(expire(&mut pipeline, 10), [0]);
        assert_eq!(pipeline.abandon(1), Some(1));
        assert_eq!(pipeline.abandon(1), None);
        assert_eq!((pipeline.depth(), pipeline.waiting()), (3, 1));
        assert_eq!(receive(&mut pipeline, b":100\r\n:101\r\n"), []);
        assert_eq!(
            receive(&mut pipeline, b":102\r\n"),
            [(2, Value::Integer(102))]
        );
        assert_eq!((pipeline.depth(), pipeline.soonest()), (0, None));
        assert_eq!((pipeline.take_late(), pipeline.take_late()), (2, 0));
    }

    #[test]
    fn deadlines_need_not_be_in_order() {
        let mut pipeline = Pipeline::new(9);
        for (n, deadline) in [50, 20, 70, 20].into_iter().enumerate() {
            pipeline
                .ask(n as u64, n as u64, Moment(0), Moment(deadline))
                .unwrap();
        }
        assert_eq!(pipeline.soonest(), Some(Moment(20)));
        assert!(expire(&mut pipeline, 19).is_empty());
        assert_eq!(expire(&mut pipeline, 20), [1, 3]);
        assert_eq!(pipeline.soonest(), Some(Moment(50)));
        assert_eq!(expire(&mut pipeline, 99), [0, 2]);
        assert_eq!((pipeline.soonest(), pipeline.depth()), (None, 4));
    }

    #[test]
    fn a_full_pipeline_gives_the_ticket_back() {
        let mut pipeline = Pipeline::new(1);
        assert_eq!(pipeline.ask(1, 'a', Moment(0), Moment(1)), Ok(()));
        assert_eq!(pipeline.abandon(1), Some('a'));
        assert_eq!(pipeline.ask(2, 'b', Moment(0), Moment(1)), Err('b'));
    }

    #[test]
    fn a_reply_nobody_asked_for_is_seen_at_its_first_byte() {
        let mut pipeline = asked(1);
        let mut replies = 0;
        let end = pipeline.receive(b":1\r\n-ERR max number", |_, _| replies += 1);
        assert_eq!((replies, end), (1, Err(Violation::Unasked)));
    }

    #[test]
    fn closing_hands_out_who_still_waits() {
        let mut pipeline = asked(3);
        pipeline.abandon(1);
        assert_eq!(pipeline.close().collect::<Vec<_>>(), [0, 2]);
    }

    #[derive(Clone, Debug)]
    enum Act {
        Ask(u64),
        Abandon(u64),
        Expire,
        Reply(usize),
    }

    proptest! {
        /// The server echoes the number it was asked. Whatever happens in between, a ticket only
        /// ever meets its own number, and leaves exactly once.
        #[test]
        fn every_ticket_leaves_once_and_only_with_its_own_reply(
            acts in proptest::collection::vec(prop_oneof![
                3 => (0_u64..20).prop_map(Act::Ask),
                1 => (0_u64..60).prop_map(Act::Abandon),
                1 => Just(Act::Expire),
                3 => (1_usize..40).prop_map(Act::Reply),
            ], 0..200),
        ) {
            let mut pipeline = Pipeline::new(8);
            let (mut wire, mut left, mut went_in) = (Vec::new(), Vec::new(), 0_u64);
            for (now, act) in acts.into_iter().enumerate() {
                let now = Moment(now as u64);
                match act {
                    Act::Ask(patience) => {
                        let deadline = now.plus(crate::units::Micros(patience));
                        match pipeline.ask(went_in, went_in, now, deadline) {
                            Ok(()) => wire.extend(format!(":{went_in}\r\n").into_bytes()),
                            Err(ticket) => left.push(ticket),
                        }
                        went_in += 1;
                    }
                    Act::Abandon(number) => left.extend(pipeline.abandon(number)),
                    Act::Expire => {
                        pipeline.expire(now, |ticket| left.push(ticket));
                        prop_assert!(pipeline.soonest().is_none_or(|soonest| soonest > now));
                    }
                    Act::Reply(bytes) => {
                        let bytes = wire.drain(..bytes.min(wire.len())).collect::<Vec<u8>>();
                        let mut replies = Vec::new();
                        let read = pipeline.receive(&bytes, |t, value| replies.push((t, value)));
                        prop_assert_eq!(read, Ok(()));
                        for (ticket, value) in replies {
                            prop_assert_eq!(value, Value::Integer(ticket as i64));
                            left.push(ticket);
                        }
                    }
                }
            }
            prop_assert!(pipeline.depth() <= 8);
            left.extend(pipeline.close());
            left.sort_unstable();
            prop_assert_eq!(left, (0..went_in).collect::<Vec<_>>());
        }
    }
}
