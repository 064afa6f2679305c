//! Redis behind an HTTP gateway: one command is one call, and calls do not wait for one another.
//!
//! ```text
//!  command (RESP) ──► Gateway::request ──► HTTP ──► Gateway::reply ──► Value
//! ```
//!
//! The gateways differ in how they write a command and a reply; see [`super::webdis`] and
//! [`super::upstash`]. Behind this seam a reply is what Redis itself would have said. The plainest of them
//! is a host that hands command and reply on as they are.

use super::{
    error::ErrorKind,
    link::{Asked, Settled},
    resp::{Reader, Value},
    upstash,
    webdis::{self, Unwrapped},
};
use crate::{
    outage::Silence,
    units::{Micros, Moment},
};
use std::{collections::HashMap, fmt};

/// Most bytes of a body that are read. A host may cut a longer one after one byte more.
pub const MAX_BODY_BYTES: usize = 128 * 1024;

/// How to speak with a gateway.
#[derive(Clone)]
pub struct Gateway {
    dialect: Dialect,
    authority: String,
    /// The whole `authorization` header; a secret.
    authorization: Option<String>,
}

/// Which gateway it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Dialect {
    Webdis,
    Upstash,
    Resp,
}

/// One call: a `POST`, but for the host's own.
#[derive(Clone, PartialEq, Eq)]
pub struct Request {
    /// Every header, pseudo headers first; none where there is no HTTP.
    pub headers: Vec<(&'static str, String)>,
    /// The body.
    pub body: Vec<u8>,
}

impl Gateway {
    /// Webdis at that host name, with basic authentication if its access list wants it.
    #[must_use]
    pub fn webdis(authority: &str, user: Option<&str>, password: Option<&str>) -> Self {
        let authorization = password.map(|password| {
            let pair = format!("{}:{password}", user.unwrap_or_default());
            format!("Basic {}", base64(pair.as_bytes()))
        });
        Self {
            dialect: Dialect::Webdis,
            authority: authority.to_owned(),
            authorization,
        }
    }

    /// The Upstash REST API, or a server of its kind, at that host name.
    #[must_use]
    pub fn upstash(authority: &str, token: &str) -> Self {
        let authorization = Some(format!("Bearer {token}"));
        Self {
            dialect: Dialect::Upstash,
            authority: authority.to_owned(),
            authorization,
        }
    }

    /// No gateway: the host speaks with Redis. What it answers counts as a status of 200.
    #[must_use]
    pub const fn resp() -> Self {
        Self {
            dialect: Dialect::Resp,
            authority: String::new(),
            authorization: None,
        }
    }

    /// The call for one command, which is given as RESP, under a name of letters and digits that no other
    /// call has. `None` when the gateway cannot carry it: it
    /// is no single command, or holds what JSON cannot.
    #[must_use]
    pub fn request(&self, command: &[u8], name: &str) -> Option<Request> {
        let words = super::resp::words(command)?;
        let (path, body, content_type) = match self.dialect {
            Dialect::Webdis => (
                webdis::path(name),
                webdis::body(&words),
                "application/x-www-form-urlencoded",
            ),
            // To the letter: some servers of its kind take nothing else.
            Dialect::Upstash => ("/".to_owned(), upstash::body(&words)?, "application/json"),
            Dialect::Resp => {
                let (headers, body) = (Vec::new(), command.to_vec());
                return Some(Request { headers, body });
            }
        };
        let mut headers = vec![
            (":method", "POST".to_owned()),
            (":path", path),
            (":authority", self.authority.clone()),
            ("content-type", content_type.to_owned()),
        ];
        headers.extend(
            self.authorization
                .clone()
                .map(|value| ("authorization", value)),
        );
        Some(Request { headers, body })
    }

    /// What Redis answered the call of this name. `status` is `None` when there was no HTTP response.
    ///
    /// # Errors
    /// Why there is no reply. An error of Redis is a reply, whatever the gateway wrapped it in.
    pub fn reply(&self, status: Option<u16>, body: &[u8], name: &str) -> Result<Value, Silence> {
        let status = status.ok_or(Silence::Lost)?;
        if body.len() > MAX_BODY_BYTES {
            return Err(Silence::Garbage);
        }
        let reply = match self.dialect {
            Dialect::Webdis => match webdis::unwrap(name, body) {
                Unwrapped::Own(body) => webdis::reply(status, body),
                Unwrapped::Foreign => return Err(Silence::Foreign),
                Unwrapped::Other => None,
            },
            Dialect::Upstash => upstash::reply(status, body),
            Dialect::Resp => whole(body),
        };
        match (reply, status) {
            (Some(value), _) => Ok(value),
            (None, 200..=299) => Err(Silence::Garbage),
            (None, status) => Err(Silence::Refused(ErrorKind::of_status(status))),
        }
    }
}

/// The one reply that these bytes are.
fn whole(mut bytes: &[u8]) -> Option<Value> {
    let reply = Reader::new().read(&mut bytes).ok()??;
    bytes.is_empty().then_some(reply)
}

impl fmt::Debug for Gateway {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self {
            dialect, authority, ..
        } = self;
        write!(f, "Gateway({dialect:?}, {authority:?})")
    }
}

