//! Which of a verdict's limits is shown, and its times in whole seconds.

use super::settings::Settings;
use crate::{
    units::Micros,
    verdict::{Judged, Verdict, Wait},
};

/// The `Retry-After` of a refusal in whole seconds: the longest wait of the limits that refused,
/// rounded up, at least 1, with jitter and cap as the policy says. `None` when the request can never
/// fit, so that no wait helps. `random` spreads the jitter.
#[must_use]
pub fn retry_after(settings: &Settings, verdict: &Verdict, random: u64) -> Option<u64> {
    let refusing = deciding(verdict);
    // A refusal without a refusing limit would be a fault elsewhere: ask the client to come later.
    let seconds = refusing.map_or(Some(1), |judged| wait_seconds(judged.reading.wait))?;
    let parts = settings.parts();
    let spread = seconds.saturating_mul(u64::from(parts.jitter_percent)) / 100;
    let later = seconds.saturating_add(share(spread, random));
    let cap = parts.max_retry_after.map_or(u64::MAX, Micros::secs_up);
    Some(later.min(cap))
}

/// The limits a client may see, in the policy's order.
pub(super) fn shown<'v>(
    settings: &Settings,
    verdict: &'v Verdict,
) -> impl Iterator<Item = &'v Judged> + use<'v> {
    let shadow = settings.parts().show_shadow;
    verdict
        .judged
        .iter()
        .filter(move |judged| judged.claim.enforced || shadow)
}

/// The limits that refuse the request, in the policy's order.
pub(super) fn refusing(verdict: &Verdict) -> impl Iterator<Item = &Judged> {
    verdict
        .judged
        .iter()
        .filter(|judged| judged.claim.enforced && !judged.reading.admitted)
}

/// The limit that decides how long a refused client waits: the longest wait, the first of equals.
pub(super) fn deciding(verdict: &Verdict) -> Option<&Judged> {
    refusing(verdict).min_by_key(|judged| match judged.reading.wait {
        Wait::Never => 0,
        Wait::For(span) => u64::MAX.saturating_sub(span.0).max(1),
    })
}

/// The limit that one-limit families show: on a refusal the one that decides the wait, otherwise the
/// one with the least room.
pub(super) fn prominent<'v>(settings: &Settings, verdict: &'v Verdict) -> Option<&'v Judged> {
    if !verdict.allowed {
        return deciding(verdict);
    }
    least_room(shown(settings, verdict))
}

/// The limit that admits the fewest further requests like this one; of equals the one that is whole
/// again last.
pub(super) fn least_room<'v>(limits: impl IntoIterator<Item = &'v Judged>) -> Option<&'v Judged> {
    limits.into_iter().min_by_key(|judged| {
        let cost = judged.claim.cost.max(1);
        let room = judged.reading.remaining.checked_div(cost).unwrap_or(0);
        (room, u64::MAX.saturating_sub(judged.reading.reset.0))
    })
}

/// Seconds until a limit gives more than it has now: the wait of one that refuses, never zero;
/// otherwise until its whole quota is there again. `None` when no time changes anything.
pub(super) fn reset_seconds(judged: &Judged) -> Option<u64> {
    if judged.reading.admitted {
        Some(judged.reading.reset.secs_up())
    } else {
        wait_seconds(judged.reading.wait)
    }
}

fn wait_seconds(wait: Wait) -> Option<u64> {
    match wait {
        Wait::For(span) => Some(span.secs_up().max(1)),
        Wait::Never => None,
    }
}

/// A number of `0..=most`, evenly spread by `random`.
fn share(most: u64, random: u64) -> u64 {
    let choices = u128::from(most).saturating_add(1);
    let product = u128::from(random).saturating_mul(choices);
    u64::try_from(product >> 64).unwrap_or(most)
}
