//! `aforo status`: what lies in Redis for the filters to follow.

use std::process::ExitCode;

use serde_json::json;

use super::{
    Failure, Server, Whose, end, named, said,
    store::{Contents, Entry, Store},
    switch,
};

/// The arguments of `aforo status`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    whose: Whose,
    /// Print JSON instead of text.
    #[arg(long)]
    json: bool,
}

/// Tells what lies there.
pub fn run(arguments: &Arguments) -> ExitCode {
    end(tell(arguments))
}

fn tell(arguments: &Arguments) -> Result<(), Failure> {
    let head = arguments.whose.head();
    let contents = Store::new(head.clone(), arguments.server.connect()?).contents()?;
    if arguments.json {
        println!("{}", as_json(&contents));
    } else {
        print!("{}", as_text(&head, &contents));
    }
    Ok(())
}

fn as_json(contents: &Contents) -> serde_json::Value {
    let policies = contents.policies.iter().map(|entry| {
        json!({"number": entry.number, "bytes": entry.bytes, "pushed": moment(entry.time),
               "before": entry.before, "note": entry.note})
    });
    json!({"control": contents.words, "shadow": contents.control.shadow,
           "policy": contents.control.policy.unwrap_or(0), "policies": policies.collect::<Vec<_>>()})
}

fn as_text(head: &str, contents: &Contents) -> String {
    let number = contents.control.policy.unwrap_or(0);
    let mut text = format!(
        "{}\n{}\n{} is in force where proxies follow with `control: {{policy: true}}`\n",
        said(head, &contents.words),
        switch::state(contents.control.shadow),
        named(number)
    );
    if number > 0
        && !contents
            .policies
            .iter()
            .any(|entry| entry.number == number && entry.bytes > 0)
    {
        text.push_str("it is not stored: workers that do not have it yet cannot get it\n");
    }
    if !contents.policies.is_empty() {
        text.push_str("   number     bytes  pushed                before  note\n");
    }
    for entry in &contents.policies {
        text.push_str(&line(entry, entry.number == number));
    }
    text
}

fn line(entry: &Entry, in_force: bool) -> String {
    let mark = if in_force { "*" } else { " " };
    let bytes = match entry.bytes {
        0 => "gone".to_owned(),
        bytes => bytes.to_string(),
    };
    // Whoever may write to Redis wrote the note: no terminal should obey it.
    let note: String = entry.note.chars().filter(|c| !c.is_control()).collect();
    let line = format!(
        "{mark} {:>7} {bytes:>9}  {}  {:>6}  {note}",
        entry.number,
        moment(entry.time),
        entry.before
    );
    format!("{}\n", line.trim_end())
}

/// Seconds since 1970 as `2026-11-30T20:49:37Z`.
fn moment(seconds: u64) -> String {
    let (days, rest) = (seconds / 86_400, seconds % 86_400);
    // Days from 1 March of the year 0, so that leap days come last in their years and eras.
    let days = days + 719_468;
    let (era, day) = (days / 146_097, days % 146_097);
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let month = if month < 10 { month + 3 } else { month - 9 };
    let year = year + era * 400 + u64::from(month <= 2);
    format!(
        "{year:04}-{month:02}-{day:02}T{:02}:{:02}:{:02}Z",
        rest / 3_600,
        rest / 60 % 60,
        rest % 60
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use aforo::control::Control;

    #[test]
    fn moments_are_written_as_everybody_writes_them() {
        for (seconds, text) in [
            (0, "1970-01-01T00:00:00Z"),
            (951_782_399, "2000-02-28T23:59:59Z"),
            (951_782_400, "2000-02-29T00:00:00Z"),
            (1_796_071_777, "2026-11-30T20:49:37Z"),
            (4_107_542_400, "2100-03-01T00:00:00Z"),
        ] {
            assert_eq!(moment(seconds), text);
        }
    }

    #[test]
    fn a_policy_in_force_that_is_gone_is_told_and_notes_are_not_obeyed() {
        let entry = |number, bytes, note: &str| Entry {
            number,
            bytes,
            time: 0,
            before: number - 1,
            note: note.to_owned(),
        };
        let contents = Contents {
            words: "policy=2 shadow".to_owned(),
            control: Control::read(b"policy=2 shadow"),
            policies: vec![entry(2, 0, "\u{1b}[31mred"), entry(1, 120, "")],
        };
        let text = as_text("aforo:", &contents);
        assert!(text.contains("it is not stored"), "{text}");
        assert!(text.contains("*       2      gone  1970"), "{text}");
        assert!(
            text.contains("[31mred") && !text.contains('\u{1b}'),
            "{text}"
        );
        assert!(
            text.ends_with("        1       120  1970-01-01T00:00:00Z       0\n"),
            "{text}"
        );
    }
}
