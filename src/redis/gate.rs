//! When a connection may be opened, and which one counts.

use crate::units::{Micros, Moment};

/// One try to open a connection. Numbers only grow, so an old one is known as old.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Attempt(pub u64);

/// A connection, by whatever number the host knows it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub struct Connection(pub u32);

/// How long to wait for a connection, and between attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Pace {
    /// From the start of an attempt until it has failed, a greeting included.
    pub opening: Micros,
    /// The longest wait after the first failure in a row; it doubles with each further one.
    pub first: Micros,
    /// The longest wait of all.
    pub longest: Micros,
}

impl Default for Pace {
    fn default() -> Self {
        Self {
            opening: Micros::from_millis(100),
            first: Micros::from_millis(20),
            longest: Micros::from_millis(500),
        }
    }
}

/// What to do about a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Want {
    /// This one is up.
    Use(Connection),
    /// Start this attempt now.
    Start(Attempt),
    /// One is being opened.
    Wait,
    /// The last ones failed; none before this moment.
    NotBefore(Moment),
}

/// Opens one connection at a time, and backs off when that fails.
///
/// To drive it: [`want`](Self::want) whenever a connection is needed, then tell what became of the
/// attempt: [`opened`](Self::opened), or [`failed`](Self::failed), or nothing, which
/// [`check`](Self::check) finds out at [`deadline`](Self::deadline). Then [`greeted`](Self::greeted)
/// if it had to greet, [`proven`](Self::proven) at its first good reply, and
/// [`closed`](Self::closed). A connection that closes before it was proven counts as a failed
/// attempt: behind a proxy a dead server looks like that. What is told about any other connection or
/// attempt than the current one is ignored.
#[derive(Debug)]
pub struct Gate {
    pace: Pace,
    state: State,
    attempts: u64,
    /// Failures since the last proven connection.
    failures: u32,
    random: u64,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum State {
    Closed {
        not_before: Moment,
    },
    Opening {
        attempt: Attempt,
        deadline: Moment,
    },
    Greeting {
        connection: Connection,
        deadline: Moment,
    },
    Up {
        connection: Connection,
        proven: bool,
    },
}

impl Gate {
    /// A gate that may open at once. `seed`, any number, spreads the waits of many workers.
    #[must_use]
    pub fn new(pace: Pace, seed: u64) -> Self {
        let state = State::Closed {
            not_before: Moment(0),
        };
        Self {
            pace,
            state,
            attempts: 0,
            failures: 0,
            random: seed,
        }
    }

    /// What to do for a request that needs a connection now.
    pub fn want(&mut self, now: Moment) -> Want {
        if self.deadline().is_some_and(|deadline| deadline <= now) {
            // Nobody called `check` in time. A connection that still greets is told so by it.
            if matches!(self.state, State::Opening { .. }) {
                self.back_off(now);
            }
        }
        match self.state {
            State::Up { connection, .. } => Want::Use(connection),
            State::Opening { .. } | State::Greeting { .. } => Want::Wait,
            State::Closed { not_before } if not_before > now => Want::NotBefore(not_before),
            State::Closed { .. } => {
                self.attempts = self.attempts.saturating_add(1);
                let attempt = Attempt(self.attempts);
                let deadline = now.plus(self.pace.opening);
                self.state = State::Opening { attempt, deadline };
                Want::Start(attempt)
            }
        }
    }

    /// A connection reports that it is there, for this attempt. `false`: the attempt is no longer the
    /// current one, and the connection must close.
    #[must_use]
    pub fn opened(&mut self, attempt: Attempt, connection: Connection, must_greet: bool) -> bool {
        match self.state {
            State::Opening {
                attempt: current,
                deadline,
            } if current == attempt => {
                self.state = if must_greet {
                    State::Greeting {
                        connection,
                        deadline,
                    }
                } else {
                    State::Up {
                        connection,
                        proven: false,
                    }
                };
                true
            }
            _ => false,
        }
    }

    /// The greeting was accepted.
    pub fn greeted(&mut self, connection: Connection) {
        if matches!(self.state, State::Greeting { connection: c, .. } if c == connection) {
            self.state = State::Up {
                connection,
                proven: false,
            };
        }
    }

