//! The policy's `reply` section: what it accepts and what it says of everything else.

use aforo::{
    policy::{Policy, reply::FIELDS},
    reply::{Body, Family, GrpcStatus, Parts, ResetForm, Settings, Statuses, Template, Theirs},
    units::Micros,
};
use support::yaml;

use crate::stats::file;

fn read(reply: &str) -> Result<Settings, String> {
    let json = format!(
        r#"{{"limits":[{{"name":"a","key":[],"algorithm":"sliding-log","rate":"5/1m"}}],
            "reply":{reply}}}"#
    );
    Policy::from_json(json.as_bytes())
        .map(|(policy, _)| policy.reply)
        .map_err(|errors| errors.to_string())
}

#[test]
fn left_out_everything_has_its_default() {
    assert_eq!(read("{}"), Ok(Settings::default()));
}

#[test]
fn the_documented_example_is_the_default() {
    let text = file("docs/answers.md");
    let (_, after) = text.split_once("```yaml\n").expect("an example");
    let (example, _) = after.split_once("```").expect("its end");
    let reply = &yaml(example)["reply"];
    assert_eq!(read(&reply.to_string()), Ok(Settings::default()));
    for field in FIELDS {
        assert!(
            example.contains(&format!("{field}:")),
            "{field} is not in the example"
        );
    }
}

#[test]
fn every_field_is_read() {
    let settings = read(
        r#"{
            "headers": ["retry-after", "ratelimit-06"],
            "draft": 11,
            "partition_key": true,
            "reset": "epoch",
            "upstream": "stricter",
            "body": {"template": "{\"in\":{retry_after}}", "content_type": "application/json"},
            "retry_after": {"jitter": "10%", "max": "1h", "outage": "5s"},
            "grpc": "unavailable",
            "status": {"limited": 420, "outage": 500, "denied": 401},
            "show_shadow": true,
            "stop_envoy_retries": false
        }"#,
    );
    let parts = Parts {
        headers: [Family::RetryAfter, Family::RateLimit06]
            .into_iter()
            .collect(),
        draft: 11,
        partition_key: true,
        reset: ResetForm::Epoch,
        theirs: Theirs::Stricter,
        body: Body::Template(Template {
            text: r#"{"in":{retry_after}}"#.into(),
            content_type: "application/json".into(),
        }),
        jitter_percent: 10,
        max_retry_after: Some(Micros::from_secs(3_600)),
        outage_retry_after: Micros::from_secs(5),
        grpc: GrpcStatus::Unavailable,
        statuses: Statuses {
            limited: 420,
            outage: 500,
            denied: 401,
        },
        show_shadow: true,
        stop_envoy_retries: false,
        debug: None,
    };
    assert_eq!(settings, Ok(Settings::new(parts).unwrap()));
}

#[test]
fn b38_whatever_is_wrong_is_refused_with_its_place() {
    for (reply, message) in [
        (r#"{"header":[]}"#, "reply.header: found the unknown field"),
        (
            r#"{"headers":["retry_after"]}"#,
            "reply.headers[0]: found the unknown value",
        ),
        (
            r#"{"headers":["retry-after","retry-after"]}"#,
            "reply.headers[1]: found the family a second",
        ),
        (
            r#"{"headers":"retry-after"}"#,
            "reply.headers: found \"retry-after\"; accepted: a list",
        ),
        (
            r#"{"draft":3}"#,
            "reply.draft: found 3; accepted: one of 10, 11",
        ),
        (
            r#"{"draft":-1}"#,
            "reply.draft: found -1; accepted: a whole number",
        ),
        (
            r#"{"body":"xml"}"#,
            "reply.body: found the unknown value \"xml\"",
        ),
        (r#"{"body":{}}"#, "reply.body.template: found nothing"),
        (
            r#"{"body":{"template":"{seconds}"}}"#,
            "reply.body.template: found {seconds}; accepted: {name}",
        ),
        (
            r#"{"body":{"template":"x","content_type":"a/b\r\nx: y"}}"#,
            r#"reply.body.content_type: found "a/b\r\nx: y""#,
        ),
        (
            r#"{"retry_after":{"jitter":"101%"}}"#,
            "reply.retry_after.jitter: found \"101%\"",
        ),
        (
            r#"{"retry_after":{"jitter":"1.5%"}}"#,
            "reply.retry_after.jitter: found \"1.5%\"",
        ),
        (
            r#"{"retry_after":{"jitter":"+5%"}}"#,
            "reply.retry_after.jitter: found \"+5%\"",
        ),
        (
            r#"{"retry_after":{"jitter":10}}"#,
            "reply.retry_after.jitter: found 10; accepted: a whole share",
        ),
        (
            r#"{"retry_after":{"max":"1500ms"}}"#,
            "reply.retry_after.max: found 1500ms; accepted: whole",
        ),
        (
            r#"{"retry_after":{"max":"0s"}}"#,
            "reply.retry_after.max: found \"0s\"",
        ),
        (
            r#"{"status":{"limited":200}}"#,
            "reply.status.limited: found 200; accepted: a whole number",
        ),
        (
            r#"{"grpc":8}"#,
            "reply.grpc: found 8; accepted: resource-exhausted, unavailable",
        ),
        (
            r#"{"debug_secret":"short"}"#,
            "reply.debug_secret: found 5 bytes; accepted: text of 16",
        ),
    ] {
        let error = read(reply).expect_err(reply);
        assert!(error.starts_with(message), "{reply}: {error}");
    }
}

#[test]
fn b64_a_debug_secret_is_shown_nowhere() {
    let settings = read(r#"{"debug_secret":"correct horse battery"}"#).unwrap();
    assert!(
        settings
            .parts()
            .debug
            .as_ref()
            .unwrap()
            .opens(b"correct horse battery")
    );
    assert!(!format!("{settings:?}").contains("horse"));
    let error = read(r#"{"debug_secrets":"correct horse battery"}"#).unwrap_err();
    assert!(!error.contains("horse"), "{error}");
}
