//! The commands that speak to Redis: what they have in common.

pub mod push;
pub mod rollback;
mod server;
pub mod status;
mod store;
mod stored;
pub mod switch;

pub use server::Server;

use std::process::ExitCode;

use aforo::control;

/// Redis cannot be reached, or answers with an error.
const NOT_DONE: u8 = 3;

/// Whose keys these are.
#[derive(clap::Args)]
pub struct Whose {
    /// `redis.prefix` of the policies.
    #[arg(long, default_value = "aforo")]
    prefix: String,
    /// `domain` of the policies, where they have one.
    #[arg(long)]
    domain: Option<String>,
}

impl Whose {
    /// What every key begins with.
    fn head(&self) -> String {
        match &self.domain {
            Some(domain) => format!("{}:{domain}:", self.prefix),
            None => format!("{}:", self.prefix),
        }
    }

    /// The options that name them again.
    fn options(&self) -> String {
        let prefix = (self.prefix != "aforo").then(|| format!(" --prefix {}", self.prefix));
        let domain = self
            .domain
            .as_ref()
            .map(|domain| format!(" --domain {domain}"));
        [prefix, domain].into_iter().flatten().collect()
    }
}

/// Why a command did not do what it was told.
#[derive(Debug)]
pub enum Failure {
    /// What it was told cannot be done here.
    Refused(String),
    /// The command line, or a file that it names, is wrong.
    Usage(String),
    /// Redis was not reached, or answered with an error.
    Redis(String),
}

/// The exit code of a command, with its failure told.
fn end(result: Result<(), Failure>) -> ExitCode {
    let (code, text) = match result {
        Ok(()) => return ExitCode::SUCCESS,
        Err(Failure::Refused(text)) => (crate::REFUSED, text),
        Err(Failure::Usage(text)) => (crate::UNREADABLE, text),
        Err(Failure::Redis(text)) => (NOT_DONE, text),
    };
    eprintln!("error: {text}");
    ExitCode::from(code)
}

/// Which policy is in force, for a person.
fn named(number: u64) -> String {
    match number {
        0 => "each proxy's own policy".to_owned(),
        _ => format!("policy {number}"),
    }
}

/// What the control key says now, for a person.
fn said(head: &str, words: &str) -> String {
    let key = control::key(head);
    match words {
        "" => format!("{key} is empty"),
        _ => format!("{key} says \"{words}\""),
    }
}
