//! What is selected.

use aforo::{
    policy::Policy,
    rules::{Selection, Why, explain, select},
};

use super::facts::{Given, get};

fn policy(limits: &str) -> Policy {
    let json = format!(r#"{{"limits":[{limits}]}}"#);
    match Policy::from_json(json.as_bytes()) {
        Ok((policy, _)) => policy,
        Err(errors) => panic!("{errors}"),
    }
}

fn limit(key: &str, more: &str) -> String {
    format!(r#"{{"name":"l","key":{key},"algorithm":"gcra","rate":"5/10s"{more}}}"#)
}

/// The tags of the claims; `deny` and `nothing` for the other outcomes.
fn tags(policy: &Policy, request: &Given) -> Vec<String> {
    match select(policy, request) {
        Selection::Claims(claims) => claims.iter().map(|claim| claim.tag().to_owned()).collect(),
        Selection::Nothing => vec!["nothing".to_owned()],
        Selection::Deny {
            why: Why::KeyMissing | Why::TermsDeny,
            ..
        } => vec!["deny".to_owned()],
    }
}

#[test]
fn b07_b09_one_client_has_one_tag() {
    let policy = policy(&limit(r#"["ip"]"#, ""));
    for (address, tag) in [
        ("203.0.113.7:1000", "ip=203.0.113.7"),
        ("203.0.113.7:1001", "ip=203.0.113.7"),
        ("[::ffff:203.0.113.7]:1", "ip=203.0.113.7"),
        ("[2001:db8:0:1::1]:443", "ip=2001-db8-0-1--_64"),
        ("[2001:DB8:0:1:ffff::2]:443", "ip=2001-db8-0-1--_64"),
    ] {
        assert_eq!(tags(&policy, &get("/").from(address)), [tag], "{address}");
    }
}

#[test]
fn b23_b24_no_two_clients_share_a_tag_and_none_breaks_it() {
    let policy = policy(&limit(
        r#"["header:x-tenant","header:x-user"]"#,
        r#","missing":"shared""#,
    ));
    let values: [&[u8]; 22] = [
        b"",
        b"}",
        b"{",
        b"{}",
        b"}x",
        b"{a}",
        b"a}b",
        b"{{",
        b"a",
        b"b:c",
        b"a:b",
        b"c",
        b"a,b",
        b"a=b",
        b"a#b",
        b"a!",
        b"a/b",
        b"%2F",
        b"\xFF",
        b"\xFE",
        b"\xEF\xBF\xBD",
        b"203.0.113.7",
    ];
    let mut seen = std::collections::HashSet::new();
    for tenant in values {
        for user in values {
            let request = get("/").header("x-tenant", tenant).header("x-user", user);
            let tag = tags(&policy, &request).remove(0);
            assert!(!tag.is_empty());
            assert!(
                tag.bytes()
                    .all(|b| b.is_ascii_graphic() && !b"{}:".contains(&b)),
                "{tag}"
            );
            assert!(seen.insert(tag), "{tenant:?} {user:?}");
        }
    }
}

#[test]
fn b24_a_user_called_like_an_address_is_not_that_address() {
    let policy = policy(&limit(r#"["header:x-user"]"#, ""));
    let user = tags(&policy, &get("/").header("x-user", "203.0.113.7"));
    assert_eq!(user, ["header/x-user=203.0.113.7"]);
    assert_eq!(tags(&policy, &get("/")), ["ip=203.0.113.7"]);
}

#[test]
fn b24_two_limits_of_one_key_count_apart() {
    let two = ["1000/60s", "10/60s"]
        .map(|rate| rule(&format!("r{}", rate.len()), "").replace("5/10s", rate))
        .join(",");
    match select(&policy(&two), &get("/")) {
        Selection::Claims(claims) => assert_ne!(claims[0].key, claims[1].key),
        other => panic!("{other:?}"),
    }
}

#[test]
fn b22_another_number_keeps_the_key_and_another_algorithm_or_window_does_not() {
    let key = |terms: &str| {
        let limit = format!(r#"{{"name":"l","key":["ip"],{terms}}}"#);
        match select(&policy(&limit), &get("/")) {
            Selection::Claims(mut claims) => claims.remove(0).key,
            other => panic!("{other:?}"),
        }
    };
    let first = key(r#""algorithm":"fixed-window","rate":"5/60s""#);
    assert_eq!(first, key(r#""algorithm":"fixed-window","rate":"50/1m""#));
    assert_ne!(first, key(r#""algorithm":"fixed-window","rate":"5/1s""#));
    assert_ne!(first, key(r#""algorithm":"sliding-log","rate":"5/60s""#));
    assert_ne!(first, key(r#""algorithm":"gcra","rate":"5/60s""#));
}

#[test]
fn b25_an_absent_key_gets_what_the_policy_says() {
    for (missing, tag) in [
        ("", "ip=203.0.113.7"),
        (r#","missing":["ip"]"#, "ip=203.0.113.7"),
        (r#","missing":"shared""#, "header/x-user!"),
        (r#","missing":"deny""#, "deny"),
        (r#","missing":"skip""#, "nothing"),
        (
            r#","missing":["header:x-device","ip"]"#,
            "header/x-device!,ip=203.0.113.7",
        ),
    ] {
        let policy = policy(&limit(r#"["header:x-user"]"#, missing));
        assert_eq!(tags(&policy, &get("/")), [tag], "absent, {missing}");
        assert_eq!(
            tags(&policy, &get("/").header("x-user", "")),
            [tag],
            "empty, {missing}"
        );
        assert_eq!(
            tags(&policy, &get("/").header("x-user", " \t ")),
            [tag],
            "blank, {missing}"
        );
    }
}

#[test]
fn b64_secret_and_long_values_are_hashed() {
    let policy = policy(&limit(r#"["header:authorization"]"#, ""));
    let mut long = vec![b'a'; 60_000];
    let mut seen = std::collections::HashSet::new();
    for last in 0..5 {
        long[59_999] = last;
        let tag = tags(&policy, &get("/").header("authorization", &long)).remove(0);
        assert_eq!(tag.len(), "header/authorization#".len() + 24);
        assert!(seen.insert(tag));
    }
    let tag = tags(&policy, &get("/").header("authorization", "Bearer s3cret")).remove(0);
    assert!(
        tag.starts_with("header/authorization#") && !tag.contains("s3cret"),
        "{tag}"
    );
}

#[test]
fn an_empty_key_is_one_bucket_for_all_and_asks_nothing() {
    let policy = policy(&limit("[]", ""));
    let request = get("/");
    assert_eq!(tags(&policy, &request), ["all"]);
    assert_eq!(*request.asked.borrow(), Vec::<String>::new());
}

#[test]
fn a_growing_share_only_adds_clients() {
    let enforced = |percent: &str, user: usize| {
        let limits = limit(
            r#"["header:x-user"]"#,
            &format!(r#","enforce_percent":{percent}"#),
        );
        match select(
            &policy(&limits),
            &get("/").header("x-user", user.to_string()),
        ) {
            Selection::Claims(claims) => claims[0].enforced,
            other => panic!("{other:?}"),
        }
    };
    let shares = ["0", "0.5", "10", "50", "100"];
    let mut counts = [0; 5];
    for user in 0..1_000 {
        let sets = shares.map(|share| enforced(share, user));
        assert!(sets.is_sorted(), "{user}: {sets:?}");
        for (count, inside) in counts.iter_mut().zip(sets) {
            *count += usize::from(inside);
        }
    }
    let [none, _, tenth, half, all] = counts;
    assert_eq!((none, all), (0, 1_000));
    assert!(
        (70..130).contains(&tenth) && (450..550).contains(&half),
        "{counts:?}"
    );
}

/// A limit named by its conditions, one bucket for all.
fn rule(name: &str, more: &str) -> String {
    format!(r#"{{"name":"{name}","key":[],"algorithm":"gcra","rate":"5/10s"{more}}}"#)
}

/// The names of the limits that are asked.
fn asked(policy: &Policy, request: &Given) -> Vec<String> {
    match select(policy, request) {
        Selection::Claims(claims) => claims
            .iter()
            .map(|claim| policy.limits[claim.limit].name.clone())
            .collect(),
        other => vec![format!("{other:?}")],
    }
}

fn applies(when: &str, request: &Given) -> bool {
    let policy = policy(&rule("l", &format!(r#","when":{when}"#)));
    let applies = select(&policy, request) != Selection::Nothing;
    assert_eq!(
        explain(&policy, request).selection() != Selection::Nothing,
        applies,
        "{when}"
    );
    applies
}

#[test]
fn conditions_hold_as_documented() {
    let request = || {
        get("/users/7/orders?api_key=k&debug")
            .header("x-tenant", "acme")
            .header("x-blank", " ")
            .header("cookie", "sid=1; theme=dark")
            .property("xds.route_name", "orders")
            .property("connection.mtls", [1])
            .property("destination.port", 8080_i64.to_le_bytes())
            .property(
                "metadata.filter_metadata.envoy.filters.http.jwt_authn.payload.sub",
                "u1",
            )
    };
    for (when, expected) in [
        (r#"{"path":"/users/"}"#, true),
        (r#"{"path":"/users"}"#, false),
        (r#"{"path":["/x","/users/{id}/orders"]}"#, true),
        (r#"{"path":{"regex":"/users/[0-9]+/.*"}}"#, true),
        (r#"{"path":{"regex":"/users"}}"#, false),
        (r#"{"path":{"prefix":"/user"}}"#, false),
        (r#"{"methods":["GET","POST"]}"#, true),
        (r#"{"methods":"POST"}"#, false),
        (r#"{"hosts":"example.com"}"#, true),
        (r#"{"hosts":"*.example.com"}"#, false),
        (r#"{"hosts":"*.com"}"#, true),
        (r#"{"headers":{"X-Tenant":"acme"}}"#, true),
        (r#"{"headers":{"x-tenant":["a","acme"]}}"#, true),
        (r#"{"headers":{"x-tenant":"acm"}}"#, false),
        (r#"{"headers":{"x-tenant":{"prefix":"ac"}}}"#, true),
        (r#"{"headers":{"x-tenant":{"suffix":"me"}}}"#, true),
        (r#"{"headers":{"x-tenant":{"regex":"a.*"}}}"#, true),
        (r#"{"headers":{"x-tenant":{"regex":"a"}}}"#, false),
        (r#"{"headers":{"x-tenant":{"present":true}}}"#, true),
        (r#"{"headers":{"x-blank":{"present":true}}}"#, false),
        (r#"{"headers":{"x-none":{"present":false}}}"#, true),
        (r#"{"query":{"api_key":"k"}}"#, true),
        (r#"{"query":{"debug":{"present":true}}}"#, false),
        (r#"{"cookies":{"theme":"dark","sid":1}}"#, true),
        (r#"{"cookies":{"theme":"dark","sid":2}}"#, false),
        (r#"{"claims":{"sub":"u1"}}"#, true),
        (r#"{"properties":{"xds.route_name":"orders"}}"#, true),
        (r#"{"properties":{"connection.mtls":true}}"#, true),
        (r#"{"properties":{"connection.mtls":false}}"#, false),
        (r#"{"properties":{"destination.port":8080}}"#, true),
        (r#"{"ip":["10.0.0.0/8","203.0.113.0/24"]}"#, true),
        (r#"{"ip":"10.0.0.0/8"}"#, false),
        (r#"{"not":{"path":"/users/"}}"#, false),
        (r#"{"not":{"path":"/users/","methods":"POST"}}"#, true),
        (
            r#"{"path":"/users/","not":[{"ip":"10.0.0.0/8"},{"headers":{"x-tenant":"b"}}]}"#,
            true,
        ),
        (r#"[{"methods":"POST"},{"path":"/users/"}]"#, true),
        (r#"[{"methods":"POST"},{"path":"/x"}]"#, false),
    ] {
        assert_eq!(applies(when, &request()), expected, "{when}");
    }
}

#[test]
fn b11_no_respelling_escapes_a_rule_or_reaches_an_exemption() {
    for path in [
        "/api/login",
        "/api/login/",
        "/api//login",
        "/api/./login",
        "/api/x/../login",
        "/api/%6Cogin",
        "/api%2Flogin",
        "/api/login;v=1",
        "http://host/api/login",
    ] {
        assert!(applies(r#"{"path":"/api/login"}"#, &get(path)), "{path}");
        assert!(applies(r#"{"path":"/api/login/"}"#, &get(path)), "{path}");
    }
    assert!(!applies(r#"{"path":"/api/login"}"#, &get("/api/loginX")));
    assert!(applies(
        r#"{"methods":"POST"}"#,
        &get("/").header(":method", "post")
    ));
    // What lifts a limit holds only for what is written plainly.
    for (path, lifted) in [
        ("/public/x", true),
        ("/public/x?y", true),
        ("/public//x", false),
        ("/api/..%2fpublic/x", false),
        ("/public/../api", false),
        ("/api/../public/x", false),
    ] {
        assert_eq!(
            applies(r#"{"not":{"path":"/public/"}}"#, &get(path)),
            !lifted,
            "{path}"
        );
    }
    assert!(applies(
        r#"{"not":{"methods":"GET"}}"#,
        &get("/").header(":method", "get")
    ));
}

#[test]
fn letter_case_counts_unless_the_policy_says_otherwise() {
    let limits = rule(
        "l",
        r#","when":{"path":["/api/Login",{"regex":"/r[a-z]+"}]}"#,
    );
    for (case, path, expected) in [
        ("sensitive", "/API/login", false),
        ("sensitive", "/api/Login", true),
        ("insensitive", "/API/login", true),
        ("insensitive", "/RX", true),
    ] {
        let json = format!(r#"{{"path_case":"{case}","limits":[{limits}]}}"#);
        let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
        assert_eq!(
            select(&policy, &get(path)) != Selection::Nothing,
            expected,
            "{case} {path}"
        );
    }
}

#[test]
fn b12_a_path_key_is_the_pattern_that_matched_and_never_holds_a_query() {
    let path_key = |when: &str| {
        policy(&format!(
            r#"{{"name":"l","key":["path"],"algorithm":"gcra","rate":"5/10s"{when}}}"#
        ))
    };
    let any = path_key("");
    let mut seen = std::collections::HashSet::new();
    for path in [
        "/search?q=1",
        "/search?q=2",
        "/search?",
        "/search#x",
        "/search/",
    ] {
        seen.extend(tags(&any, &get(path)));
    }
    assert_eq!(seen.into_iter().collect::<Vec<_>>(), ["path=%2Fsearch"]);
    let verify = path_key(r#","when":{"path":"/verify/*"}"#);
    let users = path_key(r#","when":{"path":["/users/{id}/orders","/users/"]}"#);
    for id in 0..20 {
        assert_eq!(
            tags(&verify, &get(&format!("/verify/{id}"))),
            ["path=%2Fverify%2F%2A"]
        );
        let tag = "path=%2Fusers%2F%7Bid%7D%2Forders";
        assert_eq!(tags(&users, &get(&format!("/users/{id}/orders"))), [tag]);
    }
}

#[test]
fn b75_health_probes_are_exempt_and_nothing_that_looks_like_one() {
    let json = format!(
        r#"{{"exempt":["health-checks",{{"path":"/metrics","ip":"10.0.0.0/8"}}],"limits":[{}]}}"#,
        rule("l", "")
    );
    let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
    let exempt = |request: &Given| select(&policy, request) == Selection::Nothing;
    assert!(exempt(&get("/healthz")));
    assert!(exempt(
        &get("/grpc.health.v1.Health/Check").header(":method", "POST")
    ));
    for path in [
        "/healthz/../api",
        "/healthz?x",
        "/healthzz",
        "/%68ealthz",
        "/healthz/",
        "//healthz",
    ] {
        assert!(!exempt(&get(path)), "{path}");
    }
    assert!(!exempt(&get("/healthz").header(":method", "POST")));
    assert!(exempt(&get("/metrics").from("10.1.2.3:9")));
    assert!(!exempt(&get("/metrics")));
    assert!(!exempt(&get("/x/..%2fmetrics").from("10.1.2.3:9")));
}

#[test]
fn b48_only_a_whole_cors_preflight_is_exempt() {
    let json = format!(
        r#"{{"exempt":["cors-preflight"],"limits":[{}]}}"#,
        rule("l", "")
    );
    let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
    let preflight = || {
        get("/")
            .header("origin", "https://a")
            .header("access-control-request-method", "PUT")
    };
    let exempt = |request: &Given| select(&policy, request) == Selection::Nothing;
    assert!(exempt(&preflight().header(":method", "OPTIONS")));
    assert!(!exempt(&preflight()));
    assert!(!exempt(&get("/").header(":method", "OPTIONS")));
    assert!(!exempt(
        &preflight().header("x-http-method-override", "OPTIONS")
    ));
    assert!(!exempt(&preflight().header(":method", "options")));
}

#[test]
fn b78_all_limits_that_match_are_asked_and_of_a_group_the_first() {
    let policy = policy(
        &[
            rule("default", ""),
            rule("a", r#","when":{"path":"/a/"}"#),
            rule("ab", r#","when":{"path":"/ab/"}"#),
            rule("g-off", r#","group":"g","mode":"off""#),
            rule("g-shadow", r#","group":"g","mode":"shadow""#),
            rule("g-a", r#","group":"g","when":{"path":"/a/"}"#),
            rule("g-rest", r#","group":"g""#),
            rule("h-rest", r#","group":"h""#),
        ]
        .join(","),
    );
    for (path, names) in [
        ("/a/x", &["default", "a", "g-shadow", "g-a", "h-rest"][..]),
        ("/ab", &["default", "ab", "g-shadow", "g-rest", "h-rest"]),
        ("/", &["default", "g-shadow", "g-rest", "h-rest"]),
    ] {
        assert_eq!(asked(&policy, &get(path)), names, "{path}");
    }
}

#[test]
fn a_plan_or_an_override_replaces_the_rate() {
    let policy = policy(
        r#"{"name":"l","key":"header:x-user","algorithm":"gcra","rate":"5/10s",
            "plans":{"by":"header:x-plan","pro":"50/10s","vip":"unlimited","gone":"deny",
                     "big":{"rate":"70/10s","burst":7}},
            "overrides":[{"match":["acme","acme-*"],"rate":"500/10s"},
                         {"match":"acme-1","rate":"1/10s"},
                         {"match":"evil*","rate":"deny"},
                         {"by":"ip","match":"10.0.0.0/8","rate":"unlimited"}]}"#,
    );
    let count = |user: &str, plan: &str, ip: &str| match select(
        &policy,
        &get("/")
            .header("x-user", user)
            .header("x-plan", plan)
            .from(ip),
    ) {
        Selection::Claims(claims) => claims[0].algorithm.quota().to_string(),
        Selection::Nothing => "unlimited".to_owned(),
        Selection::Deny { why, .. } => format!("{why:?}"),
    };
    let outside = "203.0.113.7:1";
    for (user, plan, ip, expected) in [
        ("u", "", outside, "5"),
        ("u", "none", outside, "5"),
        ("u", "PRO", outside, "5"),
        ("u", "pro", outside, "50"),
        ("u", "vip", outside, "unlimited"),
        ("u", "gone", outside, "TermsDeny"),
        ("acme", "pro", outside, "500"),
        ("acme-1", "gone", outside, "500"),
        ("evil-2", "vip", outside, "TermsDeny"),
        ("u", "pro", "10.1.1.1:1", "unlimited"),
        ("evil", "pro", "10.1.1.1:1", "TermsDeny"),
    ] {
        assert_eq!(count(user, plan, ip), expected, "{user} {plan} {ip}");
    }
}

#[test]
fn nobody_is_let_through_for_want_of_a_key() {
    // A denied plan with a skipped key is denied; shadow refuses nobody.
    let deny = r#""rate":"deny","missing":"skip""#;
    for (mode, outcome) in [("enforce", "deny"), ("shadow", "nothing")] {
        let policy = policy(&format!(
            r#"{{"name":"l","key":["header:x-user"],"algorithm":"gcra",{deny},"mode":"{mode}"}}"#
        ));
        assert_eq!(tags(&policy, &get("/")), [outcome], "{mode}");
    }
}

#[test]
fn b51_two_domains_never_meet() {
    let key = |domain: &str| {
        let json = format!(r#"{{{domain}"limits":[{}]}}"#, limit(r#"["ip"]"#, ""));
        let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
        match select(&policy, &get("/")) {
            Selection::Claims(mut claims) => claims.remove(0).key,
            other => panic!("{other:?}"),
        }
    };
    let keys = [
        key(""),
        key(r#""domain":"gateway","#),
        key(r#""domain":"sidecar","#),
    ];
    assert!(
        keys[0].starts_with("aforo:{ip=203.0.113.7}:l"),
        "{}",
        keys[0]
    );
    assert!(
        keys[1].starts_with("aforo:gateway:{ip=203.0.113.7}:l"),
        "{}",
        keys[1]
    );
    assert!(
        keys[2].starts_with("aforo:sidecar:{ip=203.0.113.7}:l"),
        "{}",
        keys[2]
    );
}

#[test]
fn b63_an_unverified_token_is_no_identity() {
    let policy = policy(&limit(r#"["claim:sub"]"#, ""));
    let forged = get("/").header(
        "authorization",
        "Bearer eyJhbGciOiJub25lIn0.eyJzdWIiOiJ2aWN0aW0ifQ.",
    );
    assert_eq!(tags(&policy, &forged), ["ip=203.0.113.7"]);
    let claim = "metadata.filter_metadata.envoy.filters.http.jwt_authn.payload.sub";
    assert_eq!(
        tags(&policy, &get("/").property(claim, "u1")),
        ["claim/sub=u1"]
    );
}

#[test]
fn the_host_is_asked_each_fact_once_and_none_that_no_rule_needs() {
    let policy = policy(
        &[
            limit(
                r#"["header:x-user","ip"]"#,
                r#","when":{"headers":{"x-user":{"present":true}}}"#,
            ),
            rule("m", r#","when":{"path":"/x","headers":{"x-other":"1"}}"#),
            rule(
                "n",
                r#","when":{"methods":["GET"]},"exempt":{"ip":"10.0.0.0/8"}"#,
            ),
        ]
        .join(","),
    );
    let request = get("/").header("x-user", "u");
    assert_eq!(asked(&policy, &request), ["l", "n"]);
    let asked = request.asked.borrow().clone();
    assert_eq!(asked, [":path", "x-user", "source.address", ":method"]);
}

#[test]
fn a_value_too_long_for_a_regex_never_lifts_a_limit() {
    let long = vec![b'a'; 5_000];
    let request = get("/").header("x-v", &long);
    assert!(applies(r#"{"headers":{"x-v":{"regex":"b"}}}"#, &request));
    assert!(applies(
        r#"{"not":{"headers":{"x-v":{"regex":"a*"}}}}"#,
        &request
    ));
    assert!(!applies(
        r#"{"not":{"headers":{"x-v":{"regex":"a*"}}}}"#,
        &get("/").header("x-v", "aa")
    ));
}
