//! What lies in Redis: the control key, the pushed policies, and a list of them. Each change is one
//! script, and so happens whole or not at all, whoever else changes something at the same time.

use aforo::control::{self, Control};
use redis::{Cmd, cmd};

use super::{Failure, server::Connection};

/// So many of the last policies are kept, besides the one in force and the one before it.
pub const KEPT: u64 = 10;

/// The keys of one prefix and domain, over one connection.
pub struct Store {
    head: String,
    connection: Connection,
}

/// What a push did.
#[derive(Debug, PartialEq, Eq)]
pub struct Pushed {
    /// The policy's number.
    pub number: u64,
    /// The one that was in force before.
    pub before: u64,
    /// Whether it was in force already, as this number, and nothing was changed.
    pub same: bool,
    /// What the control key says now.
    pub words: String,
}

/// What a rollback did.
#[derive(Debug, PartialEq, Eq)]
pub struct RolledBack {
    /// The policy that was in force.
    pub from: u64,
    /// The one that is now.
    pub to: u64,
    /// What the control key says now.
    pub words: String,
}

/// What lies there.
#[derive(Debug)]
pub struct Contents {
    /// The control key as it stands.
    pub words: String,
    /// The control key as filters read it.
    pub control: Control,
    /// The stored policies, the newest first.
    pub policies: Vec<Entry>,
}

/// One stored policy.
#[derive(Debug, PartialEq, Eq)]
pub struct Entry {
    /// Its number.
    pub number: u64,
    /// Its bytes; 0: it is in the list and no longer there.
    pub bytes: u64,
    /// When it was pushed, in seconds since 1970 by the clock of Redis.
    pub time: u64,
    /// The one that was in force then.
    pub before: u64,
    /// What was said about it.
    pub note: String,
}

impl Store {
    /// The keys that begin with this head.
    pub const fn new(head: String, connection: Connection) -> Self {
        Self { head, connection }
    }

    /// Stores a policy under the next number and puts it in force.
    ///
    /// # Errors
    /// When Redis does not do it.
    pub fn push(&mut self, text: &str, note: &str) -> Result<Pushed, Failure> {
        let mut command = self.script(include_str!("push.lua"));
        command.arg(text).arg(note).arg(KEPT);
        let (number, before, same, words) = self.connection.ask(&command)?;
        Ok(Pushed {
            number,
            before,
            same,
            words,
        })
    }

    /// Puts another stored policy in force: this one, 0 for each proxy's own, or the one that was in
    /// force when the present one was pushed.
    ///
    /// # Errors
    /// When there is no such policy, or Redis does not do it.
    pub fn roll_back(&mut self, to: Option<u64>) -> Result<RolledBack, Failure> {
        let mut command = self.script(include_str!("rollback.lua"));
        command.arg(to.map_or(-1, |to| i64::try_from(to).unwrap_or(i64::MAX)));
        let (end, from, to, words): (String, u64, u64, String) = self.connection.ask(&command)?;
        let refused = match end.as_str() {
            "done" => return Ok(RolledBack { from, to, words }),
            "none" => "no pushed policy is in force, so there is none to go back from".to_owned(),
            "unknown" => format!("what was in force before policy {from} is not known; say --to N"),
            _ => format!("policy {to} is not stored any more; `aforo status` lists those that are"),
        };
        Err(Failure::Refused(refused))
    }

    /// Turns the switch. Gives what the control key said before and says now.
    ///
    /// # Errors
    /// When Redis does not do it.
    pub fn switch(&mut self, on: bool) -> Result<(String, String), Failure> {
        let mut command = self.script(include_str!("switch.lua"));
        command.arg(if on { "on" } else { "off" });
        self.connection.ask(&command)
    }

    /// What lies there. Read key by key: a push meanwhile may show in one and not in another.
    ///
    /// # Errors
    /// When Redis does not say.
    pub fn contents(&mut self) -> Result<Contents, Failure> {
        let words = self.words()?;
        let list: Vec<(String, String)> = self
            .connection
            .ask(cmd("HGETALL").arg(control::list_key(&self.head)))?;
        let mut policies = Vec::new();
        for (field, value) in list {
            let Ok(number) = field.parse() else { continue };
            let key = control::policy_key(&self.head, number);
            let bytes = self.connection.ask(cmd("STRLEN").arg(key))?;
            policies.push(Entry::read(number, bytes, &value));
        }
        policies.sort_by_key(|entry| std::cmp::Reverse(entry.number));
        Ok(Contents {
            control: Control::read(words.as_bytes()),
            words,
            policies,
        })
    }

    /// The control key as it stands.
    ///
    /// # Errors
    /// When Redis does not say.
    pub fn words(&mut self) -> Result<String, Failure> {
        let words: Option<Vec<u8>> = self
            .connection
            .ask(cmd("GET").arg(control::key(&self.head)))?;
        Ok(String::from_utf8_lossy(&words.unwrap_or_default()).into_owned())
    }

    /// A script with its two keys, and what the keys of policies begin with.
    fn script(&self, body: &str) -> Cmd {
        let mut command = cmd("EVAL");
        command
            .arg(format!("{}{body}", include_str!("words.lua")))
            .arg(2)
            .arg(control::key(&self.head))
            .arg(control::list_key(&self.head))
            .arg(control::policy_head(&self.head));
        command
    }
}

impl Entry {
    /// `TIME BEFORE NOTE`, as the script writes it.
    fn read(number: u64, bytes: u64, value: &str) -> Self {
        let mut parts = value.splitn(3, ' ');
        let mut integer = || parts.next().and_then(|part| part.parse().ok()).unwrap_or(0);
        Self {
            number,
            bytes,
            time: integer(),
            before: integer(),
            note: parts.next().unwrap_or_default().to_owned(),
        }
    }
}
