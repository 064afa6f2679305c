//! The script and its Rust twin on random histories, in virtual time, against a real Redis.

use std::hash::{BuildHasher, RandomState};

use aforo::{
    algorithm::{Algorithm, Align, Kind, MAX_COUNT, MAX_WINDOW, Parameters, Window},
    claim::Claim,
    local::Local,
    redis::{
        resp::Value,
        script::{By, Call, Commands, Member, Mode, Script, Words, read},
    },
    units::{Micros, Moment},
    verdict::{Reading, Wait},
};

use crate::script_redis::Redis;

/// What happens to one client.
#[derive(Clone, Debug)]
struct History {
    start: u64,
    /// The limits that apply, each with the numbers it has had: the same kind and window, other
    /// counts and bursts.
    limits: Vec<Vec<Algorithm>>,
    steps: Vec<Step>,
}

#[derive(Clone, Debug)]
struct Step {
    advance: Advance,
    mode: Mode,
    /// Which of a limit's numbers applies.
    numbers: usize,
    /// Per limit: the cost as a share of its quota in 1/16, and a few units more.
    costs: [(u64, u64); 3],
    shadow: [bool; 3],
}

/// How the clock moves.
#[derive(Clone, Debug)]
enum Advance {
    By(u64),
    /// So many 64ths of the first limit's window, and some microseconds more.
    Window(u64, u64),
    /// To the moment that the last refusal named, or a microsecond before or after it.
    Wait(i64),
    /// Backwards: to a master whose clock is behind.
    Back(u64),
}

/// Random numbers from a seed: splitmix64.
struct Random(u64);

impl Random {
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9e37_79b9_7f4a_7c15);
        let z = (self.0 ^ (self.0 >> 30)).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let z = (z ^ (z >> 27)).wrapping_mul(0x94d0_49bb_1331_11eb);
        z ^ (z >> 31)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.next() % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn of<T: Copy>(&mut self, choices: &[T]) -> T {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// Of any size up to `2^bits`, the small ones as often as the large.
    fn up_to_bits(&mut self, bits: u64) -> u64 {
        let bits = self.below(bits + 1);
        self.next() >> (64 - bits.max(1))
    }

    fn span(&mut self) -> Micros {
        let usual = [
            1_000,
            20_000,
            1_000_000,
            7_000_000,
            60_000_000,
            3_600_000_000,
        ];
        Micros(match self.below(8) {
            0 => MAX_WINDOW.0,
            1 => 86_400_000_000,
            2 | 3 => (1_000 + self.up_to_bits(45)).min(MAX_WINDOW.0),
            _ => self.of(&usual),
        })
    }

    fn count(&mut self) -> u64 {
        match self.below(8) {
            0 => MAX_COUNT,
            1 => 700_001,
            2 => (1 + self.up_to_bits(40)).min(MAX_COUNT),
            3 | 4 => 12 + self.below(2_000),
            _ => 1 + self.below(12),
        }
    }

    /// One to three sets of numbers of a limit that keep its state.
    fn numbers(&mut self, kind: Kind) -> Vec<Algorithm> {
        let span = self.span();
        let offset = i16::try_from(self.below(1_561)).unwrap() - 720;
        let month = self.one_in(3);
        let align = match self.below(3) {
            0 => None,
            1 if !month => Some(Align::FirstHit),
            _ => Some(Align::Clock(offset)),
        };
        let window = match kind {
            Kind::Concurrency => None,
            Kind::FixedWindow if month => Some(Window::Month),
            _ => Some(Window::Span(span)),
        };
        let lease = Micros(span.0.clamp(100_000, 86_400_000_000));
        let numbers = |random: &mut Self| {
            let log = matches!(kind, Kind::SlidingLog | Kind::Concurrency);
            let count = if log {
                random.count().min(2_000)
            } else {
                random.count()
            };
            let bucket = matches!(kind, Kind::TokenBucket | Kind::Gcra);
            let make = |burst: Option<u64>| {
                Algorithm::new(Parameters {
                    kind,
                    count,
                    window,
                    burst: burst.filter(|_| bucket),
                    align: align.filter(|_| kind == Kind::FixedWindow),
                    lease: (kind == Kind::Concurrency).then_some(lease),
                })
            };
            let burst = random.one_in(2).then(|| random.count());
            make(burst).unwrap_or_else(|refused| {
                // A burst that is too large at this rate becomes the one that the message names.
                let most = refused
                    .accepted
                    .trim_start_matches("1..=")
                    .split(' ')
                    .next();
                make(Some(most.unwrap().parse().unwrap())).unwrap()
            })
        };
        let first = numbers(self);
        let mut all = vec![first];
        while self.one_in(2) && all.len() < 3 {
            all.push(numbers(self));
        }
        all
    }

    fn step(&mut self) -> Step {
        let advance = match self.below(16) {
            0..4 => Advance::By(self.of(&[0, 1, 999, 1_000, 1_001])),
            4..7 => Advance::Window(self.below(140), self.below(3)),
            7..10 => Advance::Window(self.below(4), self.below(3)),
            10..15 => Advance::Wait(self.of(&[-1, 0, 1])),
            _ => Advance::Back(1 + self.up_to_bits(36)),
        };
        let costs = [(); 3].map(|()| match self.below(8) {
            0 => (0, 0),
            1 | 2 => (self.below(18), self.below(3)),
            _ => (0, 1),
        });
        Step {
            advance,
            mode: if self.one_in(10) {
                Mode::Give
            } else {
                Mode::Take
            },
            numbers: usize::try_from(self.below(3)).unwrap(),
            costs,
            shadow: [(); 3].map(|()| self.one_in(4)),
        }
    }

    fn history(&mut self, kinds: &[Kind]) -> History {
        let limits = kinds.iter().map(|&kind| self.numbers(kind)).collect();
        let start = 1_700_000_000_000_000 + self.below(1 << 47);
        let steps = (0..1 + self.below(20)).map(|_| self.step()).collect();
        History {
            start,
            limits,
            steps,
        }
    }
}

