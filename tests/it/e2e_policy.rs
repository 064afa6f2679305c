//! What a policy says of a client, a path and an exemption, through a real Envoy.

use serde_json::{Value, json};
use support::client::{Ask, get};
use support::config::{Config, Link};
use support::envoy::Envoy;
use support::http_text::Raw;
use support::mesh::{Mesh, Plan, mesh, policy};
use support::until;

/// One limit for requests below `path`.
fn limit(name: &str, path: &str, key: Value, rate: &str) -> Value {
    json!({
        "name": name, "when": { "path": path }, "key": key,
        "algorithm": "sliding-log", "rate": rate,
    })
}

fn plan(limits: Value) -> Plan {
    plan_of(policy("deny", "5s", limits))
}

fn plan_of(policy: Value) -> Plan {
    mesh(Link::Straight, policy).patient()
}

/// One proxy before Envoy is trusted: what it appended to X-Forwarded-For is the client.
fn behind_a_proxy(config: &mut Config) {
    config.manager()["use_remote_address"] = json!(true);
    config.manager()["xff_num_trusted_hops"] = json!(1);
}

/// The status of a GET in raw bytes, on a connection of its own.
fn raw(mesh: &Mesh, path: &str, lines: &[&[u8]]) -> u16 {
    let mut raw = Raw::to(mesh.address());
    raw.get(path.as_bytes(), lines);
    raw.answer().0
}

/// The statuses of GETs with these values of X-Forwarded-For, each on a connection of its own.
fn forwarded_for(mesh: &Mesh, values: &[String]) -> Vec<u16> {
    let send = |value: &String| {
        let line = format!("x-forwarded-for: {value}");
        raw(mesh, "/", &[line.as_bytes()])
    };
    values.iter().map(send).collect()
}

fn status(mesh: &Mesh, ask: &Ask) -> u16 {
    ask.to(mesh.address()).status
}

fn texts(values: &[&str]) -> Vec<String> {
    values.iter().map(|&value| value.to_owned()).collect()
}

#[test]
fn b01_bytes_that_are_no_utf_8_are_clients_of_their_own_in_a_key_that_one_can_read() {
    let mesh = plan(json!([limit(
        "bytes",
        "/",
        json!("header:x-device"),
        "1/1h"
    )]))
    .start();
    let values: [&[u8]; 5] = [b"\xFF", b"\xFE", b"\xC3", b"a\xFF", b"\xEF\xBF\xBD"];
    for expected in [200, 429] {
        for value in values {
            let line = [b"x-device: ", value].concat();
            assert_eq!(raw(&mesh, "/", &[&line]), expected, "{value:02x?}");
        }
    }
    assert_eq!(mesh.echo.hits(), values.len());
    let keys = mesh.redis.keys();
    assert_eq!(keys.len(), values.len());
    assert!(keys.iter().flatten().all(u8::is_ascii_graphic), "{keys:?}");
    for number in 0..20 {
        let ask = get("/").header("x-device", format!("ordinary {number}"));
        assert_eq!(status(&mesh, &ask), 200, "the VM lives");
    }
}

#[test]
fn b07_b08_without_trusted_hops_only_the_peer_counts_whatever_x_forwarded_for_says() {
    let mesh = plan(json!([limit("ip", "/", json!("ip"), "5/1h")])).start();
    let mut values = vec![String::from("203.0.113.7"); 5];
    values.extend((0..5).map(|number| format!("198.51.100.{number}")));
    values.extend((0..5).map(|number| format!("198.51.100.{number}, 203.0.113.7")));
    values.extend(texts(&["unknown", "_hidden", "\"", ", ,203.0.113.9", ""]));
    let statuses = forwarded_for(&mesh, &values);
    assert_eq!(statuses[..5], [200; 5], "every connection has another port");
    assert_eq!(statuses[5..], [429; 15]);
    assert_eq!(mesh.echo.hits(), 5);
    assert_eq!(mesh.redis.keys().len(), 1);
}

