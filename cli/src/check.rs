//! `aforo check`: what the filter says when it loads these policies.

use std::process::ExitCode;

use serde_json::{Value, json};

use crate::{
    REFUSED, UNREADABLE,
    source::{self, Source},
    text_of,
};

/// The arguments of `aforo check`.
#[derive(clap::Args)]
pub struct Arguments {
    /// Policies in YAML or JSON, Istio resources, Envoy files; `-` is standard input.
    #[arg(required = true, value_name = "FILE")]
    files: Vec<String>,
    #[command(flatten)]
    manner: Manner,
}

/// How a policy is judged, and how that is told.
#[derive(Clone, Copy, clap::Args)]
pub struct Manner {
    /// Treat warnings as errors.
    #[arg(long)]
    pub strict: bool,
    /// Print one JSON object a line instead of text.
    #[arg(long)]
    pub json: bool,
}

/// Checks all files; the worst of them gives the exit code.
pub fn run(arguments: &Arguments) -> ExitCode {
    let worst = arguments
        .files
        .iter()
        .map(|file| check(file, arguments.manner))
        .max();
    ExitCode::from(worst.unwrap_or(0))
}

/// One line of the report.
struct Line<'a> {
    file: &'a str,
    line: Option<usize>,
    level: &'static str,
    path: Option<String>,
    text: String,
}

impl Line<'_> {
    fn print(&self, json: bool) {
        if json {
            println!(
                "{}",
                json!({"file": self.file, "line": self.line, "level": self.level,
                       "path": self.path, "text": self.text})
            );
            return;
        }
        let place = self.line.map_or(String::new(), |line| format!(":{line}"));
        println!("{}{place}: {}: {}", self.file, self.level, self.text);
    }
}

fn check(file: &str, manner: Manner) -> u8 {
    let broken = |line, text: String| {
        Line {
            file,
            line,
            level: "error",
            path: None,
            text,
        }
        .print(manner.json);
        UNREADABLE
    };
    let (text, is_json) = match text_of(file) {
        Ok(read) => read,
        Err(error) => return broken(None, error),
    };
    let sources = match source::read(&text, is_json) {
        Ok(sources) => sources,
        Err(error) => return broken(Some(error.line), error.text),
    };
    if sources.is_empty() {
        return broken(None, "no policy of this filter is in the file".to_owned());
    }
    sources
        .iter()
        .map(|source| check_one(file, source, manner))
        .max()
        .unwrap_or(0)
}

/// Checks one policy of a file; the exit code.
pub fn check_one(file: &str, source: &Source, manner: Manner) -> u8 {
    let print = |level, path: &aforo::policy::findings::Path, text: String| {
        let line = source.line(path);
        Line {
            file,
            line,
            level,
            path: Some(path.to_string()),
            text,
        }
        .print(manner.json);
    };
    let mut warned = false;
    for (path, word) in source.booleans() {
        warned = true;
        let text = format!("{path}: Kubernetes and Envoy read {word} as true or false; quote it");
        print("warning", path, text);
    }
    match source.policy() {
        Err(errors) => {
            let mut list: Vec<_> = errors.list().iter().collect();
            list.sort_by_key(|error| source.line(&error.path));
            for error in list {
                print("error", &error.path, error.to_string());
            }
            if errors.unshown() > 0 {
                let text = format!("{} errors more", errors.unshown());
                print("error", &aforo::policy::findings::Path::default(), text);
            }
            REFUSED
        }
        Ok((policy, warnings)) => {
            let mut warnings = warnings;
            warnings.sort_by_key(|warning| source.line(&warning.path));
            for warning in &warnings {
                warned = true;
                print("warning", &warning.path, warning.to_string());
            }
            if warned && manner.strict {
                return REFUSED;
            }
            report_good(file, source, policy.limits.len(), manner.json);
            0
        }
    }
}

fn report_good(file: &str, source: &Source, limits: usize, json: bool) {
    if json {
        let object: Value =
            json!({"file": file, "within": source.within, "level": "ok", "limits": limits});
        println!("{object}");
        return;
    }
    let within = source
        .within
        .as_ref()
        .map_or(String::new(), |within| format!(" ({within})"));
    let limits = if limits == 1 {
        "1 limit".to_owned()
    } else {
        format!("{limits} limits")
    };
    println!("{file}: ok: {limits}{within}");
}
