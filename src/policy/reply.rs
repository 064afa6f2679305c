//! The `reply` section: what the answer shows.

use super::{
    field::{Field, Table},
    findings::{Findings, Path},
};
use crate::{
    reply::{
        BadSetting, Body, DebugSecret, Draft, Family, GrpcStatus, Parts, ResetForm, Settings,
        Statuses, Template, Theirs,
    },
    units::Micros,
};

/// The fields of the section.
pub const FIELDS: &[&str] = &[
    "headers",
    "draft",
    "partition_key",
    "reset",
    "upstream",
    "body",
    "retry_after",
    "grpc",
    "status",
    "show_shadow",
    "stop_envoy_retries",
    "debug_secret",
];
/// The fields of `reply.retry_after`.
pub const RETRY_AFTER_FIELDS: &[&str] = &["jitter", "max", "outage"];
/// The fields of `reply.status`.
pub const STATUS_FIELDS: &[&str] = &["limited", "outage", "denied"];
/// The fields of `reply.body`, where it is a table.
pub const BODY_FIELDS: &[&str] = &["template", "content_type"];

/// The names of the header families.
pub const FAMILIES: [(&str, Family); 4] = [
    (Family::RetryAfter.word(), Family::RetryAfter),
    (Family::XRateLimit.word(), Family::XRateLimit),
    (Family::RateLimit06.word(), Family::RateLimit06),
    (Family::RateLimitFields.word(), Family::RateLimitFields),
];
/// The names of the forms of `X-RateLimit-Reset`.
pub const RESETS: [(&str, ResetForm); 2] =
    [("delta", ResetForm::Delta), ("epoch", ResetForm::Epoch)];
/// The names of the rules for an upstream's own fields.
pub const UPSTREAM: [(&str, Theirs); 3] = [
    ("replace", Theirs::Replace),
    ("keep", Theirs::Keep),
    ("stricter", Theirs::Stricter),
];
/// The names of the bodies.
pub const BODIES: [(&str, Body); 3] = [
    ("problem+json", Body::Problem),
    ("json", Body::Json),
    ("text", Body::Text),
];
/// The names of the gRPC statuses.
pub const GRPC: [(&str, GrpcStatus); 2] = [
    ("resource-exhausted", GrpcStatus::ResourceExhausted),
    ("unavailable", GrpcStatus::Unavailable),
];

const SECOND: Micros = Micros::from_secs(1);
const HOUR: Micros = Micros::from_secs(3_600);
const YEAR: Micros = Micros::from_secs(31_536_000);
const DEFAULT_CONTENT_TYPE: &str = "text/plain; charset=utf-8";

/// Reads the section; left out, everything has its default.
pub fn read(field: Option<Field<'_>>, findings: &mut Findings) -> Settings {
    let Some(table) = field.and_then(|field| field.table(FIELDS, findings)) else {
        return Settings::default();
    };
    let mut parts = Parts::default();
    read_headers(&table, &mut parts, findings);
    read_body(&table, &mut parts, findings);
    read_waits(&table, &mut parts, findings);
    read_statuses(&table, &mut parts, findings);
    let mut flag = |name, value: &mut bool| {
        if let Some(field) = table.get(name) {
            *value = field.boolean(findings).unwrap_or(*value);
        }
    };
    flag("partition_key", &mut parts.partition_key);
    flag("show_shadow", &mut parts.show_shadow);
    flag("stop_envoy_retries", &mut parts.stop_envoy_retries);
    if let Some(field) = table.get("debug_secret") {
        let secret = field.secret(DebugSecret::MIN..=DebugSecret::MAX, findings);
        parts.debug = secret.and_then(DebugSecret::new);
    }
    Settings::new(parts).unwrap_or_else(|bad| {
        report(&table.path, bad, findings);
        Settings::default()
    })
}

