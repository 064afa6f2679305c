//! `fixed-window`: the units of one window, and when it ends. Twin of `lua/fixed_window.lua`.

use super::{
    Align, BadParameter, MAX_COUNT, Parameters, Window,
    calendar::{LONGEST_MONTH, month_end},
    int,
    twin::{Act, Look, Next, State},
};
use crate::{
    units::{Micros, Moment},
    verdict::Wait,
};

/// Time zones of the world, in minutes east of UTC.
const OFFSETS: std::ops::RangeInclusive<i16> = -720..=840;

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct FixedWindow {
    pub quota: u64,
    edges: Edges,
}

/// Where windows begin and end. Offsets are minutes east of UTC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Edges {
    Clock { span: Micros, offset: i16 },
    FirstHit { span: Micros },
    Month { offset: i16 },
}

impl FixedWindow {
    pub fn new(parameters: &Parameters) -> Result<Self, BadParameter> {
        let quota = parameters.count(MAX_COUNT)?;
        let align = parameters.align.unwrap_or(Align::Clock(0));
        if let Align::Clock(offset) = align
            && !OFFSETS.contains(&offset)
        {
            let accepted = "a UTC offset of -12:00..+14:00";
            return Err(BadParameter::new(
                "align",
                format!("{offset} minutes"),
                accepted,
            ));
        }
        let edges = match (parameters.window, align) {
            (Some(Window::Month), Align::Clock(offset)) => Edges::Month { offset },
            (Some(Window::Month), Align::FirstHit) => {
                let accepted = "the clock: a calendar month does not begin at the first hit";
                return Err(BadParameter::new("align", "first hit", accepted));
            }
            (_, Align::Clock(offset)) => Edges::Clock {
                span: parameters.span()?,
                offset,
            },
            (_, Align::FirstHit) => Edges::FirstHit {
                span: parameters.span()?,
            },
        };
        Ok(Self { quota, edges })
    }

    /// The longest window.
    pub const fn longest(&self) -> Micros {
        match self.edges {
            Edges::Clock { span, .. } | Edges::FirstHit { span } => span,
            Edges::Month { .. } => LONGEST_MONTH,
        }
    }

    pub fn key_part(&self) -> String {
        match self.edges {
            Edges::Clock { span, offset: 0 } => format!("fw-{span}"),
            Edges::Clock { span, offset } => format!("fw-{span}{}", utc(offset)),
            Edges::FirstHit { span } => format!("fw-{span}-hit"),
            Edges::Month { offset: 0 } => "fw-month".to_owned(),
            Edges::Month { offset } => format!("fw-month{}", utc(offset)),
        }
    }

    pub fn arguments(&self) -> (i64, [Option<i64>; 3]) {
        let quota = int(self.quota);
        match self.edges {
            Edges::Clock { span, offset } => (4, [quota, int(span.0), Some(micros(offset))]),
            Edges::FirstHit { span } => (5, [quota, int(span.0), None]),
            Edges::Month { offset } => (6, [quota, Some(micros(offset)), None]),
        }
    }

    pub fn look(&self, old: Option<&State>, act: Act, now: Moment) -> Look {
        let mut ends = self.ends(now);
        let (mut count, mut mends) = (0, false);
        if let Some(&State::Window { ends: e, count: c }) = old
            && e > now
        {
            (count, mends) = (c, e > ends);
            if matches!(self.edges, Edges::FirstHit { .. }) {
                ends = ends.min(e);
            }
        }
        let cost = match act {
            Act::Take(cost) => cost,
            Act::Give(cost) => {
                count = count.saturating_sub(cost);
                0
            }
        };
        let left = ends.since(now);
        let room = self.quota.saturating_sub(count);
        let wait = if cost <= room {
            Wait::For(Micros::ZERO)
        } else if cost > self.quota {
            Wait::Never
        } else {
            Wait::For(left)
        };
        let reset = if count > 0 { left } else { Micros::ZERO };
        let mut later = reset;
        if cost > 0 && cost <= room {
            (count, later) = (count.saturating_add(cost), left);
        }
        Look {
            room,
            wait,
            reset,
            later,
            next: Next::Is(State::Window { ends, count }),
            ttl_ms: ttl_until_ms(ends, now),
            mends,
        }
    }

    /// The end of a window that `now` lies in, or that begins now.
    fn ends(&self, now: Moment) -> Moment {
        match self.edges {
            Edges::Clock { span, offset } => {
                let local = now.0.saturating_add_signed(micros(offset));
                let into = local.checked_rem(span.0).unwrap_or(0);
                now.plus(Micros(span.0.saturating_sub(into)))
            }
            Edges::FirstHit { span } => now.plus(span),
            Edges::Month { offset } => month_end(now, micros(offset)),
        }
    }
}

/// A life in whole milliseconds until a fixed moment, the same deadline whenever it is computed:
/// it never moves while a window runs.
pub(super) fn ttl_until_ms(ends: Moment, now: Moment) -> u64 {
    let this = now.0.checked_div(1_000).unwrap_or(0);
    ends.0
        .div_ceil(1_000)
        .saturating_sub(this)
        .saturating_add(1)
}

/// An offset of minutes in microseconds.
fn micros(offset: i16) -> i64 {
    i64::from(offset).saturating_mul(60_000_000)
}

/// `+0100`, `-0330`.
fn utc(offset: i16) -> String {
    let sign = if offset < 0 { '-' } else { '+' };
    let minutes = offset.unsigned_abs();
    let (hours, rest) = (minutes.checked_div(60), minutes.checked_rem(60));
    format!("{sign}{:02}{:02}", hours.unwrap_or(0), rest.unwrap_or(0))
}