    /// The connection has brought a good reply: if it closes, another may be opened at once.
    pub fn proven(&mut self, connection: Connection) {
        if self.is_up(connection) {
            self.state = State::Up {
                connection,
                proven: true,
            };
            self.failures = 0;
        }
    }

    /// The attempt came to nothing. `false`: it was not the current one.
    pub fn failed(&mut self, attempt: Attempt, now: Moment) -> bool {
        let current = matches!(self.state, State::Opening { attempt: a, .. } if a == attempt);
        if current {
            self.back_off(now);
        }
        current
    }

    /// The connection is gone, or is not to be used any more. `false`: it was not the current one.
    pub fn closed(&mut self, connection: Connection, now: Moment) -> bool {
        match self.state {
            State::Up {
                connection: c,
                proven: true,
            } if c == connection => {
                self.state = State::Closed { not_before: now };
                true
            }
            _ if self.is_current(connection) => {
                self.back_off(now);
                true
            }
            _ => false,
        }
    }

    /// Ends an attempt whose deadline has passed. `Some` if it did; inside, the connection that had
    /// come up, had not finished its greeting, and must close.
    pub fn check(&mut self, now: Moment) -> Option<Option<Connection>> {
        self.deadline().filter(|deadline| *deadline <= now)?;
        let connection = self.current();
        self.back_off(now);
        Some(connection)
    }

    /// When to call [`check`](Self::check). `None` when nothing is being opened.
    #[must_use]
    pub fn deadline(&self) -> Option<Moment> {
        match self.state {
            State::Opening { deadline, .. } | State::Greeting { deadline, .. } => Some(deadline),
            State::Closed { .. } | State::Up { .. } => None,
        }
    }

    /// The connection that counts, be it up or greeting.
    #[must_use]
    pub fn current(&self) -> Option<Connection> {
        match self.state {
            State::Greeting { connection, .. } | State::Up { connection, .. } => Some(connection),
            State::Closed { .. } | State::Opening { .. } => None,
        }
    }

    /// Whether this connection is the one that counts, be it up or greeting.
    #[must_use]
    pub fn is_current(&self, connection: Connection) -> bool {
        self.current() == Some(connection)
    }

    /// Whether this connection may be asked.
    #[must_use]
    pub fn is_up(&self, connection: Connection) -> bool {
        matches!(self.state, State::Up { connection: c, .. } if c == connection)
    }

    /// Whether the connection that counts has brought a good reply.
    #[must_use]
    pub fn is_proven(&self) -> bool {
        matches!(self.state, State::Up { proven: true, .. })
    }

    /// Failures in a row, since the last proven connection.
    #[must_use]
    pub fn failures(&self) -> u32 {
        self.failures
    }

    fn back_off(&mut self, now: Moment) {
        let doublings = self.failures.min(63);
        self.failures = self.failures.saturating_add(1);
        let factor = 1_u64.checked_shl(doublings).unwrap_or(u64::MAX);
        let longest = self
            .pace
            .first
            .0
            .saturating_mul(factor)
            .min(self.pace.longest.0);
        // Between half of it and all of it.
        let jitter = self
            .draw()
            .checked_rem((longest / 2).saturating_add(1))
            .unwrap_or(0);
        let wait = Micros(longest.saturating_sub(jitter));
        self.state = State::Closed {
            not_before: now.plus(wait),
        };
    }

