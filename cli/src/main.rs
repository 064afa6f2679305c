//! The native `aforo` command: what the filter would do with a policy, without an Envoy, and what the
//! filters of a mesh are told through Redis.
//!
//! The policy is read, and limits are found, by the filter's own code.

mod check;
mod control;
mod explain;
mod render;
mod request;
mod source;
mod yaml;

use std::process::ExitCode;

use clap::{Parser, Subcommand};

/// Policies of the rate limiter Aforo: check them, see what they do, and roll them out.
#[derive(Parser)]
#[command(name = "aforo", version, about, after_help = AFTER_HELP)]
struct Cli {
    #[command(subcommand)]
    command: Command,
}

const AFTER_HELP: &str = "Exit codes: 0 all is well, 1 a policy was refused, or there is none to go back \
                          to, 2 a file cannot be read, holds no policy, or the command line is wrong, \
                          3 Redis is not reached or answers with an error.";

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
    /// Write what a proxy needs to run a policy: a configuration of Envoy, or resources of Istio.
    #[command(subcommand)]
    Render(Box<render::Arguments>),
    /// Print the JSON Schema of a policy, for editors.
    Schema,
    /// Store a policy in Redis and put it in force on every proxy that follows them.
    Push(Box<control::push::Arguments>),
    /// Put a policy in force again that was before.
    Rollback(Box<control::rollback::Arguments>),
    /// The kill switch: turn every limit of the mesh to shadow mode, or back.
    Switch(Box<control::switch::Arguments>),
    /// Tell what the filters of the mesh are told, and which policies are stored.
    Status(Box<control::status::Arguments>),
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
        Command::Render(arguments) => render::run(&arguments),
        Command::Schema => {
            println!("{:#}", aforo::policy::schema::schema());
            ExitCode::SUCCESS
        }
        Command::Push(arguments) => control::push::run(&arguments),
        Command::Rollback(arguments) => control::rollback::run(&arguments),
        Command::Switch(arguments) => control::switch::run(&arguments),
        Command::Status(arguments) => control::status::run(&arguments),
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