impl fmt::Debug for Request {
    /// Without the secret.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "Request({} bytes)", self.body.len())
    }
}

/// What became of a command that was to be asked by a call.
#[derive(Debug, PartialEq, Eq)]
#[must_use]
pub enum Called<T> {
    /// Make this call now; what comes of it goes to [`Calls::answered`].
    Call(Asked, Request),
    /// It is not asked, and will not be settled.
    Refused(T, Silence),
}

/// The calls under way to one gateway.
///
/// To drive it: [`submit`](Self::submit) each command and make the call it gives;
/// [`answered`](Self::answered) with what came, with no status when the call failed without an answer;
/// [`failed`](Self::failed) when it could not be made; [`expire`](Self::expire) at
/// [`next_check`](Self::next_check). A call that is given up keeps its place until it ends, so that
/// somebody else may wait for its end; its answer settles nothing. The number of calls is bounded, those
/// included. Every ticket that went in comes out once.
#[derive(Debug)]
pub struct Calls<T> {
    gateway: Gateway,
    most: usize,
    under_way: HashMap<Asked, UnderWay<T>>,
    last: u64,
    late: u64,
    /// What the names of this worker's calls begin with, and nobody else's.
    head: String,
}

#[derive(Debug)]
struct UnderWay<T> {
    /// `None` once nobody waits for it.
    ticket: Option<T>,
    deadline: Moment,
}

/// A call is given so long to end, whoever waits for it: one that is cut off while its command runs is what
/// makes a Webdis mix up replies, and it frees nobody.
pub const LONGEST_CALL: Micros = Micros::from_secs(10);

/// A call that nobody waits for and whose end is not told is forgotten so long after its deadline.
const FORGOTTEN: Micros = LONGEST_CALL;

impl<T> Calls<T> {
    /// No calls yet, and at most so many at once. `seed` is a random number: no other worker that asks
    /// the same gateway has it.
    #[must_use]
    pub fn new(gateway: Gateway, most: usize, seed: u64) -> Self {
        Self {
            head: format!("a{seed:016x}x"),
            gateway,
            most,
            under_way: HashMap::new(),
            last: 0,
            late: 0,
        }
    }

    /// Asks one command, given as RESP.
    pub fn submit(&mut self, ticket: T, command: &[u8], deadline: Moment) -> Called<T> {
        if self.under_way.len() >= self.most {
            return Called::Refused(ticket, Silence::Full);
        }
        let asked = Asked(self.last.saturating_add(1));
        let Some(request) = self.gateway.request(command, &self.name(asked)) else {
            return Called::Refused(ticket, Silence::Garbage);
        };
        self.last = asked.0;
        let call = UnderWay {
            ticket: Some(ticket),
            deadline,
        };
        self.under_way.insert(asked, call);
        Called::Call(asked, request)
    }

    /// A call has ended. `None` when nobody waits for it. A failure at its deadline is the deadline's:
    /// the host that gives a call up then may say so before [`expire`](Self::expire).
    pub fn answered(
        &mut self,
        asked: Asked,
        status: Option<u16>,
        body: &[u8],
        now: Moment,
    ) -> Option<Settled<T>> {
        let call = self.under_way.remove(&asked)?;
        let reply = self.gateway.reply(status, body, &self.name(asked));
        let Some(ticket) = call.ticket else {
            let came = reply.is_ok();
            self.late = self.late.saturating_add(u64::from(came));
            return None;
        };
        let answer = reply.map_err(|why| {
            if call.deadline <= now {
                Silence::TimedOut
            } else {
                why
            }
        });
        Some(Settled { ticket, answer })
    }

    /// A call could not be made. `None` when nobody waits for it.
    pub fn failed(&mut self, asked: Asked) -> Option<Settled<T>> {
        let ticket = self.under_way.remove(&asked)?.ticket?;
        Some(Settled {
            ticket,
            answer: Err(Silence::Unreachable),
        })
    }

