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
