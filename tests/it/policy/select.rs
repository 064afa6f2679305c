//! What is selected.

use aforo::{
    policy::Policy,
    rules::{Selection, Why, select},
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
            why: Why::KeyMissing | Why::PlanDenies,
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