#[test]
fn b08_with_one_trusted_hop_only_what_the_proxy_appended_counts() {
    let limits = json!([limit("ip", "/", json!("ip"), "5/1h")]);
    let mesh = plan(limits).change(behind_a_proxy).start();
    let forged: Vec<String> = (0..10)
        .map(|number| format!("198.51.100.{number}, 203.0.113.7"))
        .collect();
    let statuses = forwarded_for(&mesh, &forged);
    assert_eq!(statuses[..5], [200; 5]);
    assert_eq!(statuses[5..], [429; 5]);
    // The same proxy in other words: a second line, odd spaces, a very long history.
    let lines: [&[u8]; 2] = [
        b"x-forwarded-for: 198.51.100.1",
        b"x-forwarded-for: 203.0.113.7",
    ];
    assert_eq!(raw(&mesh, "/", &lines), 429);
    let long = format!("{}203.0.113.7", "198.51.100.1, ".repeat(300));
    let again = [texts(&[", ,203.0.113.7", "a ,  203.0.113.7"]), vec![long]].concat();
    assert_eq!(forwarded_for(&mesh, &again), [429; 3]);
    // Another client of that proxy has a bucket of its own.
    let other = texts(&["203.0.113.7, 203.0.113.8"]);
    assert_eq!(forwarded_for(&mesh, &other), [200]);
    assert_eq!(mesh.redis.keys().len(), 2);
    // What is no address, or absent, is the peer: one bucket, not one of the client's choice.
    let malformed = texts(&["unknown", "_hidden", "\"", "1, x1", "1, x2", "1, x3"]);
    let statuses = forwarded_for(&mesh, &malformed);
    assert_eq!(statuses, [200, 200, 200, 200, 200, 429]);
    assert_eq!(raw(&mesh, "/", &[]), 429);
    assert_eq!(mesh.redis.keys().len(), 3);
    assert_eq!(mesh.echo.hits(), 11);
}

#[test]
fn b09_the_addresses_of_one_64_are_one_client_however_they_are_spelt() {
    let limits = json!([limit("ip", "/", json!("ip"), "5/1h")]);
    let mesh = plan(limits).change(behind_a_proxy).start();
    let inside: Vec<String> = (1..=10)
        .map(|number| format!("2001:db8:0:1:{number}::{number}"))
        .collect();
    let spelt = texts(&[
        "2001:DB8:0:2::1",
        "2001:db8:0:2:0:0:0:1",
        "2001:0db8:0000:0002::0001",
        "2001:db8:0:2::1",
        "2001:db8:0:2::0:1",
        "2001:DB8::2:0:0:0:1",
    ]);
    let mapped = texts(&[
        "::ffff:203.0.113.7",
        "203.0.113.7",
        "::FFFF:203.0.113.7",
        "203.0.113.7",
        "::ffff:cb00:7107",
        "203.0.113.7",
    ]);
    for (number, series) in [inside, spelt, mapped].iter().enumerate() {
        let statuses = forwarded_for(&mesh, series);
        let allowed = statuses.iter().take_while(|&&status| status == 200).count();
        assert_eq!(allowed, 5, "{series:?}: {statuses:?}");
        assert!(statuses[5..].iter().all(|&status| status == 429));
        assert_eq!(mesh.redis.keys().len(), number + 1, "{series:?}");
    }
    assert_eq!(mesh.echo.hits(), 15);
}

fn normalise(config: &mut Config, on: bool) {
    config.manager()["normalize_path"] = json!(on);
    config.manager()["merge_slashes"] = json!(on);
}

#[test]
fn b11_no_respelling_of_a_path_escapes_its_limit_whatever_envoy_normalises() {
    let spellings = "/api/login /api/login/ /api//login /api/./login /api/x/../login /api/%6Cogin \
        /api%2Flogin /api/login;v=1 /api/login?v=1 http://test/api/login";
    let spellings: Vec<&str> = spellings.split(' ').collect();
    let changes: [fn(&mut Config); 2] = [|c| normalise(c, true), |c| normalise(c, false)];
    for (case, change) in ["normalised", "as it came"].into_iter().zip(changes) {
        let key = json!(["path", "ip"]);
        let limits = json!([limit("login", "/api/login", key, "10/1h")]);
        let mesh = plan(limits).change(change).start();
        for expected in [200, 429] {
            for path in &spellings {
                assert_eq!(raw(&mesh, path, &[]), expected, "{path}, {case}");
            }
        }
        assert_eq!(mesh.echo.hits(), spellings.len());
        assert_eq!(mesh.redis.keys().len(), 1);
        for path in ["/api/loginX", "/api/logi", "/api"] {
            assert_eq!(raw(&mesh, path, &[]), 200, "{path} is another path");
        }
    }
}

