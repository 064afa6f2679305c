//! A policy in force, with its statistics. Requests keep the one they began with, so that a change of
//! policy never tells a client of a limit that it was not asked about.

use super::{
    calls::{self, MetricType},
    meter::Meter,
};
use crate::{
    policy::Policy,
    stats::{self, Stat},
};

/// See the module.
pub struct Loaded {
    /// What the operator wrote, checked.
    pub policy: Policy,
    meter: Meter,
    workers: Option<u32>,
}

impl Loaded {
    /// A policy by its number in Redis; 0 is the configuration's own.
    pub fn new(policy: Policy, number: u64) -> Self {
        let workers = calls::define_metric(MetricType::Gauge, &stats::policy_workers(number)).ok();
        Self {
            meter: Meter::new(&policy),
            policy,
            workers,
        }
    }

    /// Counts `by`, which for a gauge may be negative. Envoy knows at the next [`Loaded::flush`].
    pub fn count(&self, stat: Stat, by: i64) {
        self.meter.add(stat, by);
    }

    /// Records one value of a histogram.
    pub fn record(&self, stat: Stat, value: u64) {
        self.meter.record(stat, value, &self.policy);
    }

    /// Hands over what was counted.
    pub fn flush(&self) {
        self.meter.flush(&self.policy);
    }

    /// This worker goes by this policy from now on, or no longer.
    pub fn in_force(&self, yes: bool) {
        if let Some(gauge) = self.workers {
            calls::add_metric(gauge, if yes { 1 } else { -1 });
        }
    }
}
