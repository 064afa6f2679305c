use super::*;
use proptest::prelude::*;

const ONE: Connection = Connection(1);
const TWO: Connection = Connection(2);
const SOON: Moment = Moment(20_000);

/// A link with what a host keeps beside it.
struct Host {
    link: Link<u64>,
    out: Vec<u8>,
    settled: Vec<Settled<u64>>,
}

impl Host {
    fn new(settings: Settings) -> Self {
        Self {
            link: Link::new(settings, 1),
            out: Vec::new(),
            settled: Vec::new(),
        }
    }

    /// A host whose link is up, over connection 1.
    fn up(settings: Settings) -> Self {
        let mut host = Self::new(settings);
        let attempt = host.open(0, Moment(0));
        assert_eq!(host.opened(attempt, ONE, Moment(0)), Flow::Keep);
        assert_eq!(host.sent(), "<0>");
        assert_eq!(host.received(ONE, b":0\r\n", Moment(0)), Flow::Keep);
        assert_eq!(host.settled(), [(0, Ok(Value::Integer(0)))]);
        host
    }

    fn submit(&mut self, ticket: u64, deadline: Moment, now: Moment) -> Submitted<u64> {
        let command = format!("<{ticket}>");
        let submitted = self.link.submit(ticket, command.as_bytes(), deadline, now);
        if let Submitted::Send(..) = submitted {
            self.out.extend_from_slice(command.as_bytes());
        }
        submitted
    }

    /// Submits what must make the link open.
    fn open(&mut self, ticket: u64, now: Moment) -> Attempt {
        match self.submit(ticket, now.plus(Micros(SOON.0)), now) {
            Submitted::Open(attempt, _) => attempt,
            other => panic!("{other:?}"),
        }
    }

    fn opened(&mut self, attempt: Attempt, connection: Connection, now: Moment) -> Flow {
        let Self { link, out, settled } = self;
        link.opened(attempt, connection, now, out, settled)
    }

    fn received(&mut self, connection: Connection, bytes: &[u8], now: Moment) -> Flow {
        let Self { link, out, settled } = self;
        link.received(connection, bytes, now, out, settled)
    }

    fn closed(&mut self, connection: Connection, now: Moment) {
        self.link.closed(connection, now, &mut self.settled);
    }

    fn expire(&mut self, now: Moment) -> Option<(Connection, Silence)> {
        self.link.expire(now, &mut self.settled)
    }

    /// What was put into the connection since the last look.
    fn sent(&mut self) -> String {
        String::from_utf8(std::mem::take(&mut self.out)).unwrap()
    }

    /// What was settled since the last look.
    fn settled(&mut self) -> Vec<(u64, Result<Value, Silence>)> {
        let settled = std::mem::take(&mut self.settled).into_iter();
        settled
            .map(|Settled { ticket, answer }| (ticket, answer))
            .collect()
    }
}

fn straight() -> Settings {
    Settings::default()
}

fn with_password() -> Settings {
    let greeting = Greeting::default().auth(Some("aforo"), "hunter2").select(3);
    Settings {
        greeting,
        ..Settings::default()
    }
}

#[test]
fn commands_that_came_while_it_opened_go_out_in_order_once_it_is_up() {
    let mut host = Host::new(straight());
    let attempt = host.open(1, Moment(0));
    for ticket in 2..5 {
        assert!(matches!(
            host.submit(ticket, SOON, Moment(1)),
            Submitted::Wait(_)
        ));
    }
    assert_eq!((host.link.waiting(), host.sent().as_str()), (4, ""));
    assert_eq!(host.opened(attempt, ONE, Moment(2)), Flow::Keep);
    assert_eq!(host.sent(), "<1><2><3><4>");
    assert!(matches!(
        host.submit(5, SOON, Moment(3)),
        Submitted::Send(ONE, _)
    ));
    assert_eq!(
        host.received(ONE, b":1\r\n:2\r\n:3\r\n:4\r\n:", Moment(4)),
        Flow::Keep
    );
    assert_eq!(host.received(ONE, b"5\r\n", Moment(4)), Flow::Keep);
    let expected: Vec<_> = (1..=5).map(|n| (n, Ok(Value::Integer(n as i64)))).collect();
    assert_eq!(host.settled(), expected);
    assert_eq!(
        (host.link.in_flight(), host.link.next_check()),
        (0, None),
        "idle needs no timer"
    );
}

