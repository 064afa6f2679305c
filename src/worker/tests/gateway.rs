//! The same life over calls to an HTTP gateway, which overtake one another.

use super::*;
use std::collections::HashSet;

const WEBDIS: &str = r#""link": "webdis", "cluster": "g","#;
const UPSTASH: &str = r#""link": "upstash", "cluster": "g", "token": "t","#;
const ADMITTED: &str = r#"{"EVALSHA":[1,9,0,60000000]}"#;
const REFUSED: &str = r#"{"EVALSHA":[0,0,5000000,60000000]}"#;
const NOSCRIPT: &str = r#"{"EVALSHA":[false,"NOSCRIPT No matching script."]}"#;

fn calls(stage: &mut Stage) -> Vec<Outgoing> {
    let orders = stage.worker.orders();
    assert!(orders.open.is_none() && orders.write.is_none() && orders.close.is_none());
    orders.calls
}

/// The one call ordered since the last look, and its words.
fn call(stage: &mut Stage) -> (Asked, Vec<String>) {
    let mut calls = calls(stage);
    assert_eq!(calls.len(), 1, "one call");
    let call = calls.remove(0);
    let body = String::from_utf8(call.request.body).expect("ASCII");
    let body = body.strip_suffix(".json").expect("the format").to_owned();
    let words = body.split('/').map(str::to_owned).collect();
    (call.number, words)
}

fn answer(stage: &mut Stage, call: Asked, body: &str, now: Moment) {
    let body = named(call, body);
    stage.worker.answered(call, Some(200), body.as_bytes(), now);
}

/// A reply as Webdis wraps that of this call of a worker with the seed 1.
fn named(Asked(number): Asked, body: &str) -> String {
    format!("a0000000000000001x{number:x}({body});")
}

#[test]
fn each_command_is_a_call_at_once_and_answers_come_in_any_order() {
    let mut stage = Stage::new(WEBDIS);
    stage.begin(1, vec![log_claim("p:{one}:a")], ms(0));
    stage.begin(2, vec![log_claim("p:{two}:a")], ms(5));
    let both = calls(&mut stage);
    assert_eq!(both.len(), 2, "neither waits for the other");
    assert!(
        both.iter()
            .all(|call| call.timeout >= Micros::from_millis(20))
    );
    assert!(stage.worker.busy());
    answer(&mut stage, both[1].number, REFUSED, ms(6));
    assert_eq!(stage.verdicts(), [(2, false)]);
    answer(&mut stage, both[0].number, ADMITTED, ms(7));
    assert_eq!(stage.verdicts(), [(1, true)]);
    assert!(!stage.worker.busy());
    assert_eq!(stage.worker.depth(), (0, 0));
}

#[test]
fn b06_an_unknown_script_is_sent_whole_once() {
    let mut stage = Stage::new(WEBDIS);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    let (first, words) = call(&mut stage);
    assert_eq!(words[0], "EVALSHA");
    answer(&mut stage, first, NOSCRIPT, ms(1));
    let (second, words) = call(&mut stage);
    assert_eq!(words[0], "EVAL");
    answer(&mut stage, second, ADMITTED, ms(2));
    assert_eq!(stage.verdicts(), [(1, true)]);

    stage.begin(2, vec![log_claim("p:{x}:a")], ms(3));
    let (first, _) = call(&mut stage);
    answer(&mut stage, first, NOSCRIPT, ms(4));
    let (second, _) = call(&mut stage);
    answer(&mut stage, second, NOSCRIPT, ms(5));
    let noscript = Silence::Refused(ErrorKind::NoScript);
    assert_eq!(stage.outages(), [(2, noscript, Leave::Refuse)]);
    assert!(calls(&mut stage).is_empty());
}

#[test]
fn b58_a_late_answer_settles_nothing() {
    let mut stage = Stage::new(WEBDIS);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    let (late, _) = call(&mut stage);
    stage.worker.tick(ms(20));
    assert_eq!(stage.outages(), [(1, Silence::TimedOut, Leave::Refuse)]);
    assert!(!stage.worker.busy(), "nobody waits");
    stage.begin(2, vec![log_claim("p:{x}:a")], ms(21));
    answer(&mut stage, late, ADMITTED, ms(22));
    assert!(stage.worker.settled().is_empty());
    let (own, _) = call(&mut stage);
    answer(&mut stage, own, REFUSED, ms(23));
    assert_eq!(stage.verdicts(), [(2, false)]);
}

