//! `aforo switch`: turns every limit to shadow mode, or back.

use std::process::ExitCode;

use aforo::control::Control;

use super::{Failure, Server, Whose, end, said, store::Store};

/// The arguments of `aforo switch`.
#[derive(clap::Args)]
pub struct Arguments {
    /// `on`: no limit refuses anybody, what would be refused is counted. `off`: limits refuse again.
    turn: Turn,
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    whose: Whose,
}

/// What is to be done.
#[derive(Clone, Copy, Debug, PartialEq, Eq, clap::ValueEnum)]
enum Turn {
    /// Nobody is refused.
    On,
    /// Limits refuse.
    Off,
    /// Only say how it stands.
    Status,
}

/// Turns the switch, or tells how it stands.
pub fn run(arguments: &Arguments) -> ExitCode {
    end(turn(arguments))
}

fn turn(arguments: &Arguments) -> Result<(), Failure> {
    let head = arguments.whose.head();
    let mut store = Store::new(head.clone(), arguments.server.connect()?);
    let (before, words) = match arguments.turn {
        Turn::On => store.switch(true)?,
        Turn::Off => store.switch(false)?,
        Turn::Status => {
            let words = store.words()?;
            (words.clone(), words)
        }
    };
    let is_on = |words: &str| Control::read(words.as_bytes()).shadow;
    let already = arguments.turn != Turn::Status && is_on(&before) == is_on(&words);
    let already = if already { " already" } else { "" };
    println!("{}{already}", state(is_on(&words)));
    println!("{}", said(&head, &words));
    if arguments.turn != Turn::Status {
        println!(
            "watch: aforo_shadow_switch comes to {}",
            match is_on(&words) {
                true => "the number of all workers that have requests",
                false => "0",
            }
        );
    }
    Ok(())
}

/// How the switch stands, for a person.
pub const fn state(on: bool) -> &'static str {
    match on {
        true => "the shadow switch is on: no limit refuses anybody",
        false => "the shadow switch is off: limits refuse",
    }
}
