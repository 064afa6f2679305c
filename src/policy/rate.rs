//! How numbers with a unit are written: spans (`20ms`) and rates (`100/1m`), one grammar for all
//! algorithms.
//!
//! ```text
//! SPAN   = digits ("ms" | "s" | "m" | "h" | "d")
//! RATE   = COUNT "/" WINDOW      all algorithms but concurrency: units a window
//!        | COUNT                 concurrency: units in flight
//! WINDOW = SPAN | "month"        month: the calendar month, fixed-window only
//!        | "second" | "minute" | "hour" | "day"     the same as 1s 1m 1h 1d
//! ```

use crate::{algorithm::Window, units::Micros};

/// What a rate looks like, for messages.
pub const ACCEPTED: &str = "COUNT/WINDOW such as 100/1m, 5/10s, 20/500ms (units ms s m h d; month), \
                            unlimited, deny";
/// What the count of `concurrency` looks like, for messages.
pub const ACCEPTED_IN_FLIGHT: &str =
    "a whole number (how many may be in flight at once), unlimited, deny";

/// A rate as written; not yet checked against an algorithm.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Rate {
    /// Units a window, or in flight.
    pub count: u64,
    /// The window; `None` when only a count was written.
    pub window: Option<Window>,
}

/// Reads a rate. `None` when it is not one.
#[must_use]
pub fn rate(text: &str) -> Option<Rate> {
    let Some((count, window)) = text.split_once('/') else {
        return Some(Rate {
            count: integer(text)?,
            window: None,
        });
    };
    let window = match window.trim_start_matches(' ') {
        "second" => Window::Span(Micros::from_secs(1)),
        "minute" => Window::Span(Micros::from_secs(60)),
        "hour" => Window::Span(Micros::from_secs(3_600)),
        "day" => Window::Span(Micros::from_secs(86_400)),
        "month" => Window::Month,
        other => Window::Span(span(other)?),
    };
    Some(Rate {
        count: integer(count.trim_end_matches(' '))?,
        window: Some(window),
    })
}

/// Reads a span. `None` when it is not one, or longer than 2^64 µs.
#[must_use]
pub fn span(text: &str) -> Option<Micros> {
    let digits = text.bytes().take_while(u8::is_ascii_digit).count();
    let (count, unit) = text.split_at_checked(digits)?;
    let unit: u64 = match unit {
        "ms" => 1_000,
        "s" => 1_000_000,
        "m" => 60_000_000,
        "h" => 3_600_000_000,
        "d" => 86_400_000_000,
        _ => return None,
    };
    Some(Micros(integer(count)?.checked_mul(unit)?))
}

/// Decimal digits only: no sign, no space. `None` beyond 2^64.
#[must_use]
pub fn integer(text: &str) -> Option<u64> {
    (!text.is_empty() && text.bytes().all(|b| b.is_ascii_digit())).then(|| text.parse().ok())?
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn rates_are_a_count_and_a_window() {
        for (text, count, window) in [
            ("100/1m", 100, Some(Window::Span(Micros::from_secs(60)))),
            ("5/10s", 5, Some(Window::Span(Micros::from_secs(10)))),
            ("20/500ms", 20, Some(Window::Span(Micros::from_millis(500)))),
            ("7 / 2h", 7, Some(Window::Span(Micros::from_secs(7_200)))),
            ("9/day", 9, Some(Window::Span(Micros::from_secs(86_400)))),
            ("9/month", 9, Some(Window::Month)),
            ("50", 50, None),
        ] {
            assert_eq!(rate(text), Some(Rate { count, window }), "{text}");
        }
        for text in [
            "",
            "/",
            "1/",
            "/1s",
            "1/s",
            "-1/1s",
            "+1/1s",
            "1.5/1s",
            "1/1.5s",
            "1/1w",
            "1/1S",
            "1/1s/1s",
            "1e3/1s",
            "1/99999999999999999999s",
            "99999999999999999999/1s",
            "1/1 s",
        ] {
            assert_eq!(rate(text), None, "{text}");
        }
    }
}
