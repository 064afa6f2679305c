//! What the host knows: streams, calls, time, and what the module told it.

use std::collections::HashMap;

/// The export that takes what came of a Redis call.
pub const REDIS_REPLY: &str = "proxy_on_redis_call_response";
/// The one shared queue.
pub const BELL: u32 = 1;

/// A command that the module asked the host to send to Redis.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Call {
    /// The name under which its end is told.
    pub token: u32,
    /// The cluster it is for.
    pub cluster: String,
    /// The bytes for Redis.
    pub command: Vec<u8>,
}

/// How to reach Redis, as the module said it.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Introduction {
    /// The cluster.
    pub cluster: String,
    /// For `AUTH`; empty when there is none.
    pub user: String,
    /// For `AUTH`; empty when there is none.
    pub password: String,
    /// How long Redis may take for one reply, in milliseconds.
    pub timeout: u32,
}

/// An answer of the module's own.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Response {
    /// The status.
    pub status: u32,
    /// The header fields.
    pub fields: Vec<(String, String)>,
}

/// Where a request is.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub enum Stream {
    /// The module holds it.
    #[default]
    Waits,
    /// It went on.
    Passed,
    /// The module answered it.
    Refused(Response),
}

#[derive(Default)]
struct Request {
    fields: Vec<(String, String)>,
    shown: Vec<(String, String)>,
    stream: Stream,
}

/// See the module.
#[derive(Default)]
pub struct World {
    pub configuration: Vec<u8>,
    pub log: Vec<String>,
    pub effective: u32,
    pub calls: Vec<Call>,
    pub introductions: Vec<Introduction>,
    pub reply: Vec<u8>,
    pub known: bool,
    pub fail_at_once: bool,
    tokens: u32,
    millis: u64,
    period: u32,
    rung: u32,
    heard: bool,
    streams: HashMap<u32, Request>,
    metrics: Vec<(String, i64)>,
    random: u64,
}

impl World {
    pub fn new(configuration: &str) -> Self {
        Self {
            configuration: configuration.as_bytes().to_vec(),
            known: true,
            ..Self::default()
        }
    }

    pub fn begin(&mut self, id: u32, fields: &[(&str, &str)]) {
        let fixed = [(":method", "GET"), (":path", "/")];
        let all = fixed.iter().chain(fields);
        let fields = all.map(|&(name, value)| (name.to_owned(), value.to_owned()));
        let request = Request {
            fields: fields.collect(),
            ..Request::default()
        };
        self.streams.insert(id, request);
    }

    pub fn stream(&self, id: u32) -> Stream {
        self.streams[&id].stream.clone()
    }

    pub fn shown(&self, id: u32) -> Vec<(String, String)> {
        self.streams[&id].shown.clone()
    }

    pub fn forget(&mut self, id: u32) {
        self.streams.remove(&id);
    }

    /// A stream goes on.
    ///
    /// # Panics
    /// When it has gone on, or was answered: once is all there may be.
    pub fn pass(&mut self, id: u32) {
        self.conclude(id, Stream::Passed);
    }

    pub fn refuse(&mut self, id: u32, response: Response) {
        self.conclude(id, Stream::Refused(response));
    }

    fn conclude(&mut self, id: u32, end: Stream) {
        let request = self.streams.get_mut(&id).expect("a stream");
        assert_eq!(request.stream, Stream::Waits, "stream {id} ends twice");
        request.stream = end;
    }

    pub fn is_context(&self, id: u32) -> bool {
        id == super::ROOT || self.streams.contains_key(&id)
    }

    /// A header of the effective stream: of its request, or of its response.
    pub fn field(&self, of_response: bool, name: &str) -> Option<String> {
        let request = self.streams.get(&self.effective)?;
        if of_response && name == ":status" {
            return Some("200".to_owned());
        }
        let fields = if of_response {
            &request.shown
        } else {
            &request.fields
        };
        let found = fields.iter().find(|(known, _)| known == name)?;
        Some(found.1.clone())
    }

    pub fn set_field(&mut self, name: String, value: Option<String>) {
        if let Some(request) = self.streams.get_mut(&self.effective) {
            request.shown.retain(|(known, _)| *known != name);
            request.shown.extend(value.map(|value| (name, value)));
        }
    }

    /// The token of a new call.
    pub fn token(&mut self) -> u32 {
        self.tokens += 1;
        self.tokens
    }

    pub fn tick_every(&mut self, period: u32) {
        self.period = period;
    }

    pub fn ticks(&self) -> bool {
        self.period > 0
    }

    /// Whether a tick is due after this millisecond.
    pub fn pass_millisecond(&mut self) -> bool {
        self.millis += 1;
        self.period > 0 && self.millis.is_multiple_of(u64::from(self.period))
    }

    pub fn nanoseconds(&self) -> u64 {
        (self.millis + 1_000) * 1_000_000
    }

    pub fn ring(&mut self) {
        self.rung += 1;
        self.heard = true;
    }

    /// Takes an entry out of the queue.
    pub fn answer_ring(&mut self) -> bool {
        let some = self.rung > 0;
        self.rung = self.rung.saturating_sub(1);
        some
    }

    /// Whether the bell was rung since the last look.
    pub fn heard(&mut self) -> bool {
        std::mem::take(&mut self.heard)
    }

    pub fn define(&mut self, name: String) -> u32 {
        self.metrics.push((name, 0));
        u32::try_from(self.metrics.len()).expect("some metrics")
    }

    pub fn add(&mut self, metric: u32, by: i64) {
        self.metrics[metric as usize - 1].1 += by;
    }

    pub fn metric(&self, name: &str) -> i64 {
        let same = self.metrics.iter().filter(|(known, _)| known == name);
        same.map(|(_, value)| value).sum()
    }

    /// Bytes that are alike in every run.
    pub fn random(&mut self) -> u8 {
        self.random = self
            .random
            .wrapping_mul(6_364_136_223_846_793_005)
            .wrapping_add(1);
        self.random.to_be_bytes()[0]
    }
}
