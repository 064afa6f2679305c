//! A hundred thousand random policies either load and explain, or fail with a path; and the filter
//! selects what the command explains. A failure names its seed: put it into `SEEDS`.

use aforo::{
    policy::Policy,
    rules::{Selection, explain, select},
};

use super::facts::{Given, get};

/// Policies a run.
const POLICIES: u64 = 100_000;
/// Seeds that failed once.
const SEEDS: [u64; 0] = [];

#[test]
fn random_policies_load_and_explain_or_fail_with_a_path() {
    let halves = [0..POLICIES / 2, POLICIES / 2..POLICIES];
    let threads = halves.map(|half| {
        std::thread::spawn(move || {
            let mut seen = Seen::default();
            for seed in SEEDS.into_iter().chain(half) {
                try_seed(seed, &mut seen);
            }
            seen
        })
    });
    for thread in threads {
        let seen = thread.join().expect("a seed failed, see above");
        // Both kinds, and every outcome, are met often.
        for count in [
            seen.loaded,
            seen.refused,
            seen.asked,
            seen.nothing,
            seen.denied,
        ] {
            assert!(count > 1_000, "{seen:?}");
        }
    }
}

#[derive(Debug, Default)]
struct Seen {
    loaded: u32,
    refused: u32,
    asked: u32,
    nothing: u32,
    denied: u32,
}

fn try_seed(seed: u64, seen: &mut Seen) {
    let mut random = Random::new(seed);
    let json = random.policy();
    let policy = match Policy::from_json(json.as_bytes()) {
        Ok((policy, _)) => policy,
        Err(errors) => {
            seen.refused += 1;
            assert!(!errors.list().is_empty(), "seed {seed}: {json}");
            for error in errors.list() {
                let told = error.to_string();
                assert!(
                    told.contains(": found ") && told.contains("; accepted: "),
                    "seed {seed}: {told}"
                );
            }
            return;
        }
    };
    seen.loaded += 1;
    for _ in 0..2 {
        let request = random.request();
        let selection = select(&policy, &request);
        let explanation = explain(&policy, &request);
        assert_eq!(explanation.selection(), selection, "seed {seed}: {json}");
        assert_eq!(explanation.limits.len(), policy.limits.len());
        match selection {
            Selection::Nothing => seen.nothing += 1,
            Selection::Deny { .. } => seen.denied += 1,
            Selection::Claims(claims) => {
                seen.asked += 1;
                for claim in claims {
                    let tag = claim.tag();
                    let plain = |b: u8| b.is_ascii_graphic();
                    assert!(claim.key.bytes().all(plain), "seed {seed}: {}", claim.key);
                    assert!(
                        !tag.is_empty() && !tag.contains(['{', ':']),
                        "seed {seed}: {tag}"
                    );
                    assert_eq!(
                        claim.key.matches('{').count(),
                        1,
                        "seed {seed}: {}",
                        claim.key
                    );
                    assert!(claim.key.len() < 2_000, "seed {seed}: {}", claim.key);
                }
            }
        }
    }
}

/// Random text of the policy language.
struct Random(u64);

impl Random {
    fn new(seed: u64) -> Self {
        // SplitMix64's increment, so that neighbours differ.
        Self(seed.wrapping_mul(0x9E37_79B9_7F4A_7C15) | 1)
    }

    fn below(&mut self, n: u64) -> u64 {
        self.0 ^= self.0 << 13;
        self.0 ^= self.0 >> 7;
        self.0 ^= self.0 << 17;
        (self.0 >> 11) % n
    }

    fn one_in(&mut self, n: u64) -> bool {
        self.below(n) == 0
    }

