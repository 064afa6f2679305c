//! `aforo push`: puts a policy in force on every proxy that follows them.

use std::process::ExitCode;

use aforo::control;

use super::{
    Failure, Server, end, named, said,
    store::{KEPT, Pushed, Store},
    stored::Stored,
};
use crate::{check, source};

/// The arguments of `aforo push`.
#[derive(clap::Args)]
pub struct Arguments {
    /// A policy in YAML or JSON, an Istio resource or an Envoy file; `-` is standard input.
    #[arg(value_name = "FILE")]
    file: String,
    #[command(flatten)]
    server: Server,
    /// What `aforo status` shows beside the policy, at most 200 characters.
    #[arg(long, value_name = "TEXT", default_value = "", value_parser = note)]
    note: String,
    /// Treat warnings as errors.
    #[arg(long)]
    strict: bool,
    /// Check the policy and print what would be stored; Redis is not asked.
    #[arg(long)]
    dry_run: bool,
}

/// Checks the policy as `aforo check` does, and pushes it.
pub fn run(arguments: &Arguments) -> ExitCode {
    let file = &arguments.file;
    let sources = match source::of(file) {
        Ok(sources) => sources,
        Err(error) => return end(Err(Failure::Usage(format!("{file}: {error}")))),
    };
    let [source] = sources.as_slice() else {
        let text = format!("{file}: {} policies, and one can be pushed", sources.len());
        return end(Err(Failure::Usage(text)));
    };
    let manner = check::Manner {
        strict: arguments.strict,
        json: false,
    };
    let code = check::check_one(file, source, manner);
    if code != 0 {
        return ExitCode::from(code);
    }
    let stored = Stored::of(source.json()).map_err(|error| format!("{file}: {error}"));
    end(stored
        .map_err(Failure::Refused)
        .and_then(|stored| push(arguments, &stored)))
}

fn push(arguments: &Arguments, stored: &Stored) -> Result<(), Failure> {
    if !stored.left_out.is_empty() {
        println!(
            "left out, since each proxy goes by its own configuration there: {}",
            stored.left_out.join(", ")
        );
    }
    let head = stored.head.as_str();
    if arguments.dry_run {
        println!(
            "would store {} bytes as {}N, N being the next number:\n{}",
            stored.text.len(),
            control::policy_head(head),
            stored.text
        );
        return Ok(());
    }
    let connection = arguments.server.connect()?;
    let pushed = Store::new(head.to_owned(), connection).push(&stored.text, &arguments.note)?;
    report(stored, &pushed);
    Ok(())
}

fn report(stored: &Stored, pushed: &Pushed) {
    let head = stored.head.as_str();
    let Pushed {
        number,
        before,
        same,
        words,
    } = pushed;
    if *same {
        println!("policy {number} is this very policy and in force: nothing was changed");
    } else {
        println!(
            "policy {number}: {} bytes in {}",
            stored.text.len(),
            control::policy_key(head, *number)
        );
    }
    println!("{}", said(head, words));
    if control::Control::read(words.as_bytes()).shadow {
        println!("the shadow switch is on: no limit refuses anybody");
    }
    println!(
        "watch: aforo_policy_workers{{version=\"{number}\"}} comes to the number of all workers (a worker \
         looks when it has a request),\n       and aforo_policies_total{{result=\"refused\"}} stays where \
         it is. Proxies follow with `control: {{policy: true}}`"
    );
    if !*same {
        println!(
            "back:  aforo rollback{} (to {}); the last {KEPT} are kept",
            options(head),
            named(*before)
        );
    }
}

/// The options by which the other commands find the same keys.
fn options(head: &str) -> String {
    let mut parts = head.trim_end_matches(':').split(':');
    let prefix = parts.next().unwrap_or_default().to_owned();
    let domain = parts.next().map(ToOwned::to_owned);
    super::Whose { prefix, domain }.options()
}

fn note(text: &str) -> Result<String, String> {
    if text.chars().count() > 200 || text.chars().any(char::is_control) {
        return Err("at most 200 characters on one line".to_owned());
    }
    Ok(text.to_owned())
}