/// One call of a history, with what the twin said of it.
struct Played {
    now: u64,
    mode: Mode,
    claims: Vec<Claim>,
    member: Member,
    said: Vec<Reading>,
}

/// Lets the twin live through a history, which also says when things happen.
fn play(history: &History) -> Vec<Played> {
    let mut local = Local::new(64);
    let mut now = history.start;
    let mut last = Micros::ZERO;
    let mut taken: Option<(Vec<Claim>, Member)> = None;
    let mut played = Vec::new();
    for (i, step) in history.steps.iter().enumerate() {
        let window = history.limits[0][0].longest_ttl_ms() * 500;
        now = match step.advance {
            Advance::By(n) => now + n,
            Advance::Window(n, more) => now + window / 64 * n + more,
            Advance::Wait(more) => (now + last.0).saturating_add_signed(more),
            Advance::Back(n) => now - n,
        };
        let claims = history
            .limits
            .iter()
            .zip(step.costs)
            .zip(step.shadow)
            .enumerate();
        let mut claims: Vec<_> = claims
            .map(|(limit, ((numbers, (sixteenths, more)), shadow))| {
                let algorithm = numbers[step.numbers % numbers.len()];
                Claim {
                    limit,
                    key: format!("aforo:{{a}}:{limit}:{}", algorithm.key_part()),
                    algorithm,
                    cost: algorithm.quota() / 16 * sixteenths + more,
                    enforced: !shadow || history.limits.len() == 1,
                }
            })
            .collect();
        let mut member = Member::new(u128::try_from(i).unwrap().to_be_bytes());
        let mode = match (step.mode, &taken) {
            (Mode::Give, Some(last)) => {
                (claims, member) = last.clone();
                Mode::Give
            }
            _ => Mode::Take,
        };
        let said = match mode {
            Mode::Take => local.decide(&claims, Moment(now), member),
            Mode::Give => local.give(&claims, Moment(now), member),
        };
        let refused = said.iter().find_map(|reading| match reading.wait {
            Wait::For(wait) if !reading.admitted => Some(wait),
            _ => None,
        });
        last = refused.unwrap_or(Micros::ZERO);
        if mode == Mode::Take
            && claims
                .iter()
                .zip(&said)
                .all(|(c, r)| r.admitted || !c.enforced)
        {
            taken = Some((claims.clone(), member));
        }
        played.push(Played {
            now,
            mode,
            claims,
            member,
            said,
        });
    }
    played
}

fn keys(history: &History) -> impl Iterator<Item = (String, u64)> {
    history.limits.iter().enumerate().map(|(limit, numbers)| {
        let key = format!("aforo:{{a}}:{limit}:{}", numbers[0].key_part());
        (
            key,
            numbers.iter().map(Algorithm::longest_ttl_ms).max().unwrap(),
        )
    })
}