#[test]
fn b40_a_call_that_cannot_be_made_is_an_outage_at_once() {
    let mut stage = Stage::new(WEBDIS);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    let (number, _) = call(&mut stage);
    stage.worker.call_failed(number, ms(0));
    assert_eq!(stage.outages(), [(1, Silence::Unreachable, Leave::Refuse)]);
    assert_eq!(
        stage.worker.events(),
        [Event::LinkFailed(Silence::Unreachable)]
    );
}

#[test]
fn b02_whatever_came_instead_of_an_answer_is_an_outage() {
    for (status, body, label) in [
        (None, "", "lost"),
        (Some(503), "", "gateway_down"),
        (Some(403), "", "gateway_forbids"),
        (Some(200), "", "garbage"),
        (Some(200), r#"{"EVALSHA":[1,9"#, "garbage"),
        (Some(200), r#"{"EVALSHA":[1,9]}"#, "garbage"),
        (Some(200), r#"{"EVALSHA":[false,"OOM command"]}"#, "oom"),
    ] {
        let mut stage = Stage::new(WEBDIS);
        stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
        let (number, _) = call(&mut stage);
        let body = if body.is_empty() {
            String::new()
        } else {
            named(number, body)
        };
        stage
            .worker
            .answered(number, status, body.as_bytes(), ms(1));
        let outages = stage.outages();
        assert_eq!(outages[0].1.label(), label, "{status:?} {body}");
    }
}

#[test]
fn after_a_row_of_failures_nobody_calls_and_one_at_a_time_tries() {
    let mut stage = Stage::new(WEBDIS);
    for n in 0..10 {
        stage.begin(n, vec![log_claim("p:{x}:a")], ms(0));
        let (number, _) = call(&mut stage);
        stage.worker.answered(number, Some(503), b"", ms(1));
    }
    assert_eq!(stage.outages().len(), 10);
    stage.begin(20, vec![log_claim("p:{x}:a")], ms(2));
    assert_eq!(stage.outages(), [(20, Silence::Skipped, Leave::Refuse)]);
    assert!(calls(&mut stage).is_empty());
    stage.begin(21, vec![log_claim("p:{x}:a")], ms(300));
    stage.begin(22, vec![log_claim("p:{x}:a")], ms(301));
    assert_eq!(stage.outages(), [(22, Silence::Skipped, Leave::Refuse)]);
    let (probe, _) = call(&mut stage);
    answer(&mut stage, probe, ADMITTED, ms(302));
    assert_eq!(stage.verdicts(), [(21, true)]);
    assert!(stage.worker.events().contains(&Event::BreakerClosed));
}

#[test]
fn a_lease_that_may_have_been_taken_unseen_is_given_back_only_after_the_take() {
    let lease = || vec![claim(Kind::Concurrency, 1, "p:{x}:b")];
    for (end, gives) in [
        (Some((200, ADMITTED)), true),
        (Some((200, NOSCRIPT)), false),
        (Some((503, "")), true),
        (None, true),
    ] {
        for by_client in [true, false] {
            let mut stage = Stage::new(WEBDIS);
            let ticket = stage.begin(1, lease(), ms(0));
            let (take, _) = call(&mut stage);
            if by_client {
                assert!(stage.worker.forget(ticket, ms(10)));
            } else {
                stage.worker.tick(ms(20));
                assert_eq!(stage.outages().len(), 1);
            }
            assert!(calls(&mut stage).is_empty(), "the take may not have run");
            assert!(stage.worker.busy());
            let (status, body) = end.unzip();
            let body = named(take, body.unwrap_or_default());
            stage.worker.answered(take, status, body.as_bytes(), ms(30));
            if gives {
                let (give, words) = call(&mut stage);
                assert_eq!((words[0].as_str(), words[4].as_str()), ("EVALSHA", "give"));
                answer(&mut stage, give, NOSCRIPT, ms(31));
                let (give, words) = call(&mut stage);
                assert_eq!(words[0], "EVAL");
                answer(&mut stage, give, r#"{"EVAL":[]}"#, ms(32));
            }
            assert!(calls(&mut stage).is_empty());
            assert!(!stage.worker.busy(), "{end:?}");
        }
    }
}

#[test]
fn b21_in_a_cluster_what_the_others_took_is_given_back_when_one_refuses() {
    let mut stage = Stage::new(r#""link": "webdis", "cluster": "g", "topology": "cluster","#);
    stage.begin(
        1,
        vec![log_claim("p:{a}:one"), log_claim("p:{b}:two")],
        ms(0),
    );
    let both = calls(&mut stage);
    assert_eq!(both.len(), 2, "one call a hash tag");
    answer(&mut stage, both[1].number, REFUSED, ms(1));
    answer(&mut stage, both[0].number, ADMITTED, ms(2));
    assert_eq!(stage.verdicts(), [(1, false)]);
    let (_, words) = call(&mut stage);
    assert_eq!(
        words[3..5],
        ["p%3A%7Ba%7D%3Aone".to_owned(), "give".to_owned()]
    );
}

#[test]
fn an_upstash_error_is_told_apart_and_its_reply_is_a_verdict() {
    let mut stage = Stage::new(UPSTASH);
    stage.begin(1, vec![log_claim("p:{x}:a")], ms(0));
    let first = calls(&mut stage).remove(0).number;
    let body = br#"{"error":"NOSCRIPT No matching script. Please use EVAL."}"#;
    stage.worker.answered(first, Some(400), body, ms(1));
    let second = calls(&mut stage).remove(0);
    assert!(second.request.body.starts_with(br#"["EVAL","#));
    let body = br#"{"result":[1,9,0,60000000]}"#;
    stage.worker.answered(second.number, Some(200), body, ms(2));
    assert_eq!(stage.verdicts(), [(1, true)]);
}

#[derive(Clone, Debug)]
enum Step {
    Begin(bool),
    Forget(usize),
    End(usize),
    /// Redis carries out one of the calls under way.
    Run(usize),
    /// The answer to one that was carried out arrives, or is lost on its way.
    Arrive(usize, bool),
    /// One that was not carried out comes to nothing.
    Fail(usize, u8),
    Wait(u64),
}

/// A call on its way, with Redis's answer once it was carried out.
struct OnItsWay {
    call: Outgoing,
    ends: Moment,
    reply: Option<(u16, String)>,
}

/// Redis behind the gateway: which members hold a lease.
#[derive(Default)]
struct Leases {
    held: HashSet<String>,
    knows_the_script: bool,
}

impl Leases {
    /// A give-back that never arrives is made up for by the lease's own end.
    fn lease_time_ends(&mut self, call: &Outgoing) {
        let words: Vec<String> = serde_json::from_slice(&call.request.body).expect("words");
        if words[4] == "give" {
            self.held.remove(&words[5]);
        }
    }

    fn run(&mut self, body: &[u8]) -> (u16, String) {
        let words: Vec<String> = serde_json::from_slice(body).expect("words");
        self.knows_the_script |= words[0] == "EVAL";
        if !self.knows_the_script {
            return (400, r#"{"error":"NOSCRIPT no"}"#.to_owned());
        }
        let (key, mode, member) = (&words[3], &words[4], &words[5]);
        let admitted = r#"{"result":[1,9,0,60000000]}"#.to_owned();
        match mode.as_str() {
            "give" => {
                self.held.remove(member);
                return (200, r#"{"result":[]}"#.to_owned());
            }
            "take" if key == "p:{b}:two" => self.held.insert(member.clone()),
            _ => true,
        };
        (200, admitted)
    }
}

proptest! {
    /// However calls overtake one another, fail, or are answered too late: a request is settled once,
    /// or forgotten, and never both; and when all have ended, no lease is held in Redis.
    #[test]
    fn every_request_leaves_exactly_once_and_leaves_no_lease_behind(
        steps in proptest::collection::vec(prop_oneof![
            4 => any::<bool>().prop_map(Step::Begin),
            1 => (0_usize..50).prop_map(Step::Forget),
            2 => (0_usize..9).prop_map(Step::End),
            4 => (0_usize..9).prop_map(Step::Run),
            4 => (0_usize..9, any::<bool>()).prop_map(|(n, lost)| Step::Arrive(n, lost)),
            1 => (0_usize..9, any::<u8>()).prop_map(|(n, how)| Step::Fail(n, how)),
            2 => (0_u64..40).prop_map(Step::Wait),
        ], 0..120),
    ) {
        let policy = policy(&format!(r#"{UPSTASH} "topology": "cluster","#));
        let mut worker: Worker<u32> = Worker::new(&policy, 1);
        let (mut now, mut begun, mut left) = (ms(0), Vec::new(), Vec::new());
        let mut leases: HashMap<u32, Lease> = HashMap::new();
        let mut redis = Leases::default();
        let mut ways: Vec<OnItsWay> = Vec::new();
        // What is left is carried out and answered in the end.
        let steps = steps.into_iter().map(Some).chain((0..2_000).map(|_| None));
        for (place, step) in steps.enumerate() {
            let step = step.unwrap_or(match place % 4 {
                0 => Step::End(0),
                1 => Step::Run(0),
                2 => Step::Arrive(0, false),
                _ => Step::Wait(1),
            });
            match step {
                Step::Begin(two) => {
                    let mut claims = vec![log_claim("p:{a}:one")];
                    if two {
                        claims.push(claim(Kind::Concurrency, 1, "p:{b}:two"));
                    }
                    let request = begun.len() as u32;
                    let mut random = RANDOM;
                    random[..4].copy_from_slice(&[request & 63, request >> 6, 0, 0].map(|n| n as u8));
                    begun.push(worker.begin(request, claims, random, now));
                }
                Step::Forget(n) => if let Some(ticket) = begun.get(n)
                    && worker.forget(*ticket, now)
                {
                    left.push(n as u32);
                },
                Step::End(n) => {
                    let mut held: Vec<u32> = leases.keys().copied().collect();
                    held.sort_unstable();
                    if let Some(lease) = held.get(n).and_then(|n| leases.remove(n)) {
                        worker.release(lease, now);
                    }
                }
                Step::Run(n) => {
                    let mut waiting = ways.iter_mut().filter(|way| way.reply.is_none());
                    if let Some(way) = waiting.nth(n) {
                        way.reply = Some(redis.run(&way.call.request.body));
                    }
                }
                Step::Arrive(n, lost) => {
                    let ran: Vec<usize> = (0..ways.len()).filter(|at| ways[*at].reply.is_some()).collect();
                    if let Some(at) = ran.get(n) {
                        let way = ways.remove(*at);
                        if lost {
                            redis.lease_time_ends(&way.call);
                        }
                        let (status, body) = way.reply.expect("it ran");
                        let (status, body) = if lost { (None, "") } else { (Some(status), body.as_str()) };
                        worker.answered(way.call.number, status, body.as_bytes(), now);
                    }
                }
                Step::Fail(n, how) => {
                    let waiting: Vec<usize> = (0..ways.len()).filter(|at| ways[*at].reply.is_none()).collect();
                    if let Some(at) = waiting.get(n) {
                        let call = ways.remove(*at).call;
                        redis.lease_time_ends(&call);
                        let number = call.number;
                        match how % 3 {
                            0 => worker.call_failed(number, now),
                            1 => worker.answered(number, Some(503), b"no healthy upstream", now),
                            _ => worker.answered(number, None, b"", now),
                        }
                    }
                }
                Step::Wait(n) => {
                    now = now.plus(Micros::from_millis(n));
                    worker.tick(now);
                    // The host gives up what takes too long.
                    let (late, rest) = ways.into_iter().partition(|way| way.ends <= now);
                    ways = rest;
                    let late: Vec<OnItsWay> = late;
                    for way in late {
                        redis.lease_time_ends(&way.call);
                        worker.answered(way.call.number, Some(504), b"upstream request timeout", now);
                    }
                }
            }
            for call in worker.orders().calls {
                let ends = now.plus(call.timeout);
                ways.push(OnItsWay { call, ends, reply: None });
            }
            for one in worker.settled() {
                left.push(one.request);
                if let Some(lease) = one.lease {
                    leases.insert(one.request, lease);
                }
            }
        }
        for _ in 0..9 {
            now = now.plus(Micros::from_secs(6));
            worker.tick(now);
        }
        left.extend(worker.settled().into_iter().map(|one| one.request));
        left.sort_unstable();
        prop_assert_eq!(left, (0..begun.len() as u32).collect::<Vec<_>>());
        prop_assert_eq!(worker.depth(), (0, 0));
        prop_assert!(!worker.busy());
        prop_assert!(leases.is_empty(), "a test that ends every request");
        prop_assert!(ways.is_empty(), "{} calls left", ways.len());
        prop_assert!(redis.held.is_empty(), "{:?}", redis.held);
    }
}
