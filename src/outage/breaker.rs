//! The breaker: while Redis does not answer, requests are not made to wait for it.

use super::Silence;
use crate::units::{Micros, Moment};
use std::ops::RangeInclusive;

/// Accepted [`Parts::failures`].
pub const FAILURES: RangeInclusive<u32> = 1..=10_000;
/// Accepted [`Parts::failure_percent`].
pub const FAILURE_PERCENT: RangeInclusive<u32> = 1..=100;
/// Accepted [`Parts::window`].
pub const WINDOW: RangeInclusive<Micros> = Micros::from_millis(100)..=Micros::from_secs(60);
/// Accepted [`Parts::least_requests`].
pub const LEAST_REQUESTS: RangeInclusive<u32> = 1..=100_000;
/// Accepted [`Parts::retry`].
pub const RETRY: RangeInclusive<Micros> = Micros::from_millis(10)..=Micros::from_secs(60);

/// When the breaker opens, and how often it tries again. Checked.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Settings {
    parts: Parts,
}

/// The numbers of [`Settings`], not checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Parts {
    /// It opens after so many failures in a row.
    pub failures: u32,
    /// It opens when so many of a hundred that were asked within one window failed.
    pub failure_percent: u32,
    /// The window of that share.
    pub window: Micros,
    /// Fewer than so many asked in a window say nothing about a share.
    pub least_requests: u32,
    /// While open, one request tries again after so long.
    pub retry: Micros,
}

impl Default for Parts {
    /// Ten in a row, so that one dead shard of three opens it less than once in 50 000 requests; or
    /// half of a second's requests. Redis is back in use a quarter of a second after its return.
    fn default() -> Self {
        Self {
            failures: 10,
            failure_percent: 50,
            window: Micros::from_secs(1),
            least_requests: 20,
            retry: Micros::from_millis(250),
        }
    }
}

impl Settings {
    /// `None` when a number is out of its range.
    #[must_use]
    pub fn new(parts: Parts) -> Option<Self> {
        let holds = FAILURES.contains(&parts.failures)
            && FAILURE_PERCENT.contains(&parts.failure_percent)
            && WINDOW.contains(&parts.window)
            && LEAST_REQUESTS.contains(&parts.least_requests)
            && RETRY.contains(&parts.retry);
        holds.then_some(Self { parts })
    }

    /// The numbers.
    #[must_use]
    pub const fn parts(&self) -> &Parts {
        &self.parts
    }
}

/// Whether a request may ask Redis.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Admission {
    /// It may. What comes of it goes to [`Breaker::settle`] with this pass.
    Ask(Pass),
    /// It may, alone, to find out whether Redis is back. Likewise.
    Probe(Pass),
    /// It may not, and gets the outage answer at once: [`Silence::Skipped`].
    Skip,
}

/// Leave to ask once. One that is never settled does no harm.
#[derive(Debug, PartialEq, Eq)]
pub struct Pass {
    /// The term in which it was given; what comes of an older term says nothing about this one.
    term: u64,
}

/// The breaker changed. For one log line and one metric.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[must_use]
pub enum Change {
    /// It opened, lastly for this reason.
    Opened(Silence),
    /// Redis answers again.
    Closed,
}

/// What the breaker does now. Its number is the metric's value.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Position {
    /// Everybody asks.
    Closed = 0,
    /// One request is on its way to find out.
    Probing = 1,
    /// Nobody asks.
    Open = 2,
}

/// Opens when Redis keeps failing; while open, one request at a time tries it.
///
/// To drive it: [`admit`](Self::admit) for each request that would ask, then
/// [`settle`](Self::settle) with its pass and what came of it. A pass need not come back: a probe
/// that has not after [`Parts::retry`] counts as failed, and another is let through.
#[derive(Debug)]
pub struct Breaker {
    settings: Settings,
    state: State,
    term: u64,
}

#[derive(Debug)]
enum State {
    Closed { row: u32, window: Window },
    Open { retry_at: Moment, probing: bool },
}

/// What was settled since `start`.
#[derive(Clone, Copy, Debug, Default)]
struct Window {
    start: Moment,
    settled: u32,
    failed: u32,
}

impl Breaker {
    /// A closed breaker.
    #[must_use]
    pub fn new(settings: Settings) -> Self {
        Self {
            settings,
            state: State::closed(Moment(0)),
            term: 0,
        }
    }

    /// Whether a request may ask now.
    pub fn admit(&mut self, now: Moment) -> Admission {
        match &mut self.state {
            State::Closed { .. } => Admission::Ask(Pass { term: self.term }),
            State::Open { retry_at, .. } if *retry_at > now => Admission::Skip,
            State::Open { retry_at, probing } => {
                *retry_at = now.plus(self.settings.parts.retry);
                *probing = true;
                // A probe before this one that has not come back is given up.
                self.term = self.term.wrapping_add(1);
                Admission::Probe(Pass { term: self.term })
            }
        }
    }

