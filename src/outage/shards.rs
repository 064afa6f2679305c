//! One breaker for one Redis; in a Redis Cluster one for each range of slots, so that a dead master does
//! not keep the clients of the others from being decided.
//!
//! The filter does not know which master serves which slots, and need not: masters hold ranges of slots,
//! so most of the ranges here belong to one of them.

use super::{
    Silence,
    breaker::{Admission, Breaker, Change, Pass, Settings},
};
use crate::units::Moment;

/// Ranges that the slots of a cluster are cut into: enough that a master holds whole ones, few enough that
/// all breakers together open soon when all of Redis is gone.
const RANGES: usize = 16;
/// Slots of every Redis Cluster.
const SLOTS: usize = 16_384;

/// The breakers of one worker. Driven like a [`Breaker`], with the tag of the keys that are asked for.
#[derive(Debug)]
pub struct Breakers {
    each: Vec<Breaker>,
    open: usize,
}

/// Leave to ask for the keys of one tag.
#[derive(Debug, PartialEq, Eq)]
pub struct ShardPass {
    range: usize,
    pass: Pass,
}

/// Whether the keys of one tag may be asked for; as [`Admission`].
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum ShardAdmission {
    /// They may.
    Ask(ShardPass),
    /// They may, to find out whether their Redis is back.
    Probe(ShardPass),
    /// They may not.
    Skip,
}

impl Breakers {
    /// Closed breakers: one, or those of a cluster.
    #[must_use]
    pub fn new(settings: Settings, cluster: bool) -> Self {
        let number = if cluster { RANGES } else { 1 };
        Self {
            each: (0..number).map(|_| Breaker::new(settings)).collect(),
            open: 0,
        }
    }

    /// Whether keys of this tag may be asked for now.
    pub fn admit(&mut self, tag: &str, now: Moment) -> ShardAdmission {
        let range = self.range_of(tag);
        match self.each.get_mut(range).map(|breaker| breaker.admit(now)) {
            Some(Admission::Ask(pass)) => ShardAdmission::Ask(ShardPass { range, pass }),
            Some(Admission::Probe(pass)) => ShardAdmission::Probe(ShardPass { range, pass }),
            Some(Admission::Skip) | None => ShardAdmission::Skip,
        }
    }

    /// What came of it. A change is told when the first of all breakers opens and when the last closes: to
    /// an operator they are one.
    pub fn settle(
        &mut self,
        pass: ShardPass,
        end: Result<(), Silence>,
        now: Moment,
    ) -> Option<Change> {
        let change = self.each.get_mut(pass.range)?.settle(pass.pass, end, now)?;
        match change {
            Change::Opened(_) => {
                self.open = self.open.saturating_add(1);
                (self.open == 1).then_some(change)
            }
            Change::Closed => {
                self.open = self.open.saturating_sub(1);
                (self.open == 0).then_some(change)
            }
        }
    }

    fn range_of(&self, tag: &str) -> usize {
        if self.each.len() < 2 {
            return 0;
        }
        usize::from(slot(tag.as_bytes()))
            .saturating_mul(self.each.len())
            .checked_div(SLOTS)
            .unwrap_or(0)
    }
}

/// The slot of a hash tag: CRC-16 with the polynomial 0x1021 and nothing else done to it, of which a cluster
/// uses the lower 14 bits.
#[must_use]
pub fn slot(tag: &[u8]) -> u16 {
    let crc = tag.iter().fold(0_u16, |crc, byte| {
        (0..8).fold(crc ^ (u16::from(*byte) << 8), |crc, _| {
            let shifted = crc << 1;
            if crc & 0x8000 == 0 {
                shifted
            } else {
                shifted ^ 0x1021
            }
        })
    });
    crc & 0x3FFF
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::error::ErrorKind;

    const DOWN: Result<(), Silence> = Err(Silence::Refused(ErrorKind::UpstreamFailure));
    const NOW: Moment = Moment(0);

    /// Asks for this tag so many times, with the same end each time.
    fn ask(
        breakers: &mut Breakers,
        tag: &str,
        times: usize,
        end: Result<(), Silence>,
    ) -> Vec<Change> {
        let mut changes = Vec::new();
        for _ in 0..times {
            if let ShardAdmission::Ask(pass) | ShardAdmission::Probe(pass) =
                breakers.admit(tag, NOW)
            {
                changes.extend(breakers.settle(pass, end, NOW));
            }
        }
        changes
    }

    fn skips(breakers: &mut Breakers, tag: &str) -> bool {
        breakers.admit(tag, NOW) == ShardAdmission::Skip
    }

    #[test]
    fn slots_are_those_that_redis_computes() {
        // What CLUSTER KEYSLOT says; the first is the check value of this CRC, without its upper bits.
        for (tag, expected) in [
            ("123456789", 0x31C3),
            ("", 0),
            ("foo", 12_182),
            ("user1000", 3_443),
        ] {
            assert_eq!(slot(tag.as_bytes()), expected, "{tag:?}");
        }
    }

    #[test]
    fn in_a_cluster_a_dead_master_does_not_stop_the_clients_of_the_others() {
        let mut breakers = Breakers::new(Settings::default(), true);
        // Slots 12 182 and 3 443.
        let opened = ask(&mut breakers, "foo", 10, DOWN);
        assert_eq!(opened.len(), 1);
        assert!(skips(&mut breakers, "foo"));
        assert!(!skips(&mut breakers, "user1000"));
    }

    #[test]
    fn the_first_to_open_and_the_last_to_close_are_told() {
        let mut breakers = Breakers::new(Settings::default(), true);
        let opened = ask(&mut breakers, "foo", 10, DOWN);
        assert!(matches!(opened[..], [Change::Opened(_)]), "{opened:?}");
        assert_eq!(ask(&mut breakers, "user1000", 10, DOWN), []);
        let later = Moment(60_000_000);
        for (tag, change) in [("foo", None), ("user1000", Some(Change::Closed))] {
            let ShardAdmission::Probe(pass) = breakers.admit(tag, later) else {
                panic!("{tag} is not tried again");
            };
            assert_eq!(breakers.settle(pass, Ok(()), later), change, "{tag}");
        }
    }

    #[test]
    fn one_redis_has_one_breaker() {
        let mut breakers = Breakers::new(Settings::default(), false);
        let _ = ask(&mut breakers, "foo", 10, DOWN);
        assert!(skips(&mut breakers, "user1000"));
    }
}