    fn pick<'a>(&mut self, choices: &[&'a str]) -> &'a str {
        choices[usize::try_from(self.below(choices.len() as u64)).unwrap()]
    }

    /// One of the choices; seldom one of the wrong ones.
    fn mostly<'a>(&mut self, good: &[&'a str], bad: &[&'a str]) -> &'a str {
        if self.one_in(120) {
            self.pick(bad)
        } else {
            self.pick(good)
        }
    }

    fn list(&mut self, least: u64, most: u64, item: fn(&mut Self) -> String) -> String {
        let count = least + self.below(most - least + 1);
        let items: Vec<String> = (0..count).map(|_| item(self)).collect();
        format!("[{}]", items.join(","))
    }

    fn policy(&mut self) -> String {
        let mut fields = Vec::new();
        for (name, odds, value) in [
            ("domain", 3, Self::name as fn(&mut Self) -> String),
            ("outage", 3, |r| r.mostly(OUTAGES, WRONG).to_owned()),
            ("hash_key", 4, |r| {
                r.mostly(&[r#""0123456789abcdef""#], &[r#""short""#, "1"])
                    .to_owned()
            }),
            ("ipv6_prefix", 4, |r| {
                r.mostly(&["1", "48", "128"], &["0", "129", "64.5"])
                    .to_owned()
            }),
            ("path_case", 3, |r| {
                r.mostly(&[r#""sensitive""#, r#""insensitive""#], WRONG)
                    .to_owned()
            }),
            ("exempt", 3, |r| r.list(1, 2, Self::exemption)),
            ("redis", 5, |r| {
                r.mostly(&["{}", r#"{"timeout":"5ms"}"#], &[r#"{"linc":1}"#])
                    .to_owned()
            }),
            ("unknown", 200, |_| "1".to_owned()),
        ] {
            if self.one_in(odds) {
                fields.push(format!(r#""{name}":{}"#, value(self)));
            }
        }
        let count = 1 + self.below(4);
        let limits: Vec<String> = (0..count).map(|i| self.limit(i)).collect();
        fields.push(format!(r#""limits":[{}]"#, limits.join(",")));
        format!("{{{}}}", fields.join(","))
    }

    fn name(&mut self) -> String {
        self.mostly(
            &[r#""a""#, r#""b.c""#, r#""D_1-x""#],
            &[r#""""#, r#""ü""#, r#""a b""#, "1"],
        )
        .to_owned()
    }

    fn limit(&mut self, number: u64) -> String {
        let algorithm = self.mostly(
            &[
                "gcra",
                "token-bucket",
                "sliding-log",
                "sliding-window",
                "fixed-window",
                "concurrency",
            ],
            &["leaky", ""],
        );
        let rate = |r: &mut Self| -> String {
            let rates: &[&str] = match algorithm {
                "concurrency" => &["1", "50", r#""7""#],
                _ => &[r#""5/10s""#, r#""100/1m""#, r#""20/500ms""#, r#""9 / day""#],
            };
            match r.below(12) {
                0 => r.pick(&[r#""unlimited""#, r#""deny""#]).to_owned(),
                _ => r
                    .mostly(
                        rates,
                        &["-1", r#""0/1s""#, r#""5/0s""#, r#""5/x""#, "null", "[]"],
                    )
                    .to_owned(),
            }
        };
        let mut fields = vec![
            format!(r#""name":"l{}""#, if self.one_in(150) { 0 } else { number }),
            format!(r#""algorithm":"{algorithm}""#),
            format!(r#""rate":{}"#, rate(self)),
            format!(r#""key":{}"#, self.list(0, 3, Self::part)),
        ];
        if matches!(algorithm, "gcra" | "token-bucket") && self.one_in(3) {
            fields.push(r#""burst":7"#.to_owned());
        }
        if self.one_in(4) {
            let plans = [rate(self), rate(self)];
            let by = self.part();
            fields.push(format!(
                r#""plans":{{"by":{by},"free":{},"pro":{}}}"#,
                plans[0], plans[1]
            ));
        }
        if self.one_in(4) {
            let terms = rate(self);
            let (part, value) = self.mostly_pair();
            fields.push(format!(
                r#""overrides":[{{"by":{part},"match":{value},"rate":{terms}}}]"#
            ));
        }
        for (name, odds, value) in [
            ("when", 2, Self::alternatives as fn(&mut Self) -> String),
            ("exempt", 6, |r| r.list(1, 2, Self::exemption)),
            ("group", 3, Self::name),
            ("missing", 2, Self::missing),
            ("secret", 5, |r| {
                r.mostly(&["true", "false"], &["1"]).to_owned()
            }),
            ("mode", 4, |r| {
                r.mostly(&[r#""enforce""#, r#""shadow""#, r#""off""#, "false"], WRONG)
                    .to_owned()
            }),
            ("enforce_percent", 5, |r| {
                r.mostly(&["0", "12.5", "50", "100"], &["101", "-1"])
                    .to_owned()
            }),
            ("cost", 5, |r| {
                r.mostly(&["1", "3", COST], &["0", "-1", "1.5"]).to_owned()
            }),
            ("outage", 8, |r| r.mostly(OUTAGES, WRONG).to_owned()),
            ("lmt", 300, |_| "1".to_owned()),
        ] {
            if self.one_in(odds) {
                fields.push(format!(r#""{name}":{}"#, value(self)));
            }
        }
        format!("{{{}}}", fields.join(","))
    }

    fn part(&mut self) -> String {
        let part = self.mostly(
            &[
                r#""ip""#,
                r#""path""#,
                r#""method""#,
                r#""host""#,
                r#""route""#,
                r#""peer""#,
                r#""header:x-a""#,
                r#""header:authorization""#,
                r#""cookie:c""#,
                r#""query:q""#,
                r#""claim:sub""#,
                r#""property:p.q""#,
                r#"{"header":"X-B","secret":true}"#,
            ],
            &[
                r#""header""#,
                r#""ipp""#,
                r#"{"header":"a","cookie":"b"}"#,
                "1",
                r#""query:""#,
            ],
        );
        part.to_owned()
    }

    fn mostly_pair(&mut self) -> (&'static str, &'static str) {
        match self.below(3) {
            0 => (r#""ip""#, r#"["203.0.113.0/25","2001:db8::/32"]"#),
            1 => (r#""header:x-a""#, r#"["v1","v*"]"#),
            _ => (r#""path""#, r#""/a*""#),
        }
    }

    fn missing(&mut self) -> String {
        match self.below(4) {
            0 => self.list(1, 2, Self::part),
            _ => self
                .mostly(&[r#""deny""#, r#""skip""#, r#""shared""#, r#""ip""#], WRONG)
                .to_owned(),
        }
    }

    fn alternatives(&mut self) -> String {
        match self.below(3) {
            0 => self.list(1, 3, Self::when),
            _ => self.when(),
        }
    }

    fn exemption(&mut self) -> String {
        match self.below(2) {
            0 => self.mostly(KINDS, WRONG).to_owned(),
            _ => self.when(),
        }
    }

    fn when(&mut self) -> String {
        let mut fields = vec![format!(r#""path":{}"#, self.list(1, 3, Self::path))];
        for (name, odds, value) in [
            (
                "methods",
                5,
                (|r| r.list(1, 2, |r| r.mostly(METHODS, WRONG).to_owned()))
                    as fn(&mut Self) -> String,
            ),
            ("hosts", 8, |r| {
                r.mostly(&[r#""example.com""#, r#""*.com""#], &[r#""a:1""#])
                    .to_owned()
            }),
            ("headers", 6, |r| format!(r#"{{"x-a":{}}}"#, r.test())),
            ("query", 8, |r| format!(r#"{{"q":{}}}"#, r.test())),
            ("cookies", 8, |r| format!(r#"{{"c":{}}}"#, r.test())),
            ("properties", 8, |r| format!(r#"{{"p.q":{}}}"#, r.test())),
            ("ip", 6, |r| {
                r.mostly(&[r#""203.0.113.0/24""#, r#"["::/0"]"#], &[r#""x""#])
                    .to_owned()
            }),
            ("is", 12, |r| r.mostly(KINDS, WRONG).to_owned()),
            ("not", 6, Self::when),
        ] {
            if self.one_in(odds) {
                fields.push(format!(r#""{name}":{}"#, value(self)));
            }
        }
        if fields.len() > 1 && self.one_in(2) {
            fields.remove(0);
        }
        format!("{{{}}}", fields.join(","))
    }

    fn path(&mut self) -> String {
        let good = [
            r#""/""#,
            r#""/a""#,
            r#""/a/""#,
            r#""/a/{x}""#,
            r#""/{x}/b""#,
            r#""/{x}/""#,
            r#""/A/b/*""#,
            r#""/a/*/c""#,
            r#"{"exact":"/a/b"}"#,
            r#"{"prefix":"/a"}"#,
            r#"{"regex":"/[ab]/.*"}"#,
        ];
        self.mostly(
            &good,
            &[
                r#""a""#,
                r#""/a?""#,
                r#""/{x}y""#,
                r#"{"regex":"("}"#,
                "1",
                "{}",
            ],
        )
        .to_owned()
    }

    fn test(&mut self) -> String {
        let good = [
            r#""v1""#,
            r#"["v1","v2"]"#,
            r#"{"present":true}"#,
            r#"{"present":false}"#,
            r#"{"prefix":"v"}"#,
            r#"{"suffix":"1"}"#,
            r#"{"regex":"v[0-9]"}"#,
            "1",
            "true",
        ];
        self.mostly(&good, &["{}", "null", r#"{"startswith":"v"}"#])
            .to_owned()
    }

    fn request(&mut self) -> Given {
        let path = self.pick(&[
            "/", "/a", "/a/", "/a/b", "/A/B", "/a/b/c", "/a//b", "/x/../a", "/b/b", "/a%2Fb",
            "/healthz", "*", "/a?q=v1", "/%zz",
        ]);
        let mut request = get(path);
        for (name, values) in [
            (":method", &["POST", "OPTIONS", "get"][..]),
            (":authority", &["other.org", "EXAMPLE.com:80"]),
            ("x-a", &["v1", "v2", "", "v}{:", "\u{e9}"]),
            ("x-b", &["s"]),
            ("authorization", &["Bearer t"]),
            ("cookie", &["c=v1", "c=", "d=1"]),
            ("origin", &["https://o"]),
            ("access-control-request-method", &["PUT"]),
            ("x-cost", &["2", "-1"]),
        ] {
            if self.one_in(2) {
                request = request.header(name, self.pick(values));
            }
        }
        for (path, values) in [
            (
                "source.address",
                &["198.51.100.1:9", "[2001:db8::1]:9", "", "/run/s"][..],
            ),
            ("xds.route_name", &["r"]),
            ("p.q", &["v1", "1"]),
            (
                "metadata.filter_metadata.envoy.filters.http.jwt_authn.payload.sub",
                &["u"],
            ),
        ] {
            if self.one_in(2) {
                request = request.property(path, self.pick(values));
            }
        }
        request
    }
}

const OUTAGES: &[&str] = &[r#""allow""#, r#""deny""#, r#""local""#];
const KINDS: &[&str] = &[r#""health-checks""#, r#""cors-preflight""#];
const METHODS: &[&str] = &[r#""GET""#, r#""POST""#, r#""OPTIONS""#];
const WRONG: &[&str] = &[r#""wrong""#, "1", "null", "{}"];
const COST: &str = r#"{"header":"x-cost","max":9}"#;
