//! The pages of the algorithms: their plots and bounds are made here, and a page that has drifted
//! fails. `UPDATE=1 cargo test --test it algorithm_docs` writes them anew.

use aforo::{
    algorithm::{
        Algorithm, Kind, MAX_COST, MAX_COUNT, MAX_FILL, MAX_LEASE, MAX_LOG_COST, MAX_LOG_COUNT,
        MAX_WINDOW, MIN_LEASE, MIN_WINDOW,
    },
    local::Local,
    redis::script::{Member, Mode},
    units::{Micros, Moment},
};
use support::root;

use crate::{
    script::{claim, limit, member},
    script_redis::Redis,
};

const QUOTA: u64 = 10;
const SPAN: Micros = Micros::from_secs(10);
/// How long a request of the `concurrency` plot takes.
const TAKES: u64 = 3_000_000;
const HALF: u64 = 500_000;
/// A multiple of the span.
const START: u64 = 1_800_000_000_000_000;

/// Nothing for eight seconds, then 20 requests a second, across the edge of a window at ten.
fn admitted(kind: Kind) -> Vec<u64> {
    let mut local = Local::new(1);
    let claims = [claim("a", limit(kind, QUOTA, SPAN), 1)];
    let mut flying: Vec<(u64, Member)> = Vec::new();
    let mut admitted = Vec::new();
    for n in 0..400_u64 {
        let at = 8_000_000 + n * 50_000;
        let now = Moment(START + at);
        if kind == Kind::Concurrency {
            while flying.first().is_some_and(|(ends, _)| *ends <= at) {
                local.give(&claims, now, flying.remove(0).1);
            }
        }
        let member = Member::new(u128::from(n).to_be_bytes());
        if local.decide(&claims, now, member)[0].admitted {
            flying.push((at + TAKES, member));
            admitted.push(at);
        }
    }
    admitted
}

fn plot(kind: Kind) -> String {
    let admitted = admitted(kind);
    let within = |from: u64, span: u64| {
        admitted
            .iter()
            .filter(|&&at| (from..from + span).contains(&at))
            .count()
    };
    let mut text = String::from("second  admitted in each half second\n");
    for half in 14..50 {
        let from = half * HALF;
        let n = within(from, HALF);
        let bar = "█".repeat(n);
        let edge = if from == SPAN.0 || from == 2 * SPAN.0 {
            "─"
        } else {
            " "
        };
        let line = format!(
            "{:>5}.{} {edge} {bar} {n}",
            from / 1_000_000,
            from / 100_000 % 10
        );
        text += line.trim_end_matches(" 0").trim_end();
        text += "\n";
    }
    if kind == Kind::Concurrency {
        let most = admitted
            .iter()
            .map(|&at| within(at + 1 - TAKES.min(at), TAKES))
            .max();
        return text + &format!("\nmost in flight: {}\n", most.unwrap_or(0));
    }
    let most = admitted.iter().map(|&at| within(at, SPAN.0)).max();
    text + &format!("\nmost in any 10 seconds: {}\n", most.unwrap_or(0))
}

/// Replaces or compares what stands between a pair of marks.
fn hold(page: &str, mark: &str, expected: &str) {
    let path = root().join("docs/algorithms").join(page);
    let text = std::fs::read_to_string(&path).unwrap();
    let (open, close) = (format!("<!-- {mark} -->\n"), format!("<!-- /{mark} -->"));
    let (before, rest) = text
        .split_once(&open)
        .unwrap_or_else(|| panic!("{page}: no {open}"));
    let (found, after) = rest
        .split_once(&close)
        .unwrap_or_else(|| panic!("{page}: no {close}"));
    if found != expected && std::env::var_os("UPDATE").is_some() {
        std::fs::write(&path, format!("{before}{open}{expected}{close}{after}")).unwrap();
        return;
    }
    assert_eq!(
        found, expected,
        "{page} has drifted; UPDATE=1 writes it anew"
    );
}

