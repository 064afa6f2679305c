//! A worker's life in virtual time, against replies written by hand.

use super::*;
use crate::{
    algorithm::{Algorithm, Kind, Parameters, Window},
    redis::resp::Reader,
};
use proptest::prelude::*;

mod gateway;

const RANDOM: [u8; 16] = [7; 16];
const ADMITTED: &[u8] = b"*4\r\n:1\r\n:9\r\n:0\r\n:60000000\r\n";
const REFUSED: &[u8] = b"*4\r\n:0\r\n:0\r\n:5000000\r\n:60000000\r\n";
const NOSCRIPT: &[u8] = b"-NOSCRIPT No matching script. Please use EVAL.\r\n";
const LINK: Connection = Connection(40);

fn ms(n: u64) -> Moment {
    Moment(1_000_000 + n * 1_000)
}

fn policy(redis: &str) -> Policy {
    let json = format!(
        r#"{{"redis": {{{redis} "timeout": "20ms"}}, "control": {{"switch": false}}, "outage": "deny", "limits": [
            {{"name": "a", "key": ["header:a"], "algorithm": "sliding-log", "rate": "10/1m"}},
            {{"name": "b", "key": ["header:b"], "algorithm": "sliding-log", "rate": "10/1m",
              "outage": "allow"}}
        ]}}"#
    );
    Policy::from_json(json.as_bytes()).unwrap().0
}

fn claim(kind: Kind, limit: usize, key: &str) -> Claim {
    let rated = kind != Kind::Concurrency;
    let parameters = Parameters {
        kind,
        count: 10,
        window: rated.then_some(Window::Span(Micros::from_secs(60))),
        burst: None,
        align: None,
        lease: None,
    };
    Claim {
        limit,
        key: key.to_owned(),
        algorithm: Algorithm::new(parameters).unwrap(),
        cost: 1,
        enforced: true,
    }
}

fn log_claim(key: &str) -> Claim {
    claim(Kind::SlidingLog, 0, key)
}

/// A worker on a single Redis, and what its host would see.
struct Stage {
    worker: Worker<u32>,
}

impl Stage {
    fn new(redis: &str) -> Self {
        Self {
            worker: Worker::new(&policy(redis), 1),
        }
    }

    /// With a link that is up.
    fn linked(redis: &str) -> Self {
        let mut stage = Self::new(redis);
        stage.begin(0, vec![log_claim("p:{x}:warm")], ms(0));
        stage.open(ms(0));
        assert_eq!(stage.sent().len(), 1);
        stage.reply(ADMITTED, ms(0));
        assert_eq!(stage.verdicts(), [(0, true)]);
        stage
    }

    fn begin(&mut self, request: u32, claims: Vec<Claim>, now: Moment) -> Ticket {
        let mut random = RANDOM;
        random[0] = request as u8;
        self.worker.begin(request, claims, random, now)
    }

    fn open(&mut self, now: Moment) {
        let attempt = self.worker.orders().open.expect("an order to open");
        assert!(self.worker.opened(attempt, LINK, now));
    }

    /// The commands ordered since the last look: their first word and their keys and arguments.
    fn sent(&mut self) -> Vec<Vec<String>> {
        let Some((to, bytes)) = self.worker.orders().write else {
            return Vec::new();
        };
        assert_eq!(to, LINK);
        let (mut reader, mut rest, mut commands) = (Reader::new(), &bytes[..], Vec::new());
        while let Some(command) = reader.read(&mut rest).expect("commands") {
            let Value::Array(words) = command else {
                panic!("{command:?}")
            };
            let text = |word| match word {
                Value::Bulk(bytes) => String::from_utf8(bytes).expect("text"),
                other => panic!("{other:?}"),
            };
            commands.push(words.into_iter().map(text).collect());
        }
        commands
    }

    fn reply(&mut self, bytes: &[u8], now: Moment) {
        assert!(self.worker.received(LINK, bytes, now));
    }

    fn verdicts(&mut self) -> Vec<(u32, bool)> {
        let verdict = |one: Settled<u32>| match one.outcome {
            Outcome::Verdict(verdict) => (one.request, verdict.allowed),
            other => panic!("{other:?}"),
        };
        self.worker.settled().into_iter().map(verdict).collect()
    }

