//! Where commands wait for a connection.

use crate::units::Moment;
use std::collections::VecDeque;

/// One command that waits for a connection.
#[derive(Debug, PartialEq, Eq)]
pub struct Guest<T> {
    /// Grows from guest to guest.
    pub number: u64,
    /// Whose command it is.
    pub ticket: T,
    /// When waiting is over.
    pub deadline: Moment,
    /// The command, ready to be sent.
    pub command: Vec<u8>,
}

/// The commands that came while no connection was up, oldest first, bounded in number and bytes.
///
/// To drive it: [`enter`](Self::enter) each, [`take_oldest`](Self::take_oldest) until it is empty once
/// there is a connection, [`expire`](Self::expire) at [`soonest`](Self::soonest).
#[derive(Debug)]
pub struct WaitingRoom<T> {
    guests: VecDeque<Guest<T>>,
    bytes: usize,
    most_guests: usize,
    most_bytes: usize,
}

impl<T> WaitingRoom<T> {
    /// An empty room for so many commands of so many bytes together.
    #[must_use]
    pub fn new(most_guests: usize, most_bytes: usize) -> Self {
        Self {
            guests: VecDeque::new(),
            bytes: 0,
            most_guests,
            most_bytes,
        }
    }

    /// Lets one in. Its number must be larger than all before.
    ///
    /// # Errors
    /// Gives the ticket back when there is no room.
    pub fn enter(&mut self, guest: Guest<T>) -> Result<(), T> {
        let bytes = self.bytes.saturating_add(guest.command.len());
        if self.guests.len() >= self.most_guests || bytes > self.most_bytes {
            return Err(guest.ticket);
        }
        self.bytes = bytes;
        self.guests.push_back(guest);
        Ok(())
    }

    /// Lets the oldest out.
    pub fn take_oldest(&mut self) -> Option<Guest<T>> {
        let guest = self.guests.pop_front()?;
        self.bytes = self.bytes.saturating_sub(guest.command.len());
        Some(guest)
    }

    /// Lets this one out. `None` when it is not here.
    pub fn abandon(&mut self, number: u64) -> Option<T> {
        let at = self
            .guests
            .binary_search_by_key(&number, |guest| guest.number)
            .ok()?;
        let guest = self.guests.remove(at)?;
        self.bytes = self.bytes.saturating_sub(guest.command.len());
        Some(guest.ticket)
    }

    /// Lets out, oldest first, everyone whose deadline is `now` or earlier.
    pub fn expire(&mut self, now: Moment, mut expired: impl FnMut(T)) {
        if self.soonest().is_none_or(|soonest| soonest > now) {
            return;
        }
        for _ in 0..self.guests.len() {
            let Some(guest) = self.take_oldest() else {
                return;
            };
            if guest.deadline <= now {
                expired(guest.ticket);
            } else {
                self.bytes = self.bytes.saturating_add(guest.command.len());
                self.guests.push_back(guest);
            }
        }
    }

    /// The earliest deadline of all.
    #[must_use]
    pub fn soonest(&self) -> Option<Moment> {
        self.guests.iter().map(|guest| guest.deadline).min()
    }

    /// How many wait.
    #[must_use]
    pub fn len(&self) -> usize {
        self.guests.len()
    }

    /// Whether nobody waits.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.guests.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn guest(number: u64, deadline: u64, bytes: usize) -> Guest<u64> {
        Guest {
            number,
            ticket: number,
            deadline: Moment(deadline),
            command: vec![0; bytes],
        }
    }

    fn leave(room: &mut WaitingRoom<u64>) -> Vec<u64> {
        std::iter::from_fn(|| room.take_oldest())
            .map(|guest| guest.ticket)
            .collect()
    }

    #[test]
    fn guests_leave_in_order_and_those_out_of_time_by_another_door() {
        let mut room = WaitingRoom::new(9, 100);
        for (number, deadline) in [(1, 30), (2, 10), (3, 20), (4, 40), (5, 10)] {
            room.enter(guest(number, deadline, 1)).unwrap();
        }
        assert_eq!(room.soonest(), Some(Moment(10)));
        let mut expired = Vec::new();
        room.expire(Moment(9), |ticket| expired.push(ticket));
        assert!(expired.is_empty());
        room.expire(Moment(19), |ticket| expired.push(ticket));
        assert_eq!(expired, [2, 5]);
        assert_eq!((room.abandon(3), room.abandon(3)), (Some(3), None));
        assert_eq!(leave(&mut room), [1, 4]);
        assert_eq!((room.soonest(), room.bytes), (None, 0));
    }

    #[test]
    fn the_room_is_bounded_in_guests_and_in_bytes() {
        let mut room = WaitingRoom::new(2, 100);
        assert_eq!(room.enter(guest(1, 1, 60)), Ok(()));
        assert_eq!(room.enter(guest(2, 1, 41)), Err(2));
        assert_eq!(room.enter(guest(3, 1, 40)), Ok(()));
        assert_eq!(room.enter(guest(4, 1, 0)), Err(4));
        room.take_oldest();
        assert_eq!(room.enter(guest(5, 1, 60)), Ok(()));
    }
}
