//! What loads and what is refused.

use aforo::{
    policy::{Link, Outage, Policy, Topology},
    units::Micros,
};

fn refusal(json: &str) -> String {
    Policy::from_json(json.as_bytes())
        .expect_err("it is refused")
        .to_string()
}

#[test]
fn a_small_policy_has_the_documented_defaults() {
    let json = r#"{"limits":[{"name":"a","key":[],"algorithm":"gcra","rate":"5/10s"}]}"#;
    let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
    assert_eq!(policy.redis.link, Link::Envoy);
    assert_eq!(policy.redis.cluster, "aforo-link");
    assert_eq!(policy.redis.topology, Topology::Single);
    assert_eq!(policy.redis.timeout, Micros::from_millis(20));
    assert_eq!(policy.outage, Outage::Allow);
}

#[test]
fn b38_a_policy_that_limits_nothing_is_refused() {
    for json in [
        "",
        "  ",
        "null",
        "{}",
        "[]",
        "\"\"",
        r#"{"limits":[]}"#,
        "{\"limits\":[],}",
    ] {
        refusal(json);
    }
    assert_eq!(
        refusal("null"),
        "policy: found null; accepted: a policy with at least one limit"
    );
    assert_eq!(
        refusal("{}"),
        "limits: found nothing; accepted: this field is required"
    );
}

#[test]
fn b38_a_policy_that_is_too_large_or_too_deep_is_refused() {
    let large = format!(r#"{{"limits":["{}"]}}"#, "a".repeat(5 * 1024 * 1024));
    let told = refusal(&large);
    assert!(
        told.starts_with("policy: found ") && told.ends_with("at most 4194304 bytes"),
        "{told}"
    );
    refusal(&format!(
        r#"{{"limits":{}{}}}"#,
        "[".repeat(1_000),
        "]".repeat(1_000)
    ));
    let many = format!(r#"{{"limits":[{}1]}}"#, "1,".repeat(10_000));
    assert!(refusal(&many).contains("found 10001 elements"));
}

#[test]
fn only_so_many_errors_are_told() {
    let told = refusal(&format!(r#"{{"limits":[{}1]}}"#, "1,".repeat(499)));
    assert_eq!(told.lines().count(), 101);
    assert!(told.ends_with("… and 400 more"), "{told}");
}

#[test]
fn no_secret_is_shown_by_a_policy_that_was_taken() {
    let json = r#"{"hash_key":"hunter2hunter2hunter2","redis":{"password":"hunter2"},
        "limits":[{"name":"a","key":[],"algorithm":"gcra","rate":"5/10s"}]}"#;
    let (policy, _) = Policy::from_json(json.as_bytes()).unwrap();
    let shown = format!("{policy:?}");
    assert!(!shown.contains("hunter2"), "{shown}");
    assert_eq!(
        policy.redis.password.map(|secret| secret.to_string()),
        Some("***".to_owned())
    );
}