    /// The next number of splitmix64.
    fn draw(&mut self) -> u64 {
        self.random = self.random.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let mut z = self.random;
        z = (z ^ (z >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ONE: Connection = Connection(1);
    const TWO: Connection = Connection(2);

    fn gate() -> Gate {
        Gate::new(Pace::default(), 7)
    }

    /// Fails the next attempt as early as it may be started; the wait that follows.
    fn wait_after_failure(gate: &mut Gate, now: &mut Moment) -> Micros {
        let attempt = loop {
            match gate.want(*now) {
                Want::Start(attempt) => break attempt,
                Want::NotBefore(moment) => *now = moment,
                other => panic!("{other:?}"),
            }
        };
        assert!(gate.failed(attempt, *now));
        match gate.want(*now) {
            Want::NotBefore(moment) => moment.since(*now),
            other => panic!("{other:?}"),
        }
    }

    #[test]
    fn one_attempt_at_a_time_and_then_one_connection() {
        let mut gate = gate();
        assert_eq!(gate.want(Moment(0)), Want::Start(Attempt(1)));
        assert_eq!(gate.want(Moment(1)), Want::Wait);
        assert!(gate.opened(Attempt(1), ONE, false));
        assert_eq!(gate.want(Moment(2)), Want::Use(ONE));
        assert!(
            !gate.opened(Attempt(1), TWO, false),
            "an attempt opens one connection"
        );
        assert!(!gate.closed(TWO, Moment(3)));
        assert_eq!(gate.want(Moment(4)), Want::Use(ONE));
    }

    #[test]
    fn failures_wait_twice_as_long_each_time_up_to_the_longest_with_jitter() {
        let (mut gate, mut now) = (gate(), Moment(0));
        let bounds = [20, 40, 80, 160, 320, 500, 500, 500].map(Micros::from_millis);
        for longest in bounds {
            let wait = wait_after_failure(&mut gate, &mut now);
            assert!(
                wait <= longest && wait.0 >= longest.0 / 2,
                "{wait} of {longest}"
            );
        }
        let waits: Vec<_> = (0..9)
            .map(|_| wait_after_failure(&mut gate, &mut now))
            .collect();
        assert!(
            waits.windows(2).any(|pair| pair[0] != pair[1]),
            "no jitter: {waits:?}"
        );
    }

    #[test]
    fn an_attempt_that_never_reports_ends_at_its_deadline_and_is_stale_after() {
        let mut gate = gate();
        assert_eq!(gate.want(Moment(0)), Want::Start(Attempt(1)));
        let deadline = gate.deadline().unwrap();
        assert_eq!(gate.check(Moment(deadline.0 - 1)), None);
        assert_eq!(gate.check(deadline), Some(None));
        assert!(matches!(gate.want(deadline), Want::NotBefore(_)));
        assert!(!gate.opened(Attempt(1), ONE, false));
        assert!(!gate.failed(Attempt(1), deadline));
        // The same without anybody calling `check`.
        let mut gate = Gate::new(Pace::default(), 1);
        let _ = gate.want(Moment(0));
        assert!(matches!(gate.want(deadline), Want::NotBefore(_)));
    }

    #[test]
    fn a_proven_connection_that_closes_is_replaced_at_once_and_an_unproven_one_is_not() {
        let (mut gate, mut now) = (gate(), Moment(0));
        for _ in 0..5 {
            wait_after_failure(&mut gate, &mut now);
        }
        now = now.plus(Micros::from_secs(1));
        let Want::Start(attempt) = gate.want(now) else {
            panic!()
        };
        assert!(gate.opened(attempt, ONE, false));
        gate.proven(ONE);
        assert!(gate.closed(ONE, now));
        let Want::Start(attempt) = gate.want(now) else {
            panic!("must open at once")
        };
        assert!(gate.opened(attempt, TWO, false));
        assert!(gate.closed(TWO, now));
        assert!(matches!(gate.want(now), Want::NotBefore(_)));
        assert_eq!(
            gate.failures(),
            1,
            "a proven connection clears the failures before it"
        );
    }

    #[test]
    fn a_greeting_has_the_deadline_of_its_attempt() {
        let mut gate = gate();
        assert_eq!(gate.want(Moment(0)), Want::Start(Attempt(1)));
        let deadline = gate.deadline().unwrap();
        assert!(gate.opened(Attempt(1), ONE, true));
        assert_eq!(gate.want(Moment(1)), Want::Wait);
        assert_eq!(gate.deadline(), Some(deadline));
        assert_eq!(gate.check(deadline), Some(Some(ONE)));

        let start = deadline.plus(Micros::from_secs(1));
        let Want::Start(attempt) = gate.want(start) else {
            panic!()
        };
        assert!(gate.opened(attempt, TWO, true));
        gate.greeted(ONE);
        assert_eq!(gate.want(start), Want::Wait);
        gate.greeted(TWO);
        assert_eq!((gate.want(start), gate.deadline()), (Want::Use(TWO), None));
    }
}