#[test]
fn whoever_ran_out_of_time_while_it_opened_is_not_asked() {
    let mut host = Host::new(straight());
    let attempt = host.open(1, Moment(0));
    let _ = host.submit(2, Moment(5), Moment(0));
    let _ = host.submit(3, Moment(50), Moment(0));
    assert_eq!(host.link.next_check(), Some(Moment(5)));
    assert_eq!(host.opened(attempt, ONE, Moment(5)), Flow::Keep);
    assert_eq!(host.sent(), "<1><3>");
    assert_eq!(host.settled(), [(2, Err(Silence::TimedOut))]);
}

#[test]
fn b58_a_reply_after_the_deadline_is_dropped_and_the_next_gets_its_own() {
    let mut host = Host::up(straight());
    let _ = host.submit(1, Moment(10), Moment(0));
    let _ = host.submit(2, SOON, Moment(0));
    assert_eq!(host.expire(Moment(10)), None);
    assert_eq!(host.settled(), [(1, Err(Silence::TimedOut))]);
    assert_eq!(host.received(ONE, b":1\r\n:2\r\n", Moment(11)), Flow::Keep);
    assert_eq!(host.settled(), [(2, Ok(Value::Integer(2)))]);
}

#[test]
fn a_lost_connection_settles_everyone_and_is_replaced_at_once() {
    let mut host = Host::up(straight());
    let _ = host.submit(1, SOON, Moment(0));
    let _ = host.submit(2, SOON, Moment(0));
    host.sent();
    host.closed(TWO, Moment(1));
    assert_eq!(host.settled(), []);
    host.closed(ONE, Moment(1));
    assert_eq!(
        host.settled(),
        [(1, Err(Silence::Lost)), (2, Err(Silence::Lost))]
    );
    assert_eq!(host.received(ONE, b":1\r\n", Moment(2)), Flow::Stale);
    let attempt = host.open(3, Moment(2));
    assert_eq!(host.opened(attempt, TWO, Moment(2)), Flow::Keep);
    assert_eq!(host.sent(), "<3>", "nothing is sent twice");
}

#[test]
fn b26_while_it_cannot_open_nobody_waits() {
    let mut host = Host::new(straight());
    let attempt = host.open(1, Moment(0));
    host.link.failed(attempt, Moment(1), &mut host.settled);
    assert_eq!(host.settled(), [(1, Err(Silence::Unreachable))]);
    assert_eq!(
        host.submit(2, SOON, Moment(2)),
        Submitted::Refused(2, Silence::Unreachable)
    );
    let later = Moment(1).plus(Micros::from_millis(20));
    assert_ne!(host.open(3, later), attempt);
    assert_eq!(host.opened(attempt, ONE, later), Flow::Stale);
}

#[test]
fn an_opening_that_never_reports_ends_at_its_deadline() {
    let mut host = Host::new(straight());
    let attempt = host.open(1, Moment(0));
    assert_eq!(host.expire(SOON), None);
    assert_eq!(host.settled(), [(1, Err(Silence::TimedOut))]);
    assert_eq!(host.link.next_check(), Some(Moment(100_000)));
    assert!(matches!(
        host.submit(2, Moment(110_000), SOON),
        Submitted::Wait(_)
    ));
    assert_eq!(host.expire(Moment(100_000)), None);
    assert_eq!(host.settled(), [(2, Err(Silence::Unreachable))]);
    assert_eq!(host.opened(attempt, ONE, Moment(100_001)), Flow::Stale);
    assert_eq!(host.link.next_check(), None);
}

