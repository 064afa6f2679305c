//! stub
#![allow(missing_docs)]
use crate::{claim::Claim, redis::resp::*, units::Micros, verdict::*};
pub struct Script {
    body: &'static str,
    sha: String,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum Mode {
    Take,
    Give,
}
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum By {
    Sha,
    Body,
}
#[derive(Clone, Debug)]
pub struct Member(String);
impl Member {
    pub fn new(r: [u8; 16]) -> Self {
        Self(format!("{:032x}", u128::from_le_bytes(r)))
    }
}
pub enum Unreadable {
    NoScript,
    Error(String),
    Malformed,
}
impl Script {
    pub fn production() -> Self {
        Self {
            body: "local n = redis.call('INCR', KEYS[1]) redis.call('PEXPIRE', KEYS[1], 60000) local ok = n <= 100 and 1 or 0 return {ok, math.max(0, 100-n), ok == 1 and 0 or 60000000, 60000000}",
            sha: "f00".into(),
        }
    }
    pub fn write<'a>(
        &self,
        _: Mode,
        by: By,
        claims: impl Iterator<Item = &'a Claim>,
        _m: &Member,
        out: &mut Vec<u8>,
    ) {
        let keys: Vec<&str> = claims.map(|c| c.key.as_str()).collect();
        let n = keys.len().to_string();
        let mut w = match by {
            By::Sha => vec!["EVALSHA", self.sha.as_str(), n.as_str()],
            By::Body => vec!["EVAL", self.body, n.as_str()],
        };
        w.extend(keys);
        write_command(out, &w);
    }
}
pub fn read(v: &Value, _n: usize) -> Result<Vec<Reading>, Unreadable> {
    match v {
        Value::Error(e) if e.starts_with(b"NOSCRIPT") => Err(Unreadable::NoScript),
        Value::Error(e) => Err(Unreadable::Error(String::from_utf8_lossy(e).into_owned())),
        Value::Array(a) => {
            let i: Vec<i64> = a
                .iter()
                .filter_map(|v| {
                    if let Value::Integer(i) = v {
                        Some(*i)
                    } else {
                        None
                    }
                })
                .collect();
            match i.as_slice() {
                [ok, r, w, t] => Ok(vec![Reading {
                    admitted: *ok == 1,
                    remaining: *r as u64,
                    wait: Wait::For(Micros(*w as u64)),
                    reset: Micros(*t as u64),
                }]),
                _ => Err(Unreadable::Malformed),
            }
        }
        _ => Err(Unreadable::Malformed),
    }
}