#[test]
fn the_plots_are_what_the_code_admits() {
    for kind in Kind::ALL {
        let page = format!("{}.md", kind.name());
        hold(&page, "plot", &format!("```text\n{}```\n", plot(kind)));
    }
}

#[test]
fn the_bounds_are_those_of_the_code() {
    let with = |kind, text: &str| hold(&format!("{}.md", Kind::name(kind)), "bounds", text);
    let window = format!("window {MIN_WINDOW} to {MAX_WINDOW}");
    let log = format!("at most {MAX_LOG_COUNT} units, {MAX_LOG_COST} of them by one request");
    let many = format!("at most {MAX_COUNT} units, {MAX_COST} of them by one request");
    let fill = format!("an empty bucket fills within {MAX_FILL}");
    with(Kind::SlidingLog, &format!("{log}; {window}.\n"));
    with(Kind::SlidingWindow, &format!("{many}; {window}.\n"));
    with(
        Kind::FixedWindow,
        &format!("{many}; {window}, or a calendar month.\n"),
    );
    with(Kind::TokenBucket, &format!("{many}; {window}; {fill}.\n"));
    with(Kind::Gcra, &format!("{many}; {window}; {fill}.\n"));
    with(
        Kind::Concurrency,
        &format!("{log}; lease {MIN_LEASE} to {MAX_LEASE}.\n"),
    );
}

/// What one key costs Redis, with everything around it: for a client with one unit taken, and with
/// a hundred.
fn bytes_a_key(redis: &mut Redis, kind: Kind) -> [i64; 2] {
    [1, 100].map(|units: u64| {
        redis.ask(&["FLUSHALL"]);
        let memory = |redis: &mut Redis| -> i64 {
            let info = redis.text(&["INFO", "memory"]);
            let line = info
                .lines()
                .find_map(|line| line.strip_prefix("used_memory:"));
            line.unwrap().trim().parse().unwrap()
        };
        // The script itself is not what is measured.
        redis.decide(
            Mode::Take,
            &[claim("a", limit(kind, 1, SPAN), 1)],
            member(0),
        );
        let before = memory(redis);
        for client in 0..1_000_u64 {
            // The windows must not end while this counts.
            let limit = limit(kind, 1_000, Micros::from_secs(86_400));
            let claims = [claim(&format!("client{client:010}"), limit, units)];
            redis.decide(
                Mode::Take,
                &claims,
                member(u8::try_from(client % 256).unwrap()),
            );
        }
        (memory(redis) - before) / 1_000
    })
}

#[test]
fn the_memory_of_a_key_is_what_the_page_says() {
    let mut redis = Redis::start();
    let mut wrong = Vec::new();
    for kind in Kind::ALL {
        let [one, hundred] = bytes_a_key(&mut redis, kind);
        let path = root()
            .join("docs/algorithms")
            .join(format!("{}.md", kind.name()));
        let text = std::fs::read_to_string(&path).unwrap();
        let said: Vec<i64> = text
            .split("**")
            .filter_map(|bold| bold.strip_suffix(" bytes")?.replace(' ', "").parse().ok())
            .collect();
        let near = |said: i64, found: i64| (said - found).abs() * 3 <= found;
        let fits = matches!(said[..], [a, b] if near(a, one) && near(b, hundred));
        if !fits {
            wrong.push(format!(
                "{}: {said:?} said, {one} and {hundred} found",
                kind.name()
            ));
        }
    }
    assert!(wrong.is_empty(), "{wrong:#?}");
}

#[test]
fn every_algorithm_has_its_page_and_the_key_part_it_names() {
    let index = std::fs::read_to_string(root().join("docs/algorithms/README.md")).unwrap();
    for kind in Kind::ALL {
        assert!(index.contains(&format!("[`{0}`]({0}.md)", kind.name())));
        let page =
            std::fs::read_to_string(root().join(format!("docs/algorithms/{}.md", kind.name())))
                .unwrap();
        let part = Algorithm::new(limit(kind, 100, Micros::from_secs(60)))
            .unwrap()
            .key_part();
        assert!(
            page.contains(&format!("`{part}`")),
            "{}: {part}",
            kind.name()
        );
    }
}