#[test]
fn b12_neither_a_query_nor_a_segment_of_a_pattern_makes_a_new_key() {
    let mesh = plan(json!([
        limit("search", "/search", json!("path"), "5/1h"),
        limit("verify", "/verify/*", json!("path"), "5/1h"),
    ]))
    .start();
    let size = || mesh.redis.call::<u64>(&["DBSIZE"]);
    for form in ["/search?q=", "/verify/"] {
        let before = size();
        let statuses: Vec<u16> = (1..=20)
            .map(|number| status(&mesh, &get(&format!("{form}{number}"))))
            .collect();
        assert_eq!(statuses[..5], [200; 5], "{form}");
        assert_eq!(statuses[5..], [429; 15], "{form}");
        assert_eq!(size(), before + 1, "{form}");
    }
    assert_eq!(raw(&mesh, "/search?", &[]), 429);
    assert_eq!(mesh.echo.hits(), 10);
}

#[test]
fn b25_absent_empty_and_blank_are_the_same_and_get_what_the_policy_says() {
    let with = |name: &str, missing: Option<&str>, key: Value| {
        let mut limit = limit(name, &format!("/{name}"), key, "3/1h");
        if let Some(missing) = missing {
            limit["missing"] = json!(missing);
        }
        limit
    };
    let key = || json!("header:x-user");
    let mesh = plan(json!([
        with("deny", Some("deny"), key()),
        with("skip", Some("skip"), key()),
        with("shared", Some("shared"), key()),
        with("default", None, key()),
        with("pair", Some("shared"), json!(["header:x-a", "header:x-b"])),
    ]))
    .change(behind_a_proxy)
    .start();
    let forms: [&[&[u8]]; 3] = [&[], &[b"x-user:"], &[b"x-user:    "]];
    // Every form once from each of two clients, that is six requests.
    let send = |path: &str| -> Vec<u16> {
        let clients: [&[u8]; 2] = [b"x-forwarded-for: 192.0.2.1", b"x-forwarded-for: 192.0.2.2"];
        let both = clients.iter().flat_map(|client| {
            let lines = forms.map(|form| [&[*client], form].concat());
            lines.map(|lines| raw(&mesh, path, &lines))
        });
        both.collect()
    };
    let keys = || mesh.redis.keys().len();
    assert_eq!(send("/deny"), [403; 6]);
    assert_eq!(mesh.echo.hits(), 0);
    assert_eq!(send("/skip"), [200; 6]);
    assert_eq!(mesh.echo.take_seen().len(), 6);
    assert_eq!(keys(), 0, "neither asks Redis");
    assert_eq!(send("/shared"), [200, 200, 200, 429, 429, 429]);
    assert_eq!((mesh.echo.take_seen().len(), keys()), (3, 1));
    assert_eq!(send("/default"), [200; 6], "three of each address");
    assert_eq!(send("/default"), [429; 6]);
    assert_eq!((mesh.echo.take_seen().len(), keys()), (6, 3));
    // One part that is absent is not the other part that is absent.
    for expected in [200, 200, 200, 429] {
        for line in [b"x-a: v".as_slice(), b"x-b: v"] {
            assert_eq!(raw(&mesh, "/pair", &[line]), expected);
        }
    }
    assert_eq!(keys(), 5);
}

#[test]
fn b48_only_a_whole_preflight_is_free_and_only_where_the_policy_exempts_it() {
    let preflight = || {
        let ask = get("/").method("OPTIONS").header("origin", "https://a");
        ask.header("access-control-request-method", "GET")
    };
    let mut policy = policy("deny", "5s", json!([limit("ip", "/", json!("ip"), "4/1h")]));
    let counts_all = plan_of(policy.clone()).start();
    let statuses = [(); 6].map(|()| status(&counts_all, &preflight()));
    assert_eq!(statuses, [200, 200, 200, 200, 429, 429]);
    drop(counts_all);

    policy["exempt"] = json!(["cors-preflight"]);
    let mesh = plan_of(policy).start();
    for turn in 0..6 {
        let answer = preflight().to(mesh.address());
        assert_eq!(answer.status, 200, "preflight {turn}");
        let page = get("/").header("origin", "https://a");
        let expected = if turn < 4 { 200 } else { 429 };
        assert_eq!(status(&mesh, &page), expected, "page {turn}");
    }
    assert_eq!(mesh.echo.take_seen().len(), 6 + 4);
    let plain = || get("/").method("OPTIONS");
    for ask in [
        plain(),
        plain().header("origin", "https://a"),
        plain().header("access-control-request-method", "GET"),
        preflight().method("GET"),
        preflight()
            .method("GET")
            .header("x-http-method-override", "OPTIONS"),
    ] {
        assert_eq!(status(&mesh, &ask), 429, "{ask:?}");
    }
    assert_eq!(mesh.echo.hits(), 0);
}

