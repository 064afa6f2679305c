//! The commands that speak to Redis, against a real one, and what real Envoys make of it.
#![allow(
    clippy::disallowed_methods,
    reason = "only the module must not read a clock; a test measures how long things take"
)]

mod links;
mod rollout;
mod store;

use std::{
    path::Path,
    process::{Command, Output},
};

use serde_json::{Value, json};
use support::{Dir, redis::Redis};

/// What the command printed, and its exit code.
pub struct Said {
    code: i32,
    text: String,
}

impl Said {
    /// Its text, when it ended with this code.
    #[track_caller]
    pub fn with(self, code: i32) -> String {
        assert_eq!(self.code, code, "{}", self.text);
        self.text
    }
}

impl From<Output> for Said {
    fn from(output: Output) -> Self {
        let text = [output.stdout, output.stderr].concat();
        Self {
            code: output.status.code().expect("an exit code"),
            text: String::from_utf8(text).expect("text"),
        }
    }
}

/// The command, with no settings from this environment.
pub fn command(words: &[&str]) -> Command {
    let mut command = Command::new(env!("CARGO_BIN_EXE_aforo"));
    command.args(words).env_clear();
    command
}

/// Runs the command.
pub fn aforo(words: &[&str]) -> Said {
    command(words).output().expect("aforo runs").into()
}

/// Runs the command on this Redis.
pub fn on(redis: &Redis, words: &[&str]) -> Said {
    let url = format!("redis://127.0.0.1:{}", redis.port());
    aforo(&[words, &["--redis", &url]].concat())
}

/// Pushes this policy.
pub fn push(redis: &Redis, policy: &Value) -> Said {
    let dir = Dir::temporary("policy");
    on(redis, &["push", &write(&dir, policy)])
}

/// Writes a policy into a file; its path.
pub fn write(dir: &Dir, policy: &Value) -> String {
    let path = dir.join("policy.json");
    std::fs::write(&path, policy.to_string()).expect("write the policy");
    path_text(&path)
}

/// A path as text.
pub fn path_text(path: &Path) -> String {
    path.to_str().expect("a path of text").to_owned()
}

/// A policy with one limit by the header `x-api-key`.
pub fn limit(rate: &str) -> Value {
    json!({"limits": [{"name": "per-key", "key": ["header:x-api-key"], "algorithm": "sliding-log",
                       "rate": rate}]})
}