#[test]
fn a_password_goes_first_and_commands_only_after_its_ok() {
    let mut host = Host::new(with_password());
    let attempt = host.open(1, Moment(0));
    assert_eq!(host.opened(attempt, ONE, Moment(0)), Flow::Keep);
    let auth = "*3\r\n$4\r\nAUTH\r\n$5\r\naforo\r\n$7\r\nhunter2\r\n";
    assert_eq!(
        host.sent(),
        format!("{auth}*2\r\n$6\r\nSELECT\r\n$1\r\n3\r\n")
    );
    assert!(matches!(
        host.submit(2, SOON, Moment(1)),
        Submitted::Wait(_)
    ));
    assert_eq!(host.received(ONE, b"+OK\r\n+O", Moment(1)), Flow::Keep);
    assert_eq!(host.sent(), "");
    assert_eq!(host.received(ONE, b"K\r\n", Moment(1)), Flow::Keep);
    assert_eq!(host.sent(), "<1><2>");
    assert_eq!(host.link.next_check(), Some(SOON));
}

#[test]
fn b26_a_wrong_password_is_a_failed_attempt_with_its_reason() {
    let refused = Silence::Refused(ErrorKind::WrongPass);
    let mut host = Host::new(with_password());
    let attempt = host.open(1, Moment(0));
    assert_eq!(host.opened(attempt, ONE, Moment(0)), Flow::Keep);
    let reply = b"-WRONGPASS invalid username-password pair\r\n";
    assert_eq!(host.received(ONE, reply, Moment(1)), Flow::Close(refused));
    assert_eq!(host.settled(), [(1, Err(refused))]);
    assert_eq!((host.link.connection(), host.link.failures()), (None, 1));
    for (reply, silence) in [
        (b":1\r\n".as_slice(), Silence::Garbage),
        (b"HTTP/1.1 400\r\n", Silence::Garbage),
        (b"+OK\r\n+OK\r\n:1\r\n", Silence::Garbage),
    ] {
        let mut host = Host::new(with_password());
        let attempt = host.open(1, Moment(0));
        assert_eq!(host.opened(attempt, ONE, Moment(0)), Flow::Keep);
        assert_eq!(host.received(ONE, reply, Moment(1)), Flow::Close(silence));
        assert_eq!(host.settled(), [(1, Err(silence))]);
    }
}

#[test]
fn a_password_never_shows_in_debug_output() {
    let shown = format!("{:?}", Link::<u64>::new(with_password(), 1));
    let bytes = format!("{:?}", b"hunter2");
    assert!(!shown.contains("hunter2") && !shown.contains(bytes.trim_matches(['[', ']'])));
}

#[test]
fn a_greeting_that_gets_no_answer_ends_with_the_attempt() {
    let mut host = Host::new(with_password());
    let attempt = host.open(1, Moment(0));
    assert_eq!(host.opened(attempt, ONE, Moment(9)), Flow::Keep);
    assert_eq!(host.expire(Moment(100_000)), Some((ONE, Silence::TimedOut)));
    assert_eq!(
        host.received(ONE, b"+OK\r\n+OK\r\n", Moment(100_001)),
        Flow::Stale
    );
}

#[test]
fn readonly_gives_its_answer_and_makes_a_new_connection_that_backs_off_if_it_stays() {
    let error = Value::Error(b"READONLY You can't write".to_vec());
    let silence = Silence::Refused(ErrorKind::ReadOnly);
    let mut host = Host::up(straight());
    let _ = host.submit(1, SOON, Moment(1));
    let _ = host.submit(2, SOON, Moment(1));
    let reply = b"-READONLY You can't write\r\n";
    assert_eq!(host.received(ONE, reply, Moment(2)), Flow::Close(silence));
    assert_eq!(host.settled(), [(1, Ok(error)), (2, Err(silence))]);
    let attempt = host.open(3, Moment(3));
    assert_eq!(host.opened(attempt, TWO, Moment(3)), Flow::Keep);
    assert_eq!(host.received(TWO, reply, Moment(4)), Flow::Close(silence));
    let refused = Submitted::Refused(4, Silence::Unreachable);
    assert_eq!(host.submit(4, SOON, Moment(5)), refused);
}