fn in_domain(domain: &str) -> Value {
    let mut policy = policy(
        "deny",
        "5s",
        json!([limit("ip", "/", json!("ip"), "10/1h")]),
    );
    policy["domain"] = json!(domain);
    policy
}

#[test]
fn b51_twice_in_one_chain_each_domain_counts_on_its_own_and_ten_of_ten_pass() {
    let plan = plan_of(in_domain("sidecar")).change(|config| {
        let mut second = config.http_filter("aforo").clone();
        second["name"] = json!("aforo-gateway");
        let settings = &mut second["typed_config"]["config"]["configuration"]["value"];
        *settings = json!(in_domain("gateway").to_string());
        config.http_filters().insert(0, second);
    });
    let mesh = plan.start();
    let statuses = [(); 12].map(|()| status(&mesh, &get("/")));
    assert_eq!(statuses[..10], [200; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    assert_eq!(mesh.echo.hits(), 10);
    assert_eq!(mesh.redis.keys().len(), 2, "one key for each domain");
}

#[test]
fn b51_at_two_envoys_one_behind_the_other_ten_of_ten_pass() {
    let mesh = plan_of(in_domain("sidecar")).start();
    let mut config = mesh.config.clone();
    config.policy(&in_domain("gateway"));
    config.upstream_port(mesh.address().port());
    let gateway = Envoy::start(&config, 1);
    let statuses = [(); 12].map(|()| get("/").to(gateway.address()).status);
    assert_eq!(statuses[..10], [200; 10]);
    assert_eq!(statuses[10..], [429; 2]);
    assert_eq!(mesh.echo.hits(), 10);
    assert_eq!(mesh.redis.keys().len(), 2, "one key for each domain");
}

/// Tokens of the issuer "test" for the subjects "alice" and "bob", and the key that signed them.
const ALICE: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ0ZXN0Iiwic3ViIjoiYWxpY2UifQ.f23-jhIueAWpPRxWgbtzsr8VOGP5eyEgF8xLNorfIjY";
const BOB: &str = "eyJhbGciOiJIUzI1NiIsInR5cCI6IkpXVCJ9.eyJpc3MiOiJ0ZXN0Iiwic3ViIjoiYm9iIn0.BVS-Ez9vfTw_-J_y7ykegR8GBkV524ol3KMZ567XdXQ";
const SIGNED_BY: &str = "YSBrZXkgb2YgdGhpcyB0ZXN0IGFuZCBub3RoaW5nIGVsc2U";

#[test]
fn b63_only_a_verified_claim_is_an_identity_and_bogus_tokens_share_their_address() {
    let limits = json!([limit("sub", "/", json!("claim:sub"), "2/1h")]);
    let plan = plan(limits).change(|config| {
        let keys = json!({ "keys": [{ "kty": "oct", "alg": "HS256", "k": SIGNED_BY }] });
        let verified = json!({ "requirements": [
            { "provider_name": "test" }, { "allow_missing_or_failed": {} },
        ] });
        let filter = json!({
            "name": "envoy.filters.http.jwt_authn",
            "typed_config": {
                "@type": "type.googleapis.com/envoy.extensions.filters.http.jwt_authn.v3.JwtAuthentication",
                "providers": { "test": {
                    "issuer": "test", "payload_in_metadata": "payload",
                    "local_jwks": { "inline_string": keys.to_string() },
                } },
                "rules": [{ "match": { "prefix": "/" }, "requires": { "requires_any": verified } }],
            },
        });
        config.http_filters().insert(0, filter);
    });
    let mesh = plan.start();
    let send = |token: &str| {
        let ask = get("/").header("authorization", format!("Bearer {token}"));
        status(&mesh, &ask)
    };
    // Alice's claims under a signature that is not hers do not use her bucket up.
    let (claims, _) = ALICE.rsplit_once('.').expect("a signature");
    let forged: Vec<u16> = (0..6)
        .map(|n| send(&format!("{claims}.{n}orged")))
        .collect();
    assert_eq!(forged, [200, 200, 429, 429, 429, 429]);
    assert_eq!(status(&mesh, &get("/")), 429, "the same address, no token");
    for token in [ALICE, BOB] {
        assert_eq!([(); 3].map(|()| send(token)), [200, 200, 429]);
    }
    assert_eq!(mesh.echo.hits(), 6);
    assert_eq!(mesh.redis.keys().len(), 3);
}

#[test]
fn b64_a_secret_is_in_no_key_of_redis_no_line_of_the_log_and_no_metric() {
    let key =
        json!(["header:authorization", { "header": "x-device", "secret": true }, "cookie:sid"]);
    let mesh = plan(json!([limit("secret", "/", key, "1/1h")])).start();
    let ask = get("/")
        .header("authorization", "Bearer open-sesame-1")
        .header("x-device", "open-sesame-2")
        .header("cookie", "sid=open-sesame-3");
    assert_eq!(status(&mesh, &ask), 200);
    let refused = ask.to(mesh.address());
    assert_eq!(refused.status, 429);
    assert!(!format!("{refused:?}").contains("sesame"), "{refused:?}");
    let scan = ["SCAN", "0", "COUNT", "1000"];
    let (cursor, keys): (String, Vec<String>) = mesh.redis.call(&scan);
    assert_eq!((cursor.as_str(), keys.len()), ("0", 1));
    let value: Vec<u8> = mesh.redis.call(&["DUMP", &keys[0]]);
    for text in [
        keys[0].clone(),
        String::from_utf8_lossy(&value).into_owned(),
        mesh.envoy().log(),
        mesh.envoy().admin("/stats"),
    ] {
        assert!(!text.contains("sesame"), "{text}");
    }
}

#[test]
fn b75_probes_are_free_and_nothing_that_only_looks_like_one() {
    let mut policy = policy("deny", "5s", json!([limit("ip", "/", json!("ip"), "1/1h")]));
    policy["exempt"] = json!(["health-checks"]);
    let mesh = plan_of(policy).start();
    assert_eq!(status(&mesh, &get("/")), 200);
    assert_eq!(status(&mesh, &get("/")), 429);
    for path in ["/healthz", "/readyz", "/healthz/ready"] {
        assert_eq!([(); 5].map(|()| raw(&mesh, path, &[])), [200; 5], "{path}");
    }
    let free = mesh.echo.take_seen().len();
    assert_eq!(free, 16, "the first request and fifteen probes");
    let alike = "/healthz/../api /healthzz /healthz?x /healthz/ //healthz /%68ealthz /healthz;x \
        /healthz/x /api/..%2fhealthz";
    for path in alike.split(' ') {
        assert_eq!(raw(&mesh, path, &[]), 429, "{path}");
    }
    assert_eq!(status(&mesh, &get("/healthz").method("POST")), 429);
    assert_eq!(mesh.echo.hits(), 0);
}

#[test]
fn a_rule_that_denies_counts_what_it_refuses_and_in_shadow_mode_what_it_would() {
    let named = |name: &str, path: &str, mode: &str| {
        let mut limit = limit(name, path, json!(["header:x-api-key"]), "9/1h");
        limit["missing"] = json!("deny");
        limit["mode"] = json!(mode);
        limit
    };
    let limits = json!([
        named("trying", "/trying", "shadow"),
        named("in-force", "/in-force", "enforce")
    ]);
    let mesh = plan(limits).start();
    let counted = |limit: &str, verdict: &str, count: u64| {
        let name = format!("wasmcustom.aforo_decisions_total.limit.{limit}.verdict.{verdict}");
        until(&name, || mesh.envoy().stat(&name) == count);
    };
    for _ in 0..3 {
        assert_eq!(status(&mesh, &get("/trying")), 200);
        assert_eq!(status(&mesh, &get("/in-force")), 403);
    }
    counted("trying", "would_refuse", 3);
    counted("in-force", "refused", 3);
    let known = |path: &str| get(path).header("x-api-key", "a");
    assert_eq!(status(&mesh, &known("/trying")), 200);
    assert_eq!(status(&mesh, &known("/in-force")), 200);
    counted("trying", "admitted", 1);
    counted("in-force", "admitted", 1);
    counted("trying", "would_refuse", 3);
    mesh.redis.call::<()>(&["SET", "aforo:control", "shadow"]);
    until("the switch to be heeded", || {
        status(&mesh, &get("/in-force")) == 200
    });
    counted("in-force", "would_refuse", 1);
}