fn read_headers(table: &Table<'_>, parts: &mut Parts, findings: &mut Findings) {
    let headers = table
        .get("headers")
        .and_then(|field| field.list(0..=FAMILIES.len(), findings));
    if let Some(headers) = headers {
        let mut families: Vec<Family> = Vec::new();
        for field in headers {
            let Some(family) = field.choice(&FAMILIES, findings) else {
                continue;
            };
            if families.contains(&family) {
                findings.error(&field.path, "the family a second time", "each family once");
            }
            families.push(family);
        }
        parts.headers = families.into_iter().collect();
    }
    if let Some(field) = table.get("draft") {
        // Any number that is no draft's is refused below, with the list of those that are.
        let number = field
            .integer(0..=255, findings)
            .and_then(|n| u8::try_from(n).ok());
        parts.draft = number.unwrap_or(Draft::DEFAULT);
    }
    if let Some(field) = table.get("reset") {
        parts.reset = field.choice(&RESETS, findings).unwrap_or_default();
    }
    if let Some(field) = table.get("upstream") {
        parts.theirs = field.choice(&UPSTREAM, findings).unwrap_or_default();
    }
}

fn read_body(table: &Table<'_>, parts: &mut Parts, findings: &mut Findings) {
    let Some(field) = table.get("body") else {
        return;
    };
    if !field.is_table() {
        parts.body = field.choice(&BODIES, findings).unwrap_or_default();
        return;
    }
    let Some(body) = field.table(BODY_FIELDS, findings) else {
        return;
    };
    let template = body
        .require("template", findings)
        .and_then(|field| field.text(findings));
    let content_type = match body.get("content_type") {
        Some(field) => field.text(findings),
        None => Some(DEFAULT_CONTENT_TYPE),
    };
    if let (Some(text), Some(content_type)) = (template, content_type) {
        let (text, content_type) = (text.to_owned(), content_type.to_owned());
        parts.body = Body::Template(Template { text, content_type });
    }
}

fn read_waits(table: &Table<'_>, parts: &mut Parts, findings: &mut Findings) {
    let waits = table
        .get("retry_after")
        .and_then(|f| f.table(RETRY_AFTER_FIELDS, findings));
    let Some(waits) = waits else { return };
    if let Some(field) = waits.get("jitter") {
        parts.jitter_percent = percent(&field, findings).unwrap_or_default();
    }
    if let Some(field) = waits.get("max") {
        parts.max_retry_after = field.span(SECOND..=YEAR, findings);
    }
    if let Some(field) = waits.get("outage") {
        let span = field.span(SECOND..=HOUR, findings);
        parts.outage_retry_after = span.unwrap_or(parts.outage_retry_after);
    }
}

fn read_statuses(table: &Table<'_>, parts: &mut Parts, findings: &mut Findings) {
    if let Some(field) = table.get("grpc") {
        parts.grpc = field.choice(&GRPC, findings).unwrap_or_default();
    }
    let statuses = table
        .get("status")
        .and_then(|field| field.table(STATUS_FIELDS, findings));
    let Some(statuses) = statuses else { return };
    let Statuses {
        limited,
        outage,
        denied,
    } = &mut parts.statuses;
    for (name, status) in [("limited", limited), ("outage", outage), ("denied", denied)] {
        if let Some(field) = statuses.get(name) {
            let number = field
                .integer(400..=599, findings)
                .and_then(|n| u32::try_from(n).ok());
            *status = number.unwrap_or(*status);
        }
    }
}

/// `10%`.
fn percent(field: &Field<'_>, findings: &mut Findings) -> Option<u8> {
    const ACCEPTED: &str = "a whole share such as 10%, 0% to 100%";
    let digits = field.peek_text().and_then(|text| text.strip_suffix('%'));
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    let share = digits
        .and_then(|digits| digits.parse().ok())
        .filter(|share| *share <= 100);
    share.or_else(|| field.refuse(ACCEPTED, findings))
}

/// Puts a part's own complaint where the part was written.
fn report(path: &Path, bad: BadSetting, findings: &mut Findings) {
    let place = bad
        .field
        .split('.')
        .fold(path.clone(), |path, name| path.field(name));
    findings.error(&place, bad.found, bad.accepted);
}