#[test]
fn behind_a_proxy_to_many_one_readonly_shard_does_not_cost_the_others_their_answers() {
    let mut host = Host::up(Settings {
        reconnect_on_errors: false,
        ..straight()
    });
    let _ = host.submit(1, SOON, Moment(1));
    let _ = host.submit(2, SOON, Moment(1));
    assert_eq!(
        host.received(ONE, b"-READONLY x\r\n:2\r\n", Moment(2)),
        Flow::Keep
    );
    assert_eq!(host.settled().len(), 2);
}

#[test]
fn garbage_settles_everyone_and_ends_the_connection() {
    let mut host = Host::up(straight());
    let _ = host.submit(1, SOON, Moment(1));
    let _ = host.submit(2, SOON, Moment(1));
    let flow = host.received(ONE, b":1\r\n<html>", Moment(2));
    assert_eq!(flow, Flow::Close(Silence::Garbage));
    assert_eq!(
        host.settled(),
        [(1, Ok(Value::Integer(1))), (2, Err(Silence::Garbage))]
    );
}

#[test]
fn a_connection_that_owes_a_reply_too_long_is_given_up() {
    let mut host = Host::up(straight());
    let _ = host.submit(1, SOON, Moment(0));
    assert_eq!(host.expire(SOON), None);
    assert_eq!(host.link.next_check(), Some(Moment(1_000_000)));
    let _ = host.submit(2, Moment(1_005_000), Moment(990_000));
    assert_eq!(
        host.expire(Moment(1_000_000)),
        Some((ONE, Silence::TimedOut))
    );
    assert_eq!(
        host.settled(),
        [(1, Err(Silence::TimedOut)), (2, Err(Silence::TimedOut))]
    );
    let _ = host.open(3, Moment(1_000_001));
}

#[test]
fn at_its_bounds_the_link_refuses_and_holds_no_more() {
    let settings = Settings {
        in_flight: 2,
        waiting: 2,
        ..straight()
    };
    let mut host = Host::new(settings);
    let attempt = host.open(1, Moment(0));
    assert!(matches!(
        host.submit(2, SOON, Moment(0)),
        Submitted::Wait(_)
    ));
    assert_eq!(
        host.submit(3, SOON, Moment(0)),
        Submitted::Refused(3, Silence::Full)
    );
    assert_eq!(host.opened(attempt, ONE, Moment(0)), Flow::Keep);
    assert_eq!(
        host.submit(4, SOON, Moment(0)),
        Submitted::Refused(4, Silence::Full)
    );
    assert_eq!(host.link.in_flight(), 2);
}

#[test]
fn b03_an_abandoned_command_is_not_sent_or_its_reply_is_dropped() {
    let mut host = Host::new(straight());
    let attempt = host.open(1, Moment(0));
    let Submitted::Wait(second) = host.submit(2, SOON, Moment(0)) else {
        panic!()
    };
    let Submitted::Wait(third) = host.submit(3, SOON, Moment(0)) else {
        panic!()
    };
    assert_eq!(host.link.abandon(second), Some(2));
    assert_eq!(host.opened(attempt, ONE, Moment(0)), Flow::Keep);
    assert_eq!(host.sent(), "<1><3>");
    assert_eq!(
        (host.link.abandon(third), host.link.abandon(third)),
        (Some(3), None)
    );
    assert_eq!(host.received(ONE, b":1\r\n:3\r\n", Moment(1)), Flow::Keep);
    assert_eq!(host.settled(), [(1, Ok(Value::Integer(1)))]);
}

#[test]
fn b72_a_link_that_ends_settles_everyone() {
    let mut host = Host::up(straight());
    let _ = host.submit(1, SOON, Moment(0));
    let mut settled = Vec::new();
    assert_eq!(host.link.end(&mut settled), Some(ONE));
    assert_eq!(
        settled,
        [Settled {
            ticket: 1,
            answer: Err(Silence::Lost)
        }]
    );
}

