//! Replies that are not the script's, or not in the form it gives them.

use aforo::{
    algorithm::Kind,
    redis::{
        error::ErrorKind,
        resp::Value,
        script::{By, Call, Commands, Member, Mode, Script, Unreadable, Words, read},
    },
    units::Micros,
    verdict::Wait,
};
use proptest::prelude::*;

use crate::script::{claim, limit, member};

fn claims(n: usize) -> Vec<aforo::claim::Claim> {
    let of = |n: usize| {
        claim(
            &n.to_string(),
            limit(Kind::Gcra, 10, Micros::from_secs(60)),
            1,
        )
    };
    (0..n).map(of).collect()
}

fn integers(numbers: &[i64]) -> Value {
    Value::Array(numbers.iter().map(|&n| Value::Integer(n)).collect())
}

fn texts(texts: &[&str]) -> Value {
    Value::Array(
        texts
            .iter()
            .map(|text| Value::Bulk(text.as_bytes().into()))
            .collect(),
    )
}

#[test]
fn b56_numbers_may_come_as_text() {
    let as_numbers = read(&integers(&[1, 4, 0, 7]), &claims(1)).unwrap();
    assert_eq!(
        as_numbers,
        read(&texts(&["1", "4", "0", "7"]), &claims(1)).unwrap()
    );
    assert_eq!(
        (as_numbers[0].remaining, as_numbers[0].reset),
        (4, Micros(7))
    );
    let never = read(&integers(&[0, 4, -1, 7]), &claims(1)).unwrap();
    assert_eq!((never[0].admitted, never[0].wait), (false, Wait::Never));
}

#[test]
fn b56_anything_else_is_no_verdict() {
    let malformed = |reply: Value, at: usize| {
        assert_eq!(
            read(&reply, &claims(1)),
            Err(Unreadable::Malformed { at }),
            "{reply:?}"
        );
    };
    malformed(integers(&[1, 4, 0]), 3);
    malformed(integers(&[1, 4, 0, 7, 9]), 4);
    malformed(integers(&[2, 4, 0, 7]), 0);
    malformed(integers(&[-1, 4, 0, 7]), 0);
    malformed(integers(&[1, 11, 0, 7]), 1);
    malformed(integers(&[1, i64::MIN, 0, 7]), 1);
    malformed(integers(&[1, 4, 5, 7]), 2);
    malformed(integers(&[0, 4, 0, 7]), 2);
    malformed(integers(&[0, 4, -2, 7]), 2);
    malformed(integers(&[0, 4, i64::MAX, 7]), 2);
    malformed(integers(&[1, 4, 0, i64::MAX]), 3);
    malformed(texts(&["1", "4.0", "0", "7"]), 1);
    malformed(texts(&["1", "1e3", "0", "7"]), 1);
    malformed(Value::Array(vec![Value::Integer(1), Value::Nil]), 1);
    malformed(Value::Array(vec![integers(&[1, 4, 0, 7])]), 0);
    malformed(Value::Array(vec![]), 0);
    malformed(Value::Nil, 0);
    malformed(Value::Integer(1), 0);
    malformed(Value::Status(b"OK".to_vec()), 0);
    malformed(Value::Bulk(b"1 4 0 7".to_vec()), 0);
}

#[test]
fn b05_an_error_is_no_verdict_and_keeps_its_kind() {
    for (text, kind) in [
        (
            "NOSCRIPT No matching script. Please use EVAL.",
            ErrorKind::NoScript,
        ),
        ("MOVED 3999 127.0.0.1:6381", ErrorKind::Moved),
        ("no upstream host", ErrorKind::NoUpstreamHost),
        ("ERR", ErrorKind::Other),
        ("", ErrorKind::Other),
        (
            "ERR Error running script (call to f_0a): @user_script:9: -OOM command not allowed \
             when used memory > 'maxmemory'.",
            ErrorKind::Oom,
        ),
        (
            "WRONGTYPE Operation against a key script: 0a, on @user_script:12.",
            ErrorKind::WrongType,
        ),
    ] {
        let read = read(&Value::Error(text.into()), &claims(1));
        assert_eq!(read, Err(Unreadable::Redis(kind)), "{text}");
    }
}

#[test]
fn a_call_reads_the_same_as_a_command_and_as_a_list() {
    for by in [By::Sha, By::Body] {
        let call = Call {
            mode: Mode::Give,
            by,
        };
        let (mut bytes, mut list) = (Vec::new(), Vec::<Vec<u8>>::new());
        call.write(&claims(3), member(7), &mut Commands(&mut bytes));
        call.write(&claims(3), member(7), &mut list);
        let mut again = Vec::new();
        let mut out = Commands(&mut again);
        out.begin(list.len());
        list.iter().for_each(|word| out.word(word));
        assert_eq!(bytes, again);
        let script = Script::production();
        let name = [script.sha1(), script.body()];
        assert_eq!(list[1], name[usize::from(by == By::Body)].as_bytes());
        assert_eq!(list[2], b"3");
    }
}

#[test]
fn members_are_printable_and_different() {
    let all: std::collections::HashSet<_> = (0..=255_u8)
        .flat_map(|a| [0, 1, 2, 63].map(|b| (a, b)))
        .map(|(a, b)| {
            let mut random = [a & 63; 16];
            random[3] = b;
            random[9] = a >> 6;
            Member::new(random).as_str().to_owned()
        })
        .collect();
    assert!(all.len() > 1_000);
    let fine = |byte: u8| byte.is_ascii_alphanumeric() || byte == b'-' || byte == b'_';
    assert!(
        all.iter()
            .all(|name| name.len() == 16 && name.bytes().all(fine))
    );
}

fn values() -> impl Strategy<Value = Value> {
    let leaf = prop_oneof![
        any::<i64>().prop_map(Value::Integer),
        (-2_i64..20).prop_map(Value::Integer),
        any::<Vec<u8>>().prop_map(Value::Bulk),
        any::<Vec<u8>>().prop_map(Value::Error),
        any::<Vec<u8>>().prop_map(Value::Status),
        Just(Value::Nil),
    ];
    leaf.prop_recursive(3, 32, 9, |inner| {
        prop::collection::vec(inner, 0..9).prop_map(Value::Array)
    })
}

proptest! {
    #[test]
    fn no_reply_is_read_as_more_than_it_can_say(reply in values(), n in 0_usize..3) {
        if let Ok(readings) = read(&reply, &claims(n)) {
            prop_assert_eq!(readings.len(), n);
            for reading in readings {
                prop_assert!(reading.remaining <= 10);
                prop_assert_eq!(reading.admitted, reading.wait == Wait::For(Micros::ZERO));
            }
        }
    }
}
