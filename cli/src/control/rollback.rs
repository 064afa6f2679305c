//! `aforo rollback`: puts a policy in force that was before.

use std::process::ExitCode;

use super::{Failure, Server, Whose, end, named, said, store::Store};

/// The arguments of `aforo rollback`.
#[derive(clap::Args)]
pub struct Arguments {
    #[command(flatten)]
    server: Server,
    #[command(flatten)]
    whose: Whose,
    /// The number of a stored policy; 0 for each proxy's own. Without it: the one that was in force when
    /// the present one was pushed.
    #[arg(long, value_name = "N")]
    to: Option<u64>,
}

/// Goes back.
pub fn run(arguments: &Arguments) -> ExitCode {
    end(roll_back(arguments))
}

fn roll_back(arguments: &Arguments) -> Result<(), Failure> {
    let head = arguments.whose.head();
    let done = Store::new(head.clone(), arguments.server.connect()?).roll_back(arguments.to)?;
    if done.from == done.to {
        println!("{} is in force already", named(done.to));
    } else {
        println!(
            "{} is in force in the place of {}",
            named(done.to),
            named(done.from)
        );
    }
    println!("{}", said(&head, &done.words));
    println!(
        "watch: aforo_policy_workers{{version=\"{}\"}} comes to the number of all workers",
        done.to
    );
    Ok(())
}