    fn outages(&mut self) -> Vec<(u32, Silence, Leave)> {
        let outage = |one: Settled<u32>| match one.outcome {
            Outcome::Outage(why, leave) => (one.request, why, leave),
            other => panic!("{other:?}"),
        };
        self.worker.settled().into_iter().map(outage).collect()
    }
}

#[test]
fn requests_that_come_while_the_link_opens_are_sent_in_order_once_it_is_up() {
    let mut stage = Stage::new("");
    stage.begin(1, vec![log_claim("p:{one}:a")], ms(0));
    let order = stage.worker.orders();
    assert!(order.write.is_none());
    stage.begin(2, vec![log_claim("p:{two}:a")], ms(1));
    assert!(
        stage.worker.orders().open.is_none(),
        "one attempt at a time"
    );
    assert!(stage.worker.opened(order.open.unwrap(), LINK, ms(2)));
    let sent = stage.sent();
    assert_eq!(
        sent.iter().map(|c| c[3].as_str()).collect::<Vec<_>>(),
        ["p:{one}:a", "p:{two}:a"]
    );
    stage.reply(&[ADMITTED, REFUSED].concat(), ms(3));
    assert_eq!(stage.verdicts(), [(1, true), (2, false)]);
}

#[test]
fn b06_the_request_that_met_an_unknown_script_is_asked_again_once_with_all_of_it() {
    let mut stage = Stage::linked("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(5));
    assert_eq!(stage.sent()[0][0], "EVALSHA");
    stage.reply(NOSCRIPT, ms(6));
    assert_eq!(stage.sent()[0][0], "EVAL");
    assert!(stage.worker.settled().is_empty());
    stage.reply(ADMITTED, ms(7));
    assert_eq!(stage.verdicts(), [(1, true)]);

    stage.begin(2, vec![log_claim("p:{x}:a")], ms(8));
    stage.reply(NOSCRIPT, ms(9));
    stage.reply(NOSCRIPT, ms(9));
    let noscript = Silence::Refused(ErrorKind::NoScript);
    assert_eq!(stage.outages(), [(2, noscript, Leave::Refuse)]);
}

#[test]
fn b58_a_late_reply_is_dropped_and_the_next_request_gets_its_own() {
    let mut stage = Stage::linked("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.worker.tick(ms(19));
    assert!(stage.worker.settled().is_empty());
    stage.worker.tick(ms(20));
    assert_eq!(stage.outages(), [(1, Silence::TimedOut, Leave::Refuse)]);
    stage.begin(2, vec![log_claim("p:{x}:a")], ms(21));
    stage.reply(&[ADMITTED, REFUSED].concat(), ms(22));
    assert_eq!(stage.verdicts(), [(2, false)]);
    assert!(!stage.worker.busy());
}

#[test]
fn when_no_link_opens_everyone_is_told_and_nobody_waits_until_the_next_attempt() {
    let mut stage = Stage::new("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.begin(2, vec![claim(Kind::SlidingLog, 1, "p:{x}:b")], ms(0));
    let attempt = stage.worker.orders().open.unwrap();
    stage.worker.open_failed(attempt, ms(1));
    let both = [
        (1, Silence::Unreachable, Leave::Refuse),
        (2, Silence::Unreachable, Leave::Forward),
    ];
    assert_eq!(stage.outages(), both);
    stage.begin(3, vec![log_claim("p:{x}:a")], ms(2));
    assert_eq!(stage.outages(), [(3, Silence::Unreachable, Leave::Refuse)]);
    assert!(
        !stage.worker.opened(attempt, LINK, ms(3)),
        "a link of an old attempt closes itself"
    );
    stage.begin(4, vec![log_claim("p:{x}:a")], ms(40));
    stage.open(ms(41));
    assert_eq!(stage.sent().len(), 1);
}

#[test]
fn an_opening_that_never_reports_ends_and_what_waited_ended_before() {
    let mut stage = Stage::new("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.worker.tick(ms(20));
    assert_eq!(stage.outages().len(), 1);
    assert!(stage.worker.busy(), "the attempt still has a deadline");
    stage.worker.tick(ms(100));
    assert!(!stage.worker.busy());
    assert_eq!(
        stage.worker.events(),
        [Event::LinkFailed(Silence::TimedOut)]
    );
}

#[test]
fn a_link_is_up_with_its_first_good_reply_and_one_that_never_had_any_was_never_there() {
    let mut stage = Stage::new(r#""password": "guess","#);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.open(ms(0));
    let wrong = b"-WRONGPASS invalid username-password pair\r\n";
    assert!(!stage.worker.received(LINK, wrong, ms(1)));
    let refused = Silence::Refused(ErrorKind::WrongPass);
    assert_eq!(stage.worker.events(), [Event::LinkFailed(refused)]);
    stage.begin(2, vec![log_claim("p:{x}:a")], ms(600));
    stage.open(ms(600));
    stage.reply(b"+OK\r\n", ms(601));
    assert_eq!(stage.worker.events(), [], "it may still refuse everything");
    stage.reply(ADMITTED, ms(602));
    assert_eq!(stage.worker.events(), [Event::LinkUp]);
    stage.worker.closed(LINK, ms(603));
    assert_eq!(stage.worker.events(), [Event::LinkLost(Silence::Lost)]);
    stage.begin(3, vec![log_claim("p:{x}:a")], ms(604));
    stage.open(ms(604));
    stage.worker.closed(LINK, ms(605));
    assert_eq!(stage.worker.events(), [Event::LinkFailed(Silence::Lost)]);
}

#[test]
fn a_lost_link_settles_whoever_waited_on_it_and_the_next_request_opens_another() {
    let mut stage = Stage::linked("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(1));
    stage.worker.closed(LINK, ms(2));
    assert_eq!(stage.outages(), [(1, Silence::Lost, Leave::Refuse)]);
    stage.begin(2, vec![log_claim("p:{x}:a")], ms(3));
    assert!(stage.worker.orders().open.is_some());
}

#[test]
fn a_link_that_owes_and_says_nothing_is_given_up() {
    let mut stage = Stage::linked("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.sent();
    stage.worker.tick(ms(900));
    assert!(stage.worker.orders().close.is_none());
    stage.worker.tick(ms(1_000));
    assert_eq!(stage.worker.orders().close, Some(LINK));
    assert!(!stage.worker.busy());
}

#[test]
fn after_a_row_of_failures_nobody_waits_and_one_at_a_time_tries() {
    let mut stage = Stage::linked("");
    for n in 0..10 {
        stage.begin(n, vec![log_claim("p:{x}:a")], ms(0));
    }
    stage.worker.tick(ms(20));
    assert_eq!(stage.outages().len(), 10);
    stage.sent();
    stage.begin(20, vec![log_claim("p:{x}:a")], ms(21));
    assert_eq!(stage.outages(), [(20, Silence::Skipped, Leave::Refuse)]);
    assert!(stage.sent().is_empty());
    stage.begin(21, vec![log_claim("p:{x}:a")], ms(280));
    stage.begin(22, vec![log_claim("p:{x}:a")], ms(281));
    assert_eq!(stage.outages(), [(22, Silence::Skipped, Leave::Refuse)]);
    assert_eq!(stage.sent().len(), 1, "the probe");
    stage.reply(&[ADMITTED.repeat(10), ADMITTED.to_vec()].concat(), ms(282));
    assert_eq!(stage.verdicts(), [(21, true)]);
    stage.begin(23, vec![log_claim("p:{x}:a")], ms(283));
    assert_eq!(stage.sent().len(), 1);
    assert!(stage.worker.events().contains(&Event::BreakerClosed));
}

#[test]
fn b21_in_a_cluster_what_the_others_took_is_given_back_when_one_refuses() {
    let mut stage = Stage::linked(r#""topology": "cluster","#);
    let claims = vec![
        log_claim("p:{a}:one"),
        log_claim("p:{b}:two"),
        log_claim("p:{a}:three"),
    ];
    stage.begin(1, claims, ms(0));
    let sent = stage.sent();
    assert_eq!(sent.len(), 2, "one command a hash tag: {sent:?}");
    assert_eq!(sent[0][2..5], ["2", "p:{a}:one", "p:{a}:three"]);
    let both = b"*8\r\n:1\r\n:4\r\n:0\r\n:1\r\n:1\r\n:5\r\n:0\r\n:1\r\n";
    stage.reply(both, ms(1));
    assert!(
        stage.worker.settled().is_empty(),
        "the other part is still out"
    );
    stage.reply(REFUSED, ms(2));
    let given = stage.sent();
    assert_eq!((given.len(), &given[0][3..5]), (1, &sent[0][3..5]));
    let settled = stage.worker.settled();
    let Outcome::Verdict(verdict) = &settled[0].outcome else {
        panic!()
    };
    assert!(!verdict.allowed);
    let remaining: Vec<u64> = verdict.judged.iter().map(|j| j.reading.remaining).collect();
    assert_eq!(
        remaining,
        [5, 0, 6],
        "as it is after the give-back, in the order asked"
    );
}

#[test]
fn b21_in_a_cluster_what_one_part_took_is_given_back_when_another_is_silent_and_the_request_refused()
 {
    const DOWN: &[u8] = b"-upstream failure\r\n";
    for (limit, gives) in [(0, 1), (1, 0)] {
        let mut stage = Stage::linked(r#""topology": "cluster","#);
        let mut claims = vec![log_claim("p:{a}:one"), log_claim("p:{b}:two")];
        claims.iter_mut().for_each(|claim| claim.limit = limit);
        stage.begin(1, claims, ms(0));
        assert_eq!(stage.sent().len(), 2);
        stage.reply(ADMITTED, ms(1));
        stage.reply(DOWN, ms(2));
        let leave = stage.outages().remove(0).2;
        assert_eq!(leave == Leave::Refuse, limit == 0, "limit 1 allows");
        let given = stage.sent();
        assert_eq!(given.len(), gives, "{given:?}");
        assert!(given.iter().all(|words| words[3] == "p:{a}:one"));
    }
}

#[test]
fn in_a_cluster_the_clients_of_a_living_master_are_asked_for_while_another_is_dead() {
    let mut stage = Stage::linked(r#""topology": "cluster","#);
    // Slots 12 182 and 3 443.
    for request in 1..=10 {
        stage.begin(request, vec![log_claim("p:{foo}:a")], ms(0));
        stage.reply(b"-upstream failure\r\n", ms(1));
    }
    stage.begin(11, vec![log_claim("p:{foo}:a")], ms(2));
    assert_eq!(stage.outages()[10].1, Silence::Skipped);
    let _ = stage.sent();
    stage.begin(12, vec![log_claim("p:{user1000}:a")], ms(2));
    assert_eq!(stage.sent().len(), 1);
    stage.reply(ADMITTED, ms(3));
    assert_eq!(stage.verdicts(), [(12, true)]);
}

#[test]
fn a_shadow_limit_that_refuses_refuses_nobody() {
    let mut stage = Stage::linked("");
    let mut shadow = log_claim("p:{x}:s");
    shadow.enforced = false;
    stage.begin(1, vec![log_claim("p:{x}:a"), shadow], ms(0));
    stage.reply(
        b"*8\r\n:1\r\n:4\r\n:0\r\n:1\r\n:0\r\n:0\r\n:9\r\n:9\r\n",
        ms(1),
    );
    assert_eq!(stage.verdicts(), [(1, true)]);
}

#[test]
fn a_lease_is_held_until_the_request_ends_and_then_given_back_even_to_a_redis_without_the_script() {
    let mut stage = Stage::linked("");
    stage.begin(
        1,
        vec![log_claim("p:{x}:a"), claim(Kind::Concurrency, 1, "p:{x}:b")],
        ms(0),
    );
    stage.sent();
    stage.reply(
        b"*8\r\n:1\r\n:4\r\n:0\r\n:1\r\n:1\r\n:0\r\n:0\r\n:9\r\n",
        ms(1),
    );
    let lease = stage.worker.settled().remove(0).lease.expect("a lease");
    stage.worker.release(lease, ms(500));
    let given = stage.sent();
    assert_eq!(
        (given[0][0].as_str(), &given[0][2..4]),
        ("EVALSHA", &["1".to_owned(), "p:{x}:b".to_owned()][..])
    );
    stage.reply(NOSCRIPT, ms(501));
    assert_eq!(stage.sent()[0][0], "EVAL");
    stage.reply(b"*0\r\n", ms(502));
    assert!(!stage.worker.busy());
}

#[test]
fn a_lease_that_may_have_been_taken_unseen_is_given_back_behind_the_take() {
    let mut stage = Stage::linked("");
    stage.begin(1, vec![claim(Kind::Concurrency, 1, "p:{x}:b")], ms(0));
    let gone = stage.begin(2, vec![claim(Kind::Concurrency, 1, "p:{x}:b")], ms(10));
    assert_eq!(stage.sent().len(), 2);
    assert!(stage.worker.forget(gone, ms(11)));
    assert_eq!(stage.sent().len(), 1, "its client hung up");
    stage.worker.tick(ms(20));
    assert_eq!(stage.outages().len(), 1);
    assert_eq!(stage.sent().len(), 1, "its deadline passed");
    assert!(!stage.worker.forget(gone, ms(21)), "once only");
}

#[test]
fn a_straight_link_says_its_password_first() {
    let mut stage = Stage::new(r#""password": "s3cret-s3cret","#);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.open(ms(1));
    assert_eq!(stage.sent(), [["AUTH", "s3cret-s3cret"]]);
    stage.reply(b"+OK\r\n", ms(2));
    assert_eq!(stage.sent().len(), 1);
}

#[test]
fn bytes_that_are_no_replies_close_the_link() {
    let mut stage = Stage::linked("");
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    assert!(!stage.worker.received(LINK, b"HTTP/1.1 400\r\n", ms(1)));
    assert_eq!(stage.outages(), [(1, Silence::Garbage, Leave::Refuse)]);
}

/// A policy whose limit falls back to this worker, which has a part of it.
fn local(limit: &str) -> Stage {
    let json = format!(
        r#"{{"outage": "local", "local": {{"share": "1/2"}}, "control": {{"switch": false}}, "limits": [
            {{"name": "a", "key": ["header:a"], "missing": "shared", {limit}}}]}}"#
    );
    let policy = Policy::from_json(json.as_bytes()).unwrap().0;
    Stage {
        worker: Worker::new(&policy, 1),
    }
}

/// Begins and settles by its own limiter: whether it is allowed.
fn locally(stage: &mut Stage, claim: Claim, now: Moment) -> bool {
    stage.begin(1, vec![claim], now);
    let settled = stage.worker.settled();
    assert_eq!(settled.len(), 1, "nobody waits");
    match &settled[0].outcome {
        Outcome::Local(_, verdict) => verdict.allowed,
        other => panic!("{other:?}"),
    }
}

#[test]
fn while_redis_does_not_answer_a_worker_admits_its_share_and_tells_redis_afterwards() {
    let mut stage = local(r#""algorithm": "sliding-log", "rate": "10/1m""#);
    stage.begin(0, vec![log_claim("p:{x}:a")], ms(0));
    let attempt = stage.worker.orders().open.unwrap();
    stage.worker.open_failed(attempt, ms(0));
    let mut admitted = stage.worker.settled().len();
    for _ in 0..20 {
        admitted += usize::from(locally(&mut stage, log_claim("p:{x}:a"), ms(1)));
    }
    assert_eq!(admitted, 5, "half of ten");

    let back = ms(2_000);
    stage.begin(30, vec![log_claim("p:{y}:a")], back);
    stage.open(back);
    stage.sent();
    stage.reply(ADMITTED, back);
    assert_eq!(stage.verdicts(), [(30, true)]);
    stage.begin(31, vec![log_claim("p:{x}:a")], back);
    let sent = stage.sent();
    let words = |at: usize| {
        (
            sent[at][0].as_str(),
            sent[at][3].as_str(),
            sent[at][6..8].to_vec(),
        )
    };
    assert_eq!(
        words(0),
        ("EVAL", "p:{x}:a", vec!["-1".to_owned(), "5".to_owned()])
    );
    assert_eq!(
        words(1),
        ("EVALSHA", "p:{x}:a", vec!["1".to_owned(), "1".to_owned()])
    );
    assert_ne!(sent[0][5], sent[1][5], "names of their own");
    stage.reply(&[ADMITTED, ADMITTED].concat(), back);
    assert_eq!(stage.verdicts(), [(31, true)]);
    stage.begin(32, vec![log_claim("p:{x}:a")], back);
    assert_eq!(stage.sent().len(), 1, "a debt is paid once");
}

#[test]
fn a_debt_that_redis_did_not_answer_is_still_owed_and_still_counts_here() {
    let mut stage = local(r#""algorithm": "sliding-log", "rate": "10/1m""#);
    stage.begin(0, vec![log_claim("p:{y}:a")], ms(0));
    stage.open(ms(0));
    stage.reply(ADMITTED, ms(0));
    stage.worker.settled();
    for n in 0..9 {
        stage.begin(n, vec![log_claim("p:{x}:a")], ms(u64::from(n) * 30));
        stage.worker.tick(ms(u64::from(n) * 30 + 20));
    }
    let allowed =
        |one: &Settled<u32>| matches!(&one.outcome, Outcome::Local(_, verdict) if verdict.allowed);
    let settled = stage.worker.settled();
    assert_eq!(settled.iter().filter(|one| allowed(one)).count(), 5);
}

#[test]
fn a_lease_taken_from_the_own_limiter_goes_back_to_it() {
    let mut stage = local(r#""algorithm": "concurrency", "rate": 2"#);
    let one = || Claim {
        algorithm: claim(Kind::Concurrency, 0, "").algorithm.share(5),
        ..claim(Kind::Concurrency, 0, "p:{x}:a")
    };
    stage.begin(0, vec![one()], ms(0));
    let attempt = stage.worker.orders().open.unwrap();
    stage.worker.open_failed(attempt, ms(0));
    let lease = stage.worker.settled().remove(0).lease.expect("a lease");
    assert!(!locally(&mut stage, one(), ms(1)));
    stage.worker.release(lease, ms(2));
    assert!(locally(&mut stage, one(), ms(3)));
}

#[test]
fn a_remembered_refusal_costs_redis_nothing_until_it_ends() {
    let mut stage = Stage::linked(r#""remember_refusals": "1s","#);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.sent();
    stage.reply(REFUSED, ms(1));
    assert_eq!(stage.verdicts(), [(1, false)]);
    stage.begin(2, vec![log_claim("p:{x}:a")], ms(900));
    assert!(stage.sent().is_empty());
    assert_eq!(stage.verdicts(), [(2, false)]);
    stage.begin(3, vec![log_claim("p:{y}:a")], ms(900));
    assert_eq!(stage.sent().len(), 1, "another client");
    stage.begin(4, vec![log_claim("p:{x}:a")], ms(1_001));
    assert_eq!(stage.sent().len(), 1, "asked again");
}

/// With a link that is up, and a switch.
fn with_switch() -> Stage {
    let json = r#"{"redis": {"timeout": "20ms"}, "outage": "deny", "limits": [
        {"name": "a", "key": ["header:a"], "algorithm": "sliding-log", "rate": "10/1m"}]}"#;
    let policy = Policy::from_json(json.as_bytes()).unwrap().0;
    let mut stage = Stage {
        worker: Worker::new(&policy, 1),
    };
    stage.begin(0, vec![log_claim("p:{x}:warm")], ms(0));
    stage.open(ms(0));
    stage.reply(&[b"$-1\r\n", ADMITTED].concat(), ms(0));
    assert_eq!(stage.verdicts(), [(0, true)]);
    stage.sent();
    stage
}

#[test]
fn the_first_request_of_a_worker_heeds_the_switch() {
    let policy = r#"{"outage": "deny", "limits": [
        {"name": "a", "key": ["header:a"], "algorithm": "sliding-log", "rate": "10/1m"}]}"#;
    let policy = Policy::from_json(policy.as_bytes()).unwrap().0;
    let mut stage = Stage {
        worker: Worker::new(&policy, 1),
    };
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    stage.open(ms(1));
    stage.reply(&[b"$6\r\nshadow\r\n", REFUSED].concat(), ms(2));
    assert_eq!(stage.verdicts(), [(1, true)]);
}

#[test]
fn where_no_limit_is_asked_about_the_control_key_is_read_all_the_same() {
    let mut stage = with_switch();
    assert!(!stage.worker.look(ms(1)), "not yet");
    assert!(stage.worker.look(ms(1_000)));
    assert_eq!(stage.sent(), [["GET", "aforo:control"]]);
    assert!(!stage.worker.look(ms(1_001)), "asked already");
    stage.reply(b"$6\r\nshadow\r\n", ms(1_001));
    assert!(stage.worker.shadow());
}

#[test]
fn the_switch_holds_for_the_very_next_verdict_and_until_it_is_turned_back() {
    let mut stage = with_switch();
    let later = ms(1_000);
    stage.begin(1, vec![log_claim("p:{x}:a")], later);
    let sent = stage.sent();
    assert_eq!(sent[0], ["GET", "aforo:control"]);
    assert_eq!(sent[1][0], "EVALSHA");
    stage.reply(&[b"$6\r\nshadow\r\n", REFUSED].concat(), later);
    assert_eq!(stage.verdicts(), [(1, true)]);
    assert!(stage.worker.events().contains(&Event::Shadow(true)));
    stage.begin(2, vec![log_claim("p:{x}:a")], later);
    assert_eq!(stage.sent()[1][6], "-1", "asked in shadow mode");
    stage.reply(&[b"$-1\r\n", REFUSED].concat(), later);
    assert_eq!(stage.verdicts(), [(2, true)]);
    stage.begin(3, vec![log_claim("p:{x}:a")], later);
    stage.reply(&[b"$-1\r\n", REFUSED].concat(), later);
    assert_eq!(stage.verdicts(), [(3, false)]);
}

#[test]
fn under_the_switch_an_outage_refuses_nobody() {
    let mut stage = with_switch();
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(1_000));
    stage.sent();
    stage.reply(b"$6\r\nshadow\r\n", ms(1_001));
    stage.worker.tick(ms(1_020));
    assert_eq!(stage.outages(), [(1, Silence::TimedOut, Leave::Forward)]);
}

#[derive(Clone, Debug)]
enum Act {
    Begin(bool),
    Forget(usize),
    Open,
    Fail,
    Close,
    Reply(u8),
    Wait(u64),
}

proptest! {
    /// Whatever happens in whatever order, a request is settled once, or forgotten, and never both;
    /// and when time has passed nothing waits.
    #[test]
    fn every_request_leaves_exactly_once(
        acts in proptest::collection::vec(prop_oneof![
            4 => any::<bool>().prop_map(Act::Begin),
            1 => (0_usize..50).prop_map(Act::Forget),
            2 => Just(Act::Open),
            1 => Just(Act::Fail),
            1 => Just(Act::Close),
            4 => any::<u8>().prop_map(Act::Reply),
            2 => (0_u64..40).prop_map(Act::Wait),
        ], 0..120),
    ) {
        let mut worker: Worker<u32> = Worker::new(&policy(r#""topology": "cluster","#), 1);
        let (mut now, mut begun, mut left) = (ms(0), Vec::new(), Vec::new());
        let (mut opening, mut link, mut connections) = (None, None, 100);
        let mut owed = 0_usize;
        for act in acts {
            match act {
                Act::Begin(two) => {
                    let mut claims = vec![log_claim("p:{a}:one")];
                    if two {
                        claims.push(claim(Kind::Concurrency, 1, "p:{b}:two"));
                    }
                    let request = begun.len() as u32;
                    begun.push(worker.begin(request, claims, RANDOM, now));
                }
                Act::Forget(n) => {
                    if let Some(ticket) = begun.get(n) && worker.forget(*ticket, now) {
                        left.push(n as u32);
                    }
                }
                Act::Open => if let Some(attempt) = opening.take() {
                    connections += 1;
                    let connection = Connection(connections);
                    if worker.opened(attempt, connection, now) {
                        (link, owed) = (Some(connection), 0);
                    }
                },
                Act::Fail => if let Some(attempt) = opening.take() {
                    worker.open_failed(attempt, now);
                },
                Act::Close => if let Some(connection) = link.take() {
                    worker.closed(connection, now);
                },
                Act::Reply(kind) => if let (Some(connection), 1..) = (link, owed) {
                    owed -= 1;
                    let reply = [ADMITTED, REFUSED, NOSCRIPT, b"-ERR x\r\n", b"$3\r\nabc\r\n"]
                        [usize::from(kind) % 5];
                    if !worker.received(connection, reply, now) {
                        link = None;
                    }
                },
                Act::Wait(n) => {
                    now = now.plus(Micros::from_millis(n));
                    worker.tick(now);
                }
            }
            let orders = worker.orders();
            opening = orders.open.or(opening);
            if let Some((to, bytes)) = orders.write && Some(to) == link {
                owed += bytes.windows(5).filter(|w| w == b"\r\nEVA").count();
            }
            if orders.close.is_some() {
                link = None;
            }
            left.extend(worker.settled().into_iter().map(|one| one.request));
        }
        for _ in 0..4 {
            now = now.plus(Micros::from_secs(61));
            worker.tick(now);
        }
        left.extend(worker.settled().into_iter().map(|one| one.request));
        left.sort_unstable();
        prop_assert_eq!(left, (0..begun.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(worker.depth(), (0, 0));
        prop_assert!(!worker.busy());
    }
}
