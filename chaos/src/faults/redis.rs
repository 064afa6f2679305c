//! What a Redis does to its clients by itself.

use std::io::Write as _;
use std::net::TcpStream;
use std::time::{Duration, Instant};

use crate::stage::{Preparation, Stage};

/// The longest of the faults that just last.
const LONG: Duration = Duration::from_secs(5);

/// Killed and restarted, empty, ten times, or as often as a short run has time for.
pub fn killed(stage: &mut Stage) {
    let times = rounds(stage);
    for _ in 0..times {
        stage.redis.stop();
        stage.note_loss();
        stage.wait(stage.span() / times / 2);
        stage.redis.restart();
        stage.wait(stage.span() / times / 2);
    }
    stage.reconnect();
}

/// Stopped in its tracks.
pub fn frozen(stage: &mut Stage) {
    stage.redis.freeze();
    stage.wait(stage.span().min(LONG));
    stage.redis.thaw();
}

/// Told to leave its clients waiting.
pub fn paused(stage: &mut Stage) {
    let time = stage.span().min(LONG);
    stage.tell::<()>(&["CLIENT", "PAUSE", &time.as_millis().to_string(), "ALL"]);
    stage.wait(time);
}

/// Closes all connections, ten times.
pub fn kicked(stage: &mut Stage) {
    let times = rounds(stage);
    for _ in 0..times {
        kick(stage);
        stage.wait(stage.span() / times);
    }
}

/// Forgets every script twenty times a second.
pub fn flushed(stage: &mut Stage) {
    let end = Instant::now() + stage.span();
    while Instant::now() < end {
        stage.tell::<()>(&["SCRIPT", "FLUSH"]);
        stage.wait(Duration::from_millis(50));
    }
}

/// Takes no new clients, and loses those it has.
pub fn crowded(stage: &mut Stage) {
    let most: Vec<String> = stage.tell(&["CONFIG", "GET", "maxclients"]);
    stage.tell::<()>(&["CONFIG", "SET", "maxclients", "1"]);
    kick(stage);
    stage.wait(stage.span());
    let most = most.last().expect("CONFIG GET gives a value");
    stage.tell::<()>(&["CONFIG", "SET", "maxclients", most]);
}

/// Has no room for anything new.
pub fn full(stage: &mut Stage) {
    stage.tell::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    stage.wait(stage.span());
    stage.tell::<()>(&["CONFIG", "SET", "maxmemory", "0"]);
}

/// Runs a script of somebody else's that does not end.
pub fn busy(stage: &mut Stage) {
    stage.tell::<()>(&["CONFIG", "SET", "busy-reply-threshold", "50"]);
    let other = TcpStream::connect(("127.0.0.1", stage.redis.port()));
    let mut other = other.expect("a connection to Redis");
    let script = "EVAL \"while true do end\" 0\r\n";
    other.write_all(script.as_bytes()).expect("Redis reads");
    stage.wait(stage.span().min(LONG));
    stage.tell::<()>(&["SCRIPT", "KILL"]);
}

/// Is a replica, whose master is nowhere.
pub fn demoted(stage: &mut Stage) {
    let nowhere = support::free_port().to_string();
    stage.tell::<()>(&["REPLICAOF", "127.0.0.1", &nowhere]);
    stage.wait(stage.span());
    stage.tell::<()>(&["REPLICAOF", "NO", "ONE"]);
}

/// Redis and Envoy have a password in common.
pub fn with_password() -> Preparation {
    Preparation {
        password: Some("of the first hour"),
        ..Preparation::default()
    }
}

/// Wants another password from the next connection on.
pub fn password(stage: &mut Stage) {
    stage.tell::<()>(&["CONFIG", "SET", "requirepass", "another"]);
    kick(stage);
    stage.wait(stage.span());
    stage.tell::<()>(&["CONFIG", "SET", "requirepass", "of the first hour"]);
}

/// Forbids its scripts to everybody.
pub fn forbidden(stage: &mut Stage) {
    stage.tell::<()>(&["ACL", "SETUSER", "default", "-eval", "-evalsha"]);
    stage.wait(stage.span());
    stage.tell::<()>(&["ACL", "SETUSER", "default", "+eval", "+evalsha"]);
}

/// Closes every connection but ours.
fn kick(stage: &mut Stage) {
    let _: u64 = stage.tell(&["CLIENT", "KILL", "TYPE", "normal", "SKIPME", "yes"]);
}

/// Ten where there is time for them.
fn rounds(stage: &Stage) -> u32 {
    if stage.span() >= LONG { 10 } else { 3 }
}
