//! The Webdis codec against a real Webdis: what we write arrives, and what comes back is understood.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpStream};

use aforo::outage::Silence;
use aforo::redis::error::ErrorKind;
use aforo::redis::gateway::Gateway;
use aforo::redis::resp::{self, Reader, Value};
use serde_json::json;
use support::client::post;
use support::hostile::LOOK_ALIKES;
use support::redis::Redis;
use support::until;
use support::webdis::Webdis;

/// What Redis says to one command, through Webdis.
fn ask(gateway: &Gateway, address: SocketAddr, words: &[&[u8]]) -> Result<Value, Silence> {
    let mut command = Vec::new();
    resp::write_command(&mut command, words);
    let request = gateway.request(&command, "a1").expect("a command");
    let header = |name: &str| request.headers.iter().find(|(known, _)| *known == name);
    let (_, path) = header(":path").expect("a path");
    let mut ask = post(path, request.body.clone());
    for (name, value) in &request.headers {
        if !name.starts_with(':') {
            ask = ask.header(name, value);
        }
    }
    let answer = ask.to(address);
    gateway.reply(Some(answer.status), &answer.body, "a1")
}

/// What Redis says to one command, straight.
fn straight(redis: &mut TcpStream, words: &[&[u8]]) -> Value {
    let mut command = Vec::new();
    resp::write_command(&mut command, words);
    redis.write_all(&command).expect("Redis takes a command");
    let (mut reader, mut bytes) = (Reader::new(), [0; 4096]);
    loop {
        let n = redis.read(&mut bytes).expect("Redis answers");
        assert!(n > 0, "Redis closed the connection");
        if let Some(value) = reader.read(&mut &bytes[..n]).expect("RESP") {
            return value;
        }
    }
}

fn open() -> (Redis, Webdis, Gateway) {
    let redis = Redis::start();
    let webdis = Webdis::start(redis.port(), &json!([]));
    (redis, webdis, Gateway::webdis("webdis", None, None))
}

#[test]
fn b54_any_bytes_reach_redis_as_they_are() {
    let (server, webdis, gateway) = open();
    let mut redis = TcpStream::connect(("127.0.0.1", server.port())).expect("Redis");
    let mut values: Vec<Vec<u8>> = LOOK_ALIKES.map(|text| text.as_bytes().to_vec()).to_vec();
    values.push(vec![b'%'; 8 * 1024]);
    values.extend((0..=255).map(|byte| vec![byte]));
    values.push((0..=255).collect());
    for value in &values {
        // Bytes that are no text have no place in the JSON that comes back, so they come as digests.
        let script = b"return redis.sha1hex(KEYS[1]) .. redis.sha1hex(ARGV[1]) .. ARGV[2] .. #ARGV";
        let words: [&[u8]; 6] = [b"EVAL", script, b"1", value, value, b"7"];
        let straight = straight(&mut redis, &words);
        let answer = ask(&gateway, webdis.address(), &words);
        assert_eq!(answer, Ok(straight), "{value:?}");
    }
}

#[test]
fn b05_errors_in_a_200_are_errors_with_their_kind() {
    let (redis, webdis, gateway) = open();
    let kind = |words: &[&[u8]]| match ask(&gateway, webdis.address(), words) {
        Ok(Value::Error(text)) => ErrorKind::of(&text),
        other => panic!("{other:?}"),
    };
    assert_eq!(kind(&[b"EVALSHA", b"ab", b"0"]), ErrorKind::NoScript);
    assert_eq!(kind(&[b"NONSENSE"]), ErrorKind::UnknownCommand);
    redis.call::<()>(&["SET", "text", "x"]);
    assert_eq!(kind(&[b"ZCARD", b"text"]), ErrorKind::WrongType);
    let zcard = b"return redis.call('zcard', KEYS[1])";
    assert_eq!(kind(&[b"EVAL", zcard, b"1", b"text"]), ErrorKind::WrongType);
    redis.call::<()>(&["CONFIG", "SET", "maxmemory", "1"]);
    let set = b"return redis.call('set', KEYS[1], 1)";
    assert_eq!(kind(&[b"EVAL", set, b"1", b"a"]), ErrorKind::Oom);
}

#[test]
fn b56_an_array_of_integers_is_what_redis_said_however_large_they_are() {
    let (_redis, webdis, gateway) = open();
    let eval = |script: &str| {
        ask(
            &gateway,
            webdis.address(),
            &[b"EVAL", script.as_bytes(), b"0"],
        )
    };
    let numbers = [1, 0, -1, 2_147_483_648, 9_007_199_254_740_991];
    let array = Value::Array(numbers.map(Value::Integer).to_vec());
    assert_eq!(
        eval("return {1, 0, -1, 2147483648, 9007199254740991}"),
        Ok(array)
    );
    assert_eq!(eval("return -7"), Ok(Value::Integer(-7)));
    assert_eq!(eval("return false"), Ok(Value::Nil));
    assert_eq!(
        eval("return redis.status_reply('OK')"),
        Ok(Value::Status(b"OK".to_vec()))
    );
    // Its fault, and why no answer of ours is nested.
    assert_eq!(
        eval("return {1, {2}}"),
        Ok(Value::Array(vec![Value::Integer(1), Value::Nil]))
    );
}

#[test]
fn its_access_list_lets_in_whom_the_policy_names() {
    let redis = Redis::start();
    let access = json!([
        { "disabled": ["*"] },
        { "http_basic_auth": "aforo:pa:ss/é", "enabled": ["EVAL", "EVALSHA"] },
    ]);
    let webdis = Webdis::start(redis.port(), &access);
    let eval: [&[u8]; 3] = [b"EVAL", b"return 1", b"0"];
    let ours = Gateway::webdis("webdis", Some("aforo"), Some("pa:ss/é"));
    assert_eq!(ask(&ours, webdis.address(), &eval), Ok(Value::Integer(1)));
    let forbidden = Err(Silence::Refused(ErrorKind::GatewayForbids));
    assert_eq!(ask(&ours, webdis.address(), &[b"GET", b"a"]), forbidden);
    let others = Gateway::webdis("webdis", Some("aforo"), Some("wrong"));
    assert_eq!(ask(&others, webdis.address(), &eval), forbidden);
}

#[test]
fn b55_without_redis_it_is_a_silence_and_right_again_after() {
    let (mut redis, webdis, gateway) = open();
    let eval: [&[u8]; 3] = [b"EVAL", b"return 1", b"0"];
    assert_eq!(
        ask(&gateway, webdis.address(), &eval),
        Ok(Value::Integer(1))
    );
    redis.stop();
    let down = Err(Silence::Refused(ErrorKind::GatewayDown));
    until("Webdis to notice", || {
        ask(&gateway, webdis.address(), &eval) == down
    });
    redis.restart();
    until("Webdis to reconnect", || {
        ask(&gateway, webdis.address(), &eval) == Ok(Value::Integer(1))
    });
}