    /// What came of a request that was admitted. An error that is only about that one call counts as
    /// an answer: Redis is there.
    pub fn settle(&mut self, pass: Pass, end: Result<(), Silence>, now: Moment) -> Option<Change> {
        if pass.term != self.term {
            return None;
        }
        let failure = end.err().filter(|silence| silence.is_of_redis());
        let parts = self.settings.parts;
        match (&mut self.state, failure) {
            (State::Closed { row, window }, failure) => {
                window.count(parts.window, failure.is_some(), now);
                *row = if failure.is_some() {
                    row.saturating_add(1)
                } else {
                    0
                };
                let opens = *row >= parts.failures
                    || window.is_over(parts.failure_percent, parts.least_requests);
                let silence = failure.filter(|_| opens)?;
                self.open(now);
                Some(Change::Opened(silence))
            }
            (State::Open { .. }, Some(_)) => {
                self.open(now);
                None
            }
            (State::Open { .. }, None) => {
                self.state = State::closed(now);
                self.term = self.term.wrapping_add(1);
                Some(Change::Closed)
            }
        }
    }

    /// What it does now.
    #[must_use]
    pub const fn position(&self) -> Position {
        match self.state {
            State::Closed { .. } => Position::Closed,
            State::Open { probing: true, .. } => Position::Probing,
            State::Open { probing: false, .. } => Position::Open,
        }
    }

    fn open(&mut self, now: Moment) {
        let retry_at = now.plus(self.settings.parts.retry);
        self.state = State::Open {
            retry_at,
            probing: false,
        };
        self.term = self.term.wrapping_add(1);
    }
}

impl State {
    const fn closed(now: Moment) -> Self {
        Self::Closed {
            row: 0,
            window: Window {
                start: now,
                settled: 0,
                failed: 0,
            },
        }
    }
}

impl Window {
    fn count(&mut self, span: Micros, failed: bool, now: Moment) {
        if now.since(self.start) >= span {
            *self = Self {
                start: now,
                ..Self::default()
            };
        }
        self.settled = self.settled.saturating_add(1);
        self.failed = self.failed.saturating_add(u32::from(failed));
    }

