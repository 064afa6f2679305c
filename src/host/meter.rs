//! Envoy's statistics of one plugin on one worker.
//!
//! Counts are gathered in memory and handed over at the next tick, so that a request costs no host
//! call for them. Envoy adds up what the workers say.

use super::calls::{self, MetricType};
use crate::{
    policy::Policy,
    stats::{Kind, Stat},
};
use std::cell::RefCell;

/// Limits whose metrics exist from the start; those of further limits appear when they count.
const SHOWN_AT_ONCE: usize = 256;

/// See the module.
pub struct Meter {
    state: RefCell<State>,
}

struct State {
    ids: Vec<Option<u32>>,
    counts: Vec<i64>,
    dirty: Vec<Stat>,
}

impl Meter {
    /// Defines the metrics of a policy.
    pub fn new(policy: &Policy) -> Self {
        let places = Stat::all(policy.limits.len()).count();
        let meter = Self {
            state: RefCell::new(State {
                ids: vec![None; places],
                counts: vec![0; places],
                dirty: Vec::new(),
            }),
        };
        for stat in Stat::all(policy.limits.len().min(SHOWN_AT_ONCE)) {
            meter.id(stat, policy);
        }
        meter
    }

    /// Counts `by`, which for a gauge may be negative.
    pub fn add(&self, stat: Stat, by: i64) {
        let mut state = self.state.borrow_mut();
        let Some(count) = state.counts.get_mut(stat.index()) else {
            return;
        };
        let clean = *count == 0;
        *count = count.saturating_add(by);
        if clean {
            state.dirty.push(stat);
        }
    }

    /// Records one value of a histogram.
    pub fn record(&self, stat: Stat, value: u64, policy: &Policy) {
        if let Some(id) = self.id(stat, policy) {
            calls::record_metric(id, value);
        }
    }

    /// Hands over what was counted.
    pub fn flush(&self, policy: &Policy) {
        let dirty = std::mem::take(&mut self.state.borrow_mut().dirty);
        for stat in dirty {
            let count = {
                let mut state = self.state.borrow_mut();
                state.counts.get_mut(stat.index()).map_or(0, std::mem::take)
            };
            if count != 0
                && let Some(id) = self.id(stat, policy)
            {
                calls::add_metric(id, count);
            }
        }
    }

    /// Envoy's number for it, asked for once.
    fn id(&self, stat: Stat, policy: &Policy) -> Option<u32> {
        let known = self.state.borrow().ids.get(stat.index()).copied()?;
        if known.is_some() {
            return known;
        }
        let kind = match stat.kind() {
            Kind::Counter => MetricType::Counter,
            Kind::Gauge => MetricType::Gauge,
            Kind::Histogram => MetricType::Histogram,
        };
        let name = stat.name(&|limit| policy.limit_name(limit));
        let id = calls::define_metric(kind, &name).ok();
        if let Some(place) = self.state.borrow_mut().ids.get_mut(stat.index()) {
            *place = id;
        }
        id
    }
}