#[derive(Clone, Debug)]
enum Act {
    Submit { patience: u64 },
    Abandon { back: u64 },
    Report,
    Fail,
    Reply { bytes: usize },
    Close,
    Garbage,
    Pass { span: u64 },
}

fn acts() -> impl Strategy<Value = Vec<Act>> {
    let act = prop_oneof![
        8 => (0_u64..40_000).prop_map(|patience| Act::Submit { patience }),
        1 => (0_u64..8).prop_map(|back| Act::Abandon { back }),
        3 => Just(Act::Report),
        1 => Just(Act::Fail),
        6 => (1_usize..60).prop_map(|bytes| Act::Reply { bytes }),
        1 => Just(Act::Close),
        1 => Just(Act::Garbage),
        4 => prop_oneof![0_u64..5_000, 0_u64..1_200_000].prop_map(|span| Act::Pass { span }),
    ];
    proptest::collection::vec(act, 0..300)
}

proptest! {
    /// The server echoes each number it is asked. Whatever fails in between: a ticket is settled, or
    /// refused, or abandoned, exactly once, by its deadline, and with no reply but its own.
    #[test]
    fn every_command_ends_once_in_time_and_with_its_own_reply(
        acts in acts(),
        greets in any::<bool>(),
    ) {
        let base = if greets { with_password() } else { straight() };
        let settings = Settings { in_flight: 12, waiting: 6, ..base };
        let mut host = Host::new(settings);
        let (mut now, mut next) = (Moment(0), 0_u64);
        let mut deadlines: Vec<Moment> = Vec::new();
        let mut asked: Vec<(u64, Asked)> = Vec::new();
        let mut ended: Vec<u64> = Vec::new();
        let mut attempt = None;
        let mut connections = 0;
        // What the server of the current connection has still to say.
        let mut wire: Vec<u8> = Vec::new();
        for act in acts {
            match act {
                Act::Submit { patience } => {
                    let (ticket, deadline) = (next, now.plus(Micros(patience)));
                    next += 1;
                    deadlines.push(deadline);
                    match host.submit(ticket, deadline, now) {
                        Submitted::Send(_, token) | Submitted::Wait(token) => {
                            asked.push((ticket, token));
                        }
                        Submitted::Open(number, token) => {
                            attempt = Some(number);
                            asked.push((ticket, token));
                        }
                        Submitted::Refused(refused, _) => {
                            prop_assert_eq!(refused, ticket);
                            ended.push(ticket);
                        }
                    }
                }
                Act::Abandon { back } => {
                    let at = asked.len().saturating_sub(1 + back as usize);
                    if let Some((ticket, token)) = asked.get(at)
                        && let Some(given) = host.link.abandon(*token)
                    {
                        prop_assert_eq!(given, *ticket);
                        ended.push(given);
                    }
                }
                Act::Report => if let Some(number) = attempt {
                    connections += 1;
                    if host.opened(number, Connection(connections), now) == Flow::Keep {
                        wire.clear();
                    } else {
                        attempt = None;
                    }
                },
                Act::Fail => if let Some(number) = attempt.take() {
                    host.link.failed(number, now, &mut host.settled);
                },
                Act::Reply { bytes } => if let Some(connection) = host.link.connection() {
                    let bytes: Vec<u8> = wire.drain(..bytes.min(wire.len())).collect();
                    prop_assert_eq!(host.received(connection, &bytes, now), Flow::Keep);
                },
                Act::Close => if let Some(connection) = host.link.connection() {
                    host.closed(connection, now);
                },
                Act::Garbage => if let Some(connection) = host.link.connection() {
                    let flow = host.received(connection, b"\r\r\r", now);
                    prop_assert_eq!(flow, Flow::Close(Silence::Garbage));
                },
                Act::Pass { span } => {
                    let until = now.plus(Micros(span));
                    while let Some(check) = host.link.next_check().filter(|at| *at <= until) {
                        now = now.max(check);
                        let before = host.link.next_check();
                        let _ = host.expire(now);
                        prop_assert!(host.link.next_check() != before, "a check must get on");
                    }
                    now = until;
                }
            }
            // The server hears what was sent and answers it.
            for command in host.sent().split_inclusive('>') {
                if let Some((_, number)) = command.split_once('<') {
                    if command.starts_with('*') {
                        wire.extend(b"+OK\r\n+OK\r\n");
                    }
                    wire.extend(format!(":{}\r\n", number.trim_end_matches('>')).bytes());
                } else if command.starts_with('*') {
                    wire.extend(b"+OK\r\n+OK\r\n");
                }
            }
            if host.link.connection().is_none() {
                wire.clear();
            }
            for (ticket, answer) in host.settled() {
                if let Ok(value) = answer {
                    prop_assert_eq!(value, Value::Integer(ticket as i64));
                }
                ended.push(ticket);
            }
            prop_assert!(host.link.in_flight() <= 12 && host.link.waiting() <= 6);
            for (ticket, deadline) in deadlines.iter().enumerate() {
                let late = *deadline < now && !ended.contains(&(ticket as u64));
                prop_assert!(!late, "{ticket} waits past its deadline");
            }
        }
        let Host { link, mut settled, .. } = host;
        let _ = link.end(&mut settled);
        ended.extend(settled.into_iter().map(|end| end.ticket));
        ended.sort_unstable();
        prop_assert_eq!(ended, (0..next).collect::<Vec<_>>());
    }
}