    fn is_over(self, percent: u32, least: u32) -> bool {
        let (settled, failed) = (u64::from(self.settled), u64::from(self.failed));
        let over = failed.saturating_mul(100) >= settled.saturating_mul(u64::from(percent));
        self.settled >= least && over
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::error::ErrorKind;
    use proptest::prelude::*;

    const DOWN: Result<(), Silence> = Err(Silence::TimedOut);

    fn breaker() -> Breaker {
        Breaker::new(Settings::default())
    }

    fn at(millis: u64) -> Moment {
        Moment(0).plus(Micros::from_millis(millis))
    }

    fn ask(breaker: &mut Breaker, now: Moment) -> Pass {
        match breaker.admit(now) {
            Admission::Ask(pass) => pass,
            other => panic!("{other:?}"),
        }
    }

    fn probe(breaker: &mut Breaker, now: Moment) -> Pass {
        match breaker.admit(now) {
            Admission::Probe(pass) => pass,
            other => panic!("{other:?}"),
        }
    }

    fn settle(breaker: &mut Breaker, end: Result<(), Silence>, now: Moment) -> Option<Change> {
        let pass = ask(breaker, now);
        breaker.settle(pass, end, now)
    }

    /// A breaker that opened at moment 0.
    fn open() -> Breaker {
        let mut breaker = breaker();
        for _ in 0..9 {
            assert_eq!(settle(&mut breaker, DOWN, at(0)), None);
        }
        let opened = Some(Change::Opened(Silence::TimedOut));
        assert_eq!(settle(&mut breaker, DOWN, at(0)), opened);
        breaker
    }

    #[test]
    fn b26_after_failures_in_a_row_nobody_waits_and_one_at_a_time_tries() {
        let mut breaker = open();
        assert_eq!(breaker.position(), Position::Open);
        assert_eq!(breaker.admit(at(249)), Admission::Skip);
        let pass = probe(&mut breaker, at(250));
        assert_eq!(breaker.admit(at(250)), Admission::Skip);
        assert_eq!(breaker.position(), Position::Probing);
        assert_eq!(breaker.settle(pass, DOWN, at(270)), None);
        assert_eq!(breaker.admit(at(519)), Admission::Skip);
        let pass = probe(&mut breaker, at(520));
        assert_eq!(breaker.settle(pass, Ok(()), at(521)), Some(Change::Closed));
        ask(&mut breaker, at(521));
    }

    #[test]
    fn one_answer_begins_the_row_anew() {
        let mut breaker = breaker();
        for n in 0..100 {
            let end = if n % 10 == 9 { Ok(()) } else { DOWN };
            // Too few in any window for a share.
            assert_eq!(settle(&mut breaker, end, at(n * 100)), None);
        }
    }

    #[test]
    fn half_of_a_windows_requests_open_it_if_they_are_enough() {
        let mut breaker = breaker();
        for n in 0..19 {
            let end = if n % 2 == 0 { DOWN } else { Ok(()) };
            assert_eq!(settle(&mut breaker, end, at(n)), None);
        }
        let opened = settle(&mut breaker, Err(Silence::Lost), at(19));
        assert_eq!(opened, Some(Change::Opened(Silence::Lost)));
    }

    #[test]
    fn a_probe_that_never_comes_back_does_not_wedge_it() {
        let mut breaker = open();
        let lost = probe(&mut breaker, at(250));
        assert_eq!(breaker.admit(at(499)), Admission::Skip);
        let second = probe(&mut breaker, at(500));
        assert_eq!(breaker.settle(lost, DOWN, at(501)), None, "it was given up");
        assert_eq!(
            breaker.settle(second, Ok(()), at(502)),
            Some(Change::Closed)
        );
    }

    #[test]
    fn who_asked_before_it_opened_neither_closes_nor_delays_it() {
        let mut breaker = breaker();
        let (early, late) = (ask(&mut breaker, at(0)), ask(&mut breaker, at(0)));
        for _ in 0..10 {
            let _ = settle(&mut breaker, DOWN, at(0));
        }
        assert_eq!(breaker.settle(early, Ok(()), at(1)), None);
        assert_eq!(breaker.position(), Position::Open);
        let pass = probe(&mut breaker, at(250));
        assert_eq!(breaker.settle(late, DOWN, at(250)), None);
        assert_eq!(breaker.position(), Position::Probing);
        assert_eq!(breaker.settle(pass, Ok(()), at(251)), Some(Change::Closed));
    }

    #[test]
    fn an_error_about_one_key_is_an_answer() {
        let mut breaker = breaker();
        for _ in 0..100 {
            let end = Err(Silence::Refused(ErrorKind::WrongType));
            assert_eq!(settle(&mut breaker, end, at(0)), None);
        }
        let mut breaker = open();
        let pass = probe(&mut breaker, at(250));
        let end = Err(Silence::Refused(ErrorKind::CrossSlot));
        assert_eq!(breaker.settle(pass, end, at(250)), Some(Change::Closed));
    }

    #[test]
    fn numbers_out_of_range_are_refused() {
        let parts = Parts::default();
        assert_eq!(Settings::new(parts), Some(Settings::default()));
        for parts in [
            Parts {
                failures: 0,
                ..parts
            },
            Parts {
                failure_percent: 101,
                ..parts
            },
            Parts {
                window: Micros(99_999),
                ..parts
            },
            Parts {
                least_requests: 0,
                ..parts
            },
            Parts {
                retry: Micros::from_secs(61),
                ..parts
            },
        ] {
            assert_eq!(Settings::new(parts), None);
        }
    }

    proptest! {
        /// Whatever comes back, late, twice as often, or never: once Redis answers, the breaker is
        /// closed after one retry span and one answer.
        #[test]
        fn it_always_finds_its_way_back(
            acts in proptest::collection::vec((0_u64..400, any::<bool>(), any::<bool>()), 0..200),
        ) {
            let (mut breaker, mut now, mut held) = (breaker(), at(0), Vec::new());
            for (millis, comes_back, fails) in acts {
                now = now.plus(Micros::from_millis(millis));
                let pass = match breaker.admit(now) {
                    Admission::Ask(pass) | Admission::Probe(pass) => pass,
                    Admission::Skip => continue,
                };
                held.push(pass);
                if comes_back {
                    let pass = held.remove(held.len() / 2);
                    let _ = breaker.settle(pass, if fails { DOWN } else { Ok(()) }, now);
                }
            }
            now = now.plus(Parts::default().retry);
            match breaker.admit(now) {
                Admission::Ask(_) => {}
                Admission::Probe(pass) => {
                    prop_assert_eq!(breaker.settle(pass, Ok(()), now), Some(Change::Closed));
                }
                Admission::Skip => prop_assert!(false, "it must try after a retry span"),
            }
            prop_assert_eq!(breaker.position(), Position::Closed);
        }
    }
}