    /// Gives one command up. `None` when it has been settled.
    pub fn abandon(&mut self, asked: Asked) -> Option<T> {
        self.under_way.get_mut(&asked)?.ticket.take()
    }

    /// The end of a call is for somebody else from now on, who waits so much longer.
    ///
    /// # Errors
    /// Gives the new ticket back when the call has ended.
    pub fn pass_on(&mut self, asked: Asked, ticket: T, longer: Micros) -> Result<(), T> {
        let Some(call) = self.under_way.get_mut(&asked) else {
            return Err(ticket);
        };
        call.ticket = Some(ticket);
        call.deadline = call.deadline.plus(longer);
        Ok(())
    }

    /// Settles whoever's time is up, oldest first.
    pub fn expire(&mut self, now: Moment, settled: &mut Vec<Settled<T>>) {
        let mut late = Vec::new();
        self.under_way.retain(|asked, call| {
            if call.deadline <= now {
                late.extend(call.ticket.take().map(|ticket| (*asked, ticket)));
            }
            call.ticket.is_some() || call.deadline.plus(FORGOTTEN) > now
        });
        late.sort_unstable_by_key(|(asked, _)| *asked);
        settled.extend(late.into_iter().map(|(_, ticket)| Settled {
            ticket,
            answer: Err(Silence::TimedOut),
        }));
    }

    /// When to call [`expire`](Self::expire) next. `None`: nobody waits.
    #[must_use]
    pub fn next_check(&self) -> Option<Moment> {
        let waited_for = self.under_way.values().filter(|call| call.ticket.is_some());
        waited_for.map(|call| call.deadline).min()
    }

    /// Replies that came when nobody waited for them any more, since the last call.
    pub fn take_late(&mut self) -> u64 {
        std::mem::take(&mut self.late)
    }

    fn name(&self, Asked(number): Asked) -> String {
        format!("{}{number:x}", self.head)
    }

    /// Calls that have not ended.
    #[must_use]
    pub fn in_flight(&self) -> usize {
        self.under_way.len()
    }
}