#[test]
fn a_proxy_that_is_not_let_in_is_shaken_once_so_that_it_logs_in_anew() {
    const NOAUTH: &[u8] = b"-NOAUTH Authentication required.\r\n";
    let mut host = Host::new(straight());
    let attempt = host.open(1, Moment(0));
    assert_eq!(host.opened(attempt, ONE, Moment(1)), Flow::Keep);
    assert_eq!(host.sent(), "<1>");
    let refused = Silence::Refused(ErrorKind::NoAuth);
    let flow = host.received(ONE, NOAUTH, Moment(2));
    assert_eq!(flow, Flow::Close(refused));
    host.settled();

    let later = Moment(1_000_000);
    let attempt = host.open(2, later);
    assert_eq!(host.opened(attempt, TWO, later), Flow::Keep);
    let shake = host.sent();
    assert!(shake.starts_with("*16\r\n$4\r\nEVAL\r\n"), "{shake}");
    assert!(!shake.contains("<2>"), "not before the shake is answered");
    let error = b"-ERR Protocol error: unauthenticated multibulk length\r\n";
    assert_eq!(host.received(TWO, error, later), Flow::Keep);
    assert_eq!(host.sent(), "<2>");
    assert_eq!(host.received(TWO, b":2\r\n", later), Flow::Keep);
    assert_eq!(host.settled(), [(2, Ok(Value::Integer(2)))]);

    host.closed(TWO, later);
    let attempt = host.open(3, later);
    assert_eq!(host.opened(attempt, ONE, later), Flow::Keep);
    assert_eq!(host.sent(), "<3>", "once is enough");
}

#[test]
fn who_has_a_password_to_say_says_it_again_and_shakes_nobody() {
    let mut host = Host::new(with_password());
    let attempt = host.open(1, Moment(0));
    assert_eq!(host.opened(attempt, ONE, Moment(1)), Flow::Keep);
    let greeting = host.sent();
    let noauth = b"-NOAUTH Authentication required.\r\n";
    let refused = Silence::Refused(ErrorKind::NoAuth);
    assert_eq!(host.received(ONE, noauth, Moment(2)), Flow::Close(refused));
    let later = Moment(1_000_000);
    let attempt = host.open(2, later);
    assert_eq!(host.opened(attempt, TWO, later), Flow::Keep);
    assert_eq!(host.sent(), greeting);
}
