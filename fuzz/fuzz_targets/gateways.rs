//! Any status and body of an HTTP gateway is a reply or a silence.
#![no_main]

use aforo::redis::gateway::Gateway;
use libfuzzer_sys::fuzz_target;

fuzz_target!(|input: (Option<u16>, &[u8])| {
    let (status, body) = input;
    let _ = Gateway::webdis("webdis", None, None).reply(status, body);
    let _ = Gateway::upstash("upstash", "token").reply(status, body);
});
