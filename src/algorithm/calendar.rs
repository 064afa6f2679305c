//! Calendar months from microseconds since the epoch, as `lua/fixed_window.lua` finds them.

use crate::units::{Micros, Moment};

const DAY: i64 = 86_400_000_000;
/// Days from 1 March of the year 0 to the epoch.
const EPOCH: i64 = 719_468;
/// Days of 400 years.
const ERA: i64 = 146_097;

/// The moment when the calendar month of `now` ends, by clocks that run `offset` microseconds
/// ahead of UTC.
pub(super) fn month_end(now: Moment, offset: i64) -> Moment {
    let local = i64::try_from(now.0)
        .unwrap_or(i64::MAX)
        .saturating_add(offset);
    let day = local.div_euclid(DAY).saturating_add(EPOCH);
    // Years begin in March, so that a leap day is the last of its year.
    let of_era = day.rem_euclid(ERA);
    let year = div(
        of_era
            .saturating_sub(div(of_era, 1_460))
            .saturating_add(div(of_era, 36_524))
            .saturating_sub(div(of_era, ERA.saturating_sub(1))),
        365,
    );
    let first = year
        .saturating_mul(365)
        .saturating_add(div(year, 4))
        .saturating_sub(div(year, 100));
    let of_year = of_era.saturating_sub(first);
    let month = div(of_year.saturating_mul(5).saturating_add(2), 153);
    let next = if month < 11 {
        div(
            month
                .saturating_add(1)
                .saturating_mul(153)
                .saturating_add(2),
            5,
        )
    } else if leap(year.saturating_add(1)) {
        366
    } else {
        365
    };
    let end = day
        .saturating_sub(of_year)
        .saturating_add(next)
        .saturating_sub(EPOCH);
    let end = end.saturating_mul(DAY).saturating_sub(offset);
    Moment(u64::try_from(end).unwrap_or(0))
}

/// The longest month.
pub(super) const LONGEST_MONTH: Micros = Micros::from_secs(31 * 86_400);

fn leap(year: i64) -> bool {
    year.rem_euclid(4) == 0 && (year.rem_euclid(100) != 0 || year.rem_euclid(400) == 0)
}

/// `a / b` for an `a` that is not negative.
fn div(a: i64, b: i64) -> i64 {
    a.checked_div(b).unwrap_or(0)
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Midnight UTC of a civil date, by counting days one by one.
    fn midnight(year: i64, month: usize) -> u64 {
        let mut days = 0;
        for y in 1970..year {
            days += if leap(y) { 366 } else { 365 };
        }
        let lengths = [
            31,
            28 + i64::from(leap(year)),
            31,
            30,
            31,
            30,
            31,
            31,
            30,
            31,
            30,
            31,
        ];
        days += lengths[..month].iter().sum::<i64>();
        u64::try_from(days * DAY).unwrap()
    }

    #[test]
    fn every_month_of_two_centuries_ends_where_the_next_begins() {
        for year in 1970..2170 {
            for month in 0..12 {
                let end = if month == 11 {
                    midnight(year + 1, 0)
                } else {
                    midnight(year, month + 1)
                };
                let start = midnight(year, month);
                for now in [start, start + 1, u64::midpoint(start, end), end - 1] {
                    assert_eq!(
                        month_end(Moment(now), 0),
                        Moment(end),
                        "{year}-{}",
                        month + 1
                    );
                }
            }
        }
    }

    #[test]
    fn an_offset_moves_the_edge_against_the_clock() {
        let hour = 3_600_000_000;
        let edge = midnight(2028, 2); // the end of a February with 29 days
        for (offset, utc) in [(hour, edge - 3_600_000_000), (-hour, edge + 3_600_000_000)] {
            assert_eq!(month_end(Moment(utc - 1), offset), Moment(utc));
            assert!(month_end(Moment(utc), offset) > Moment(utc));
        }
    }
}
