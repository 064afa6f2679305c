//! The claims of one command.

use crate::{claim::Claim, outage::shards::ShardPass, redis::link::Asked, verdict::Reading};

/// The claims of one command: all of a request, or in a cluster those of one hash tag.
pub struct Part {
    /// Indices into the request's claims.
    pub claims: Vec<usize>,
    /// Leave to ask, to be settled with what comes of it.
    pub pass: Option<ShardPass>,
    /// The command, once it is asked.
    pub asked: Option<Asked>,
    /// What Redis said of each claim.
    pub readings: Option<Vec<Reading>>,
}

impl Part {
    /// Not asked yet.
    pub const fn of(claims: Vec<usize>) -> Self {
        Self {
            claims,
            pass: None,
            asked: None,
            readings: None,
        }
    }

    /// The claims of this part.
    pub fn asked_for<'a>(&self, claims: &'a [Claim]) -> impl Iterator<Item = &'a Claim> + Clone {
        self.claims.iter().filter_map(|index| claims.get(*index))
    }

    /// Whether the script took what this part asked for: no enforced claim of it was refused.
    pub fn admits(&self, claims: &[Claim]) -> bool {
        self.claims
            .iter()
            .zip(self.readings.iter().flatten())
            .all(|(index, reading)| {
                reading.admitted || claims.get(*index).is_some_and(|claim| !claim.enforced)
            })
    }
}

/// What parts that were answered took, without leases: those are given back whoever holds them.
pub fn taken(claims: &[Claim], parts: Vec<Part>) -> Vec<Claim> {
    let took = parts.into_iter().filter(|part| part.readings.is_some());
    let took = took.filter(|part| part.admits(claims));
    let each = took.flat_map(|part| {
        part.claims
            .into_iter()
            .zip(part.readings.into_iter().flatten())
    });
    each.filter(|(_, reading)| reading.admitted)
        .filter_map(|(index, _)| claims.get(index))
        .filter(|claim| !claim.is_lease())
        .cloned()
        .collect()
}

/// One part a hash tag, in the order in which the tags first come.
pub fn by_tag(claims: &[Claim]) -> Vec<Part> {
    let mut parts: Vec<(&str, Part)> = Vec::new();
    for (index, claim) in claims.iter().enumerate() {
        match parts.iter_mut().find(|(tag, _)| *tag == claim.tag()) {
            Some((_, part)) => part.claims.push(index),
            None => parts.push((claim.tag(), Part::of(vec![index]))),
        }
    }
    parts.into_iter().map(|(_, part)| part).collect()
}

/// The claims that are held while a request is in flight.
pub fn leases<'a>(claims: impl IntoIterator<Item = &'a Claim>) -> Vec<Claim> {
    let held = claims.into_iter().filter(|claim| claim.is_lease());
    held.cloned().collect()
}