/// The same history in Redis: the same readings, and a life of every key within its bound.
fn agree(redis: &mut Redis, history: &History) -> Result<(), String> {
    let script = Script::virtual_time();
    let played = play(history);
    let mut bytes = Vec::new();
    let mut out = Commands(&mut bytes);
    command(&mut out, &["FLUSHDB"]);
    for call in &played {
        let now = [i64::try_from(call.now).unwrap()];
        let Played {
            mode,
            claims,
            member,
            ..
        } = call;
        Call {
            mode: *mode,
            by: By::Sha,
        }
        .write_of(&script, claims, *member, &now, &mut out);
    }
    for (key, _) in keys(history) {
        command(&mut out, &["EXISTS", &key]);
        command(&mut out, &["HGET", "lives", &key]);
    }
    redis.send(&bytes);
    redis.reply();
    // Every reply is read before any is judged: the next history uses the same connection.
    let replies: Vec<_> = played.iter().map(|_| redis.reply()).collect();
    let lives: Vec<_> = keys(history)
        .map(|_| (redis.reply(), redis.reply()))
        .collect();
    for (i, (call, reply)) in played.iter().zip(&replies).enumerate() {
        let readings = read(reply, &call.claims);
        let readings = readings.map_err(|error| format!("{error:?}: {reply:?}"))?;
        if readings != call.said {
            let (said, claims) = (&call.said, &call.claims);
            return Err(format!(
                "step {i}: Redis {readings:?}, twin {said:?} of {claims:?}"
            ));
        }
    }
    for ((key, bound), (exists, life)) in keys(history).zip(lives) {
        let life = match life {
            Value::Bulk(text) => String::from_utf8(text).unwrap(),
            _ => String::new(),
        };
        let life: u64 = life
            .split(' ')
            .nth(1)
            .map_or(0, |life| life.parse().unwrap());
        if exists != Value::Integer(0) && !(1..=bound).contains(&life) {
            return Err(format!("{key} lives {life} ms, longer than {bound}"));
        }
    }
    Ok(())
}

fn command(out: &mut impl Words, words: &[&str]) {
    out.begin(words.len());
    words.iter().for_each(|word| out.word(word.as_bytes()));
}

/// Runs the seeds that once failed, and then new ones, through histories of these kinds; of two or
/// three random kinds when there are none.
fn run(cases: u64, kinds: &[Kind]) {
    let mut redis = Redis::start();
    redis.ask(&["SCRIPT", "LOAD", Script::virtual_time().body()]);
    let failed = include_str!("script_histories.seeds").lines();
    let failed = failed.filter(|line| !line.starts_with('#'));
    let failed: Vec<u64> = failed.map(|seed| seed.parse().unwrap()).collect();
    let new = RandomState::new().hash_one(kinds.len());
    for seed in failed
        .into_iter()
        .chain((0..cases).map(|case| new.wrapping_add(case)))
    {
        let mut random = Random(seed);
        let mut kinds = kinds.to_vec();
        if kinds.is_empty() {
            kinds = (0..2 + random.below(2))
                .map(|_| random.of(&Kind::ALL))
                .collect();
        }
        let history = random.history(&kinds);
        if let Err(why) = agree(&mut redis, &history) {
            let (history, why) = shrunk(&mut redis, history, why);
            panic!("{why}\n{history:#?}\nkeep the seed in script_histories.seeds: {seed}");
        }
    }
}

/// The shortest history that fails, found by leaving out steps one by one.
fn shrunk(redis: &mut Redis, mut history: History, mut why: String) -> (History, String) {
    let mut i = 0;
    while i < history.steps.len() {
        let mut less = history.clone();
        less.steps.remove(i);
        match agree(redis, &less) {
            Err(new) => (history, why) = (less, new),
            Ok(()) => i += 1,
        }
    }
    (history, why)
}

#[test]
fn lua_and_rust_agree_on_sliding_log() {
    run(10_000, &[Kind::SlidingLog]);
}

#[test]
fn lua_and_rust_agree_on_sliding_window() {
    run(10_000, &[Kind::SlidingWindow]);
}

#[test]
fn lua_and_rust_agree_on_fixed_window() {
    run(10_000, &[Kind::FixedWindow]);
}

#[test]
fn lua_and_rust_agree_on_token_bucket() {
    run(10_000, &[Kind::TokenBucket]);
}

#[test]
fn lua_and_rust_agree_on_gcra() {
    run(10_000, &[Kind::Gcra]);
}

#[test]
fn lua_and_rust_agree_on_concurrency() {
    run(10_000, &[Kind::Concurrency]);
}

#[test]
fn lua_and_rust_agree_on_several_limits_of_one_request() {
    run(5_000, &[]);
}
