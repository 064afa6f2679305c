//! The native `aforo` command: what the filter would do with a policy, without an Envoy.
//!
//! The policy is read, and limits are found, by the filter's own code.

mod check;
mod explain;
mod request;
mod source;
mod yaml;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Policies of the rate limiter Aforo: check them, and see what they do.
#[derive(Parser)]
#[command(name = "aforo", version, about, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "Exit codes: 0 all is well, 1 a policy was refused, 2 a file cannot be read, \
                          holds no policy, or the command line is wrong.";

#[derive(Subcommand)]
enum Command {
    /// Read policies as the filter would, and report everything that is wrong with them.
    Check(check::Arguments),
    /// Tell which limits apply to a request, under which keys, and why the others do not.
    Explain(Box<explain::Arguments>),
    /// Print the policies of a file as JSON, one after the other, as the filter gets them; nothing is checked.
    Json {
        /// A policy in YAML or JSON, an Istio resource or an Envoy file; `-` is standard input.
        #[arg(value_name = "FILE")]
        file: String,
    },
    /// Print the JSON Schema of a policy, for editors.
    Schema,
}

fn main() -> ExitCode {
    match Cli::parse().command {
        Command::Check(arguments) => check::run(&arguments),
        Command::Explain(arguments) => explain::run(&arguments),
        Command::Json { file } => match source::of(&file) {
            Ok(sources) => {
                sources
                    .iter()
                    .for_each(|source| println!("{}", source.json()));
                ExitCode::SUCCESS
            }
            Err(error) => {
                eprintln!("{file}: {error}");
                ExitCode::from(UNREADABLE)
            }
        },
        Command::Schema => {
            println!("{:#}", aforo::policy::schema::schema());
            ExitCode::SUCCESS
        }
    }
}

/// A policy was refused.
const REFUSED: u8 = 1;
/// A file cannot be read, or holds no policy.
const UNREADABLE: u8 = 2;

/// The text of a file, or of standard input for `-`, and whether it is JSON.
fn text_of(file: &str) -> Result<(String, bool), String> {
    use std::io::Read as _;
    let mut bytes = Vec::new();
    let read = match file {
        "-" => std::io::stdin().read_to_end(&mut bytes).map(|_| ()),
        _ => std::fs::read(file).map(|read| bytes = read),
    };
    read.map_err(|error| error.to_string())?;
    let text = String::from_utf8(bytes).map_err(|_| "it is not UTF-8 text".to_owned())?;
    let text = text
        .strip_prefix('\u{FEFF}')
        .map_or(text.clone(), ToOwned::to_owned);
    let is_json = file.ends_with(".json") || text.trim_start().starts_with('{');
    Ok((text, is_json))
}
