//! `sliding-log` and `concurrency`: one entry a take, which counts for a span. Twin of
//! `lua/sliding_log.lua`.

use std::collections::VecDeque;

use super::{
    BadParameter, MAX_LOG_COST, MAX_LOG_COUNT, Parameters,
    token_bucket::ttl_ms,
    twin::{Look, Next, State},
};
use crate::{
    redis::script::Member,
    units::{Micros, Moment},
    verdict::Wait,
};

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct SlidingLog {
    /// Most units that count.
    pub quota: u64,
    /// The window, or the life of a lease.
    pub span: Micros,
}

impl SlidingLog {
    pub fn window(parameters: &Parameters) -> Result<Self, BadParameter> {
        Ok(Self {
            quota: parameters.count(MAX_LOG_COUNT)?,
            span: parameters.span()?,
        })
    }

    pub fn leases(parameters: &Parameters) -> Result<Self, BadParameter> {
        Ok(Self {
            quota: parameters.count(MAX_LOG_COUNT)?,
            span: parameters.lease()?,
        })
    }

    pub fn look(&self, old: Option<&State>, cost: u64, now: Moment) -> Look {
        let log = match old {
            Some(State::Log(log)) => log,
            _ => &Log::default(),
        };
        let (_, stale) = self.stale(log, now);
        let live = log.units.saturating_sub(stale);
        let room = self.quota.saturating_sub(live);
        // An entry from the future counts as one of now.
        let left = |at: Moment| at.plus(self.span).since(now).min(self.span);
        let newest = log.entries.back().filter(|_| live > 0);
        let reset = newest.map_or(Micros::ZERO, |newest| left(newest.at));
        let wait = if cost > self.quota || cost > MAX_LOG_COST {
            Wait::Never
        } else if cost <= room {
            Wait::For(Micros::ZERO)
        } else {
            // The entry with which enough units will have gone.
            let mut excess = log.units.saturating_add(cost).saturating_sub(self.quota);
            let last = log.entries.iter().find(|entry| {
                excess = excess.saturating_sub(entry.units);
                excess == 0
            });
            Wait::For(last.map_or(Micros::ZERO, |entry| left(entry.at)))
        };
        Look {
            room,
            wait,
            reset,
            later: self.span,
            next: Next::Entries,
            ttl_ms: ttl_ms(self.span),
            mends: cost > room && newest.is_some_and(|newest| newest.at > now),
        }
    }

    /// Adds an entry, and sweeps what no longer counts as the script does: once there is enough of
    /// it, and some at a time.
    pub fn take(&self, log: &mut Log, units: u64, member: Member, now: Moment) {
        let (_, stale) = self.stale(log, now);
        log.insert(Entry {
            at: now,
            units,
            member,
        });
        if stale >= 64 || stale.saturating_mul(8) >= self.quota {
            log.sweep(stale.min(1_000));
        }
    }

    /// How many entries, and how many units, no longer count.
    fn stale(&self, log: &Log, now: Moment) -> (usize, u64) {
        let gone = log
            .entries
            .iter()
            .take_while(|entry| entry.at.plus(self.span) <= now);
        gone.fold((0, 0), |(n, units), entry| {
            (n.saturating_add(1), entry.units.saturating_add(units))
        })
    }
}

/// What was taken, in the order of moments.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Log {
    entries: VecDeque<Entry>,
    units: u64,
}

#[derive(Clone, Debug, PartialEq, Eq)]
struct Entry {
    at: Moment,
    units: u64,
    member: Member,
}

impl Log {
    /// How many entries are kept.
    pub fn len(&self) -> usize {
        self.entries.len()
    }

    /// Takes back what that member took; nothing when it is not there.
    pub fn give(&mut self, cost: u64, member: Member) {
        let Some(place) = self
            .entries
            .iter()
            .rposition(|entry| entry.member == member)
        else {
            return;
        };
        let Some(entry) = self.entries.get_mut(place) else {
            return;
        };
        let back = cost.min(MAX_LOG_COST).min(entry.units);
        entry.units = entry.units.saturating_sub(back);
        self.units = self.units.saturating_sub(back);
        if entry.units == 0 {
            self.entries.remove(place);
        }
    }

    /// Pulls entries from the future back to now.
    pub fn mend(&mut self, now: Moment) {
        self.entries
            .iter_mut()
            .for_each(|entry| entry.at = entry.at.min(now));
    }

    fn insert(&mut self, entry: Entry) {
        let place = self.entries.partition_point(|other| other.at <= entry.at);
        self.units = self.units.saturating_add(entry.units);
        self.entries.insert(place, entry);
    }

    /// Drops the oldest units.
    fn sweep(&mut self, units: u64) {
        let mut left = units;
        while let Some(oldest) = self.entries.front_mut() {
            let some = left.min(oldest.units);
            left = left.saturating_sub(some);
            oldest.units = oldest.units.saturating_sub(some);
            self.units = self.units.saturating_sub(some);
            if oldest.units > 0 {
                break;
            }
            self.entries.pop_front();
        }
    }
}