/// Base64 with padding, RFC 4648 section 4.
fn base64(bytes: &[u8]) -> String {
    const ALPHABET: &[u8; 64] = b"ABCDEFGHIJKLMNOPQRSTUVWXYZabcdefghijklmnopqrstuvwxyz0123456789+/";
    let mut text = String::with_capacity(bytes.len().div_ceil(3).saturating_mul(4));
    for group in bytes.chunks(3) {
        let mut padded = [0; 4];
        for (to, from) in padded.iter_mut().skip(1).zip(group) {
            *to = *from;
        }
        let bits = u32::from_be_bytes(padded);
        for (place, shift) in [18, 12, 6, 0].into_iter().enumerate() {
            let index = (bits >> shift) & 63;
            let digit = ALPHABET.get(index as usize).copied().unwrap_or(b'=');
            text.push(if place <= group.len() {
                char::from(digit)
            } else {
                '='
            });
        }
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::redis::resp::write_command;

    fn command() -> Vec<u8> {
        let mut command = Vec::new();
        write_command(&mut command, &["EVALSHA", "ab", "1", "k", "7"]);
        command
    }

    fn header<'a>(request: &'a Request, name: &str) -> Option<&'a str> {
        let found = request.headers.iter().find(|(known, _)| *known == name)?;
        Some(&found.1)
    }

    #[test]
    fn both_gateways_are_asked_by_a_post_with_credentials() {
        let webdis = Gateway::webdis("webdis", Some("user"), Some("pa:ss"));
        let request = webdis.request(&command(), "a1").unwrap();
        assert_eq!(
            header(&request, "authorization"),
            Some("Basic dXNlcjpwYTpzcw==")
        );
        assert_eq!(header(&request, ":path"), Some("/?jsonp=a1"));
        assert_eq!(request.body, b"EVALSHA/ab/1/k/7.json");

        let upstash = Gateway::upstash("eu1.upstash.io", "s3cret");
        let request = upstash.request(&command(), "a1").unwrap();
        assert_eq!(header(&request, "authorization"), Some("Bearer s3cret"));
        assert_eq!(header(&request, "content-type"), Some("application/json"));
        assert_eq!(header(&request, ":authority"), Some("eu1.upstash.io"));
        assert_eq!(request.body, br#"["EVALSHA","ab","1","k","7"]"#);
        assert!(!format!("{upstash:?}{request:?}").contains("s3cret"));

        let open = Gateway::webdis("webdis", None, None)
            .request(&command(), "a1")
            .unwrap();
        assert_eq!(header(&open, "authorization"), None);
        assert_eq!(webdis.request(b"PING\r\n", "a1"), None);
    }

    #[test]
    fn a_host_of_its_own_hands_on_a_command_and_one_reply_as_they_are() {
        let host = Gateway::resp();
        let request = host.request(&command(), "a1").unwrap();
        assert_eq!((request.headers, request.body), (Vec::new(), command()));
        assert_eq!(host.request(&[command(), command()].concat(), "a1"), None);
        assert_eq!(
            host.reply(Some(200), b":7\r\n", "a1"),
            Ok(Value::Integer(7))
        );
        let error = Value::Error(b"NOSCRIPT x".to_vec());
        assert_eq!(host.reply(Some(200), b"-NOSCRIPT x\r\n", "a1"), Ok(error));
        assert_eq!(host.reply(None, b"", "a1"), Err(Silence::Lost));
        for odd in [
            "",
            ":7",
            ":7\r\n:",
            "*2\r\n:1\r\n",
            "HTTP/1.1 200 OK\r\n",
            "\r\n",
        ] {
            let reply = host.reply(Some(200), odd.as_bytes(), "a1");
            assert_eq!(reply, Err(Silence::Garbage), "{odd:?}");
        }
    }

    #[test]
    fn base64_is_padded() {
        for (plain, text) in [
            ("", ""),
            ("f", "Zg=="),
            ("fo", "Zm8="),
            ("foo", "Zm9v"),
            ("\u{fb}\u{ff}", "w7vDvw=="),
        ] {
            assert_eq!(base64(plain.as_bytes()), text);
        }
    }

    #[test]
    fn b02_no_response_and_no_reply_are_silences() {
        let html = b"<html><body>502</body></html>".as_slice();
        let large = vec![b':'; 5 * 1024 * 1024];
        for gateway in [Gateway::webdis("w", None, None), Gateway::upstash("u", "t")] {
            for (status, body, label) in [
                (None, b"".as_slice(), "lost"),
                (Some(200), b"", "garbage"),
                (Some(204), b"", "garbage"),
                (Some(200), html, "garbage"),
                (Some(200), large.as_slice(), "garbage"),
                (Some(200), b"\x1f\x8b\x08\0\0\0\0\0", "garbage"),
                (Some(200), b"\xef\xbb\xbf{\"result\":1}", "garbage"),
                (Some(503), b"", "gateway_down"),
                (Some(503), b"no healthy upstream", "gateway_down"),
                (Some(502), html, "gateway_down"),
                (Some(403), b"", "gateway_forbids"),
                (Some(401), html, "gateway_forbids"),
                (Some(404), html, "gateway_odd"),
                (Some(302), b"", "gateway_odd"),
                (Some(0), b"", "gateway_odd"),
            ] {
                let silence = gateway.reply(status, body, "a1").unwrap_err();
                assert_eq!(silence.label(), label, "{status:?} from {gateway:?}");
            }
        }
    }

    #[test]
    fn b58_a_reply_under_another_name_is_nobodys() {
        let mut calls = Calls::new(Gateway::webdis("w", None, None), 3, 7);
        let mut ask = |ticket| match calls.submit(ticket, &command(), Moment(30)) {
            Called::Call(asked, request) => (asked, request),
            Called::Refused(..) => panic!("there is room"),
        };
        let ((first, one), (second, two)) = (ask(1), ask(2));
        assert_ne!(header(&one, ":path"), header(&two, ":path"));
        let foreign = |ticket| {
            let answer = Err(Silence::Foreign);
            Some(Settled { ticket, answer })
        };
        let of_the_first = b"a0000000000000007x1({\"EVALSHA\":[1,9,0,5]});";
        let answered = calls.answered(second, Some(200), of_the_first, Moment(5));
        assert_eq!(answered, foreign(2));
        let of_another_worker = b"a0000000000000008x1({\"EVALSHA\":[1,9,0,5]});";
        let answered = calls.answered(first, Some(200), of_another_worker, Moment(5));
        assert_eq!(answered, foreign(1));
        let unwrapped = Gateway::webdis("w", None, None).reply(Some(200), b"{\"A\":1}", "a1");
        assert_eq!(
            unwrapped,
            Err(Silence::Garbage),
            "whose it is, nobody knows"
        );
    }

    #[test]
    fn calls_are_settled_once_in_any_order_and_in_time() {
        let mut calls = Calls::new(Gateway::webdis("w", None, None), 3, 7);
        let ask = |calls: &mut Calls<u64>, ticket, deadline| match calls.submit(
            ticket,
            &command(),
            Moment(deadline),
        ) {
            Called::Call(asked, _) => asked,
            Called::Refused(ticket, silence) => panic!("{ticket} {silence:?}"),
        };
        let first = ask(&mut calls, 1, 30);
        let second = ask(&mut calls, 2, 10);
        let third = ask(&mut calls, 3, 20);
        let full = calls.submit(4, &command(), Moment(9));
        assert_eq!(full, Called::Refused(4, Silence::Full));
        let answer = Ok(Value::Integer(3));
        let at = Moment(5);
        let settled = calls.answered(third, Some(200), b"a0000000000000007x3({\"A\":3});", at);
        assert_eq!(settled, Some(Settled { ticket: 3, answer }));
        assert_eq!(
            calls.answered(third, Some(200), b"a0000000000000007x3({\"A\":3});", at),
            None
        );
        assert_eq!(calls.next_check(), Some(Moment(10)));
        let mut settled = Vec::new();
        calls.expire(Moment(10), &mut settled);
        assert_eq!(
            settled,
            [Settled {
                ticket: 2,
                answer: Err(Silence::TimedOut)
            }]
        );
        assert_eq!(
            calls.answered(
                second,
                Some(200),
                b"a0000000000000007x2({\"A\":2});",
                Moment(11)
            ),
            None,
            "it is late"
        );
        assert_eq!((calls.take_late(), calls.take_late()), (1, 0));
        assert_eq!(calls.abandon(first), Some(1));
        assert_eq!((calls.next_check(), calls.in_flight()), (None, 1));
        assert_eq!(calls.answered(first, None, b"", Moment(12)), None);
        assert_eq!(calls.in_flight(), 0);
    }
    #[test]
    fn a_call_that_fails_says_why_and_one_that_is_passed_on_tells_another() {
        let mut calls = Calls::new(Gateway::upstash("u", "t"), 9, 7);
        let mut ask = |ticket| match calls.submit(ticket, &command(), Moment(10)) {
            Called::Call(asked, _) => asked,
            Called::Refused(..) => panic!("there is room"),
        };
        let [unmade, early, late, passed, gone] = [1, 2, 3, 4, 5].map(&mut ask);
        let end = |ticket, why| {
            let answer = Err(why);
            Some(Settled { ticket, answer })
        };
        assert_eq!(calls.failed(unmade), end(1, Silence::Unreachable));
        assert_eq!(calls.failed(unmade), None);
        let down = Silence::Refused(ErrorKind::GatewayDown);
        let answered = calls.answered(early, Some(504), b"", Moment(9));
        assert_eq!(answered, end(2, down));
        let answered = calls.answered(late, Some(504), b"", Moment(10));
        assert_eq!(answered, end(3, Silence::TimedOut));
        assert_eq!(calls.pass_on(passed, 40, Micros(10)), Ok(()));
        assert_eq!(calls.abandon(gone), Some(5));
        assert_eq!(calls.next_check(), Some(Moment(20)));
        let answered = calls.answered(passed, None, b"", Moment(11));
        assert_eq!(answered, end(40, Silence::Lost));
        assert_eq!(calls.pass_on(passed, 50, Micros(1)), Err(50), "it is over");
    }

    #[test]
    fn a_call_whose_time_is_up_can_still_be_passed_on_until_it_ends_or_is_forgotten() {
        let mut calls = Calls::new(Gateway::upstash("u", "t"), 9, 7);
        let mut ask = |ticket| match calls.submit(ticket, &command(), Moment(10)) {
            Called::Call(asked, _) => asked,
            Called::Refused(..) => panic!("there is room"),
        };
        let [passed, left] = [1, 2].map(&mut ask);
        let mut settled = Vec::new();
        calls.expire(Moment(10), &mut settled);
        assert_eq!((settled.len(), calls.next_check()), (2, None));
        assert_eq!(calls.pass_on(passed, 10, Micros::from_secs(20)), Ok(()));
        calls.expire(Moment(10).plus(FORGOTTEN), &mut settled);
        assert_eq!((settled.len(), calls.in_flight()), (2, 1));
        assert_eq!(calls.pass_on(left, 20, Micros(1)), Err(20));
        calls.expire(Moment(20_000_010), &mut settled);
        assert_eq!(settled.pop().unwrap().ticket, 10);
    }
}
