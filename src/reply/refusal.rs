//! The answers that end a request here.

use super::{
    Names, RequestKind,
    body::{self, Cause, Story},
    fields::{Fields, state_headers},
    grpc_web,
    readings::{deciding, refusing, retry_after},
    settings::{Family, Settings},
};
use crate::{units::Moment, verdict::Verdict};

/// What an answer needs to know beside the verdict.
#[derive(Clone, Copy, Debug)]
pub struct Circumstances {
    /// How the answer must look.
    pub kind: RequestKind,
    /// Any random bits; they spread `Retry-After` when the policy asks for jitter.
    pub random: u64,
    /// The wall clock, where the host knows one; it only turns resets into epochs.
    pub now: Option<Moment>,
}

/// A local reply.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Refusal {
    /// The HTTP status. Envoy turns it into 200 for a gRPC request.
    pub status: u32,
    /// Lower-case names, each at most once.
    pub headers: Fields,
    /// The body; for gRPC the message, for gRPC-Web the trailers.
    pub body: Vec<u8>,
    /// The gRPC status for Envoy's local reply; `None`: not a gRPC request, or already in the body.
    pub grpc_status: Option<i32>,
    /// The response code details, `%RESPONSE_CODE_DETAILS%`.
    pub details: &'static str,
}

/// A limit refused. `verdict` is one that does not allow the request.
#[must_use]
pub fn refusal(
    settings: &Settings,
    names: Names<'_>,
    verdict: &Verdict,
    circumstances: Circumstances,
) -> Refusal {
    let retry_after = retry_after(settings, verdict, circumstances.random);
    let mut headers = state_headers(settings, names, verdict, circumstances.now);
    if settings.parts().stop_envoy_retries {
        headers.push(("x-envoy-ratelimited", "true".to_owned()));
    }
    let deciding = deciding(verdict);
    let cause = Cause::Limited {
        name: deciding.map_or("", |judged| names(judged.claim.limit)),
        quota: deciding.map_or(0, |judged| judged.claim.algorithm.quota()),
        remaining: deciding.map_or(0, |judged| judged.reading.remaining),
        violated: refusing(verdict)
            .map(|judged| names(judged.claim.limit))
            .collect(),
    };
    let status = settings.parts().statuses.limited;
    let story = Story {
        status,
        cause,
        retry_after,
    };
    answer(
        settings,
        &story,
        circumstances.kind,
        headers,
        settings.parts().grpc.code(),
        "aforo_limited",
    )
}

/// Redis did not answer and the policy refuses then: 503 with `Retry-After`, and no numbers, since
/// nobody knows them.
#[must_use]
pub fn outage_refusal(settings: &Settings, circumstances: Circumstances) -> Refusal {
    let seconds = settings.parts().outage_retry_after.secs_up().max(1);
    let status = settings.parts().statuses.outage;
    let story = Story {
        status,
        cause: Cause::Outage,
        retry_after: Some(seconds),
    };
    answer(
        settings,
        &story,
        circumstances.kind,
        Fields::new(),
        UNAVAILABLE,
        "aforo_outage",
    )
}

/// A rule refuses whatever the numbers say: no key where one is needed, or a plan that may not pass.
/// 403 and no `Retry-After`: coming back with the same request does not help.
#[must_use]
pub fn denial(settings: &Settings, circumstances: Circumstances) -> Refusal {
    let status = settings.parts().statuses.denied;
    let story = Story {
        status,
        cause: Cause::Denied,
        retry_after: None,
    };
    answer(
        settings,
        &story,
        circumstances.kind,
        Fields::new(),
        PERMISSION_DENIED,
        "aforo_denied",
    )
}

fn answer(
    settings: &Settings,
    story: &Story<'_>,
    kind: RequestKind,
    mut headers: Fields,
    grpc: i32,
    details: &'static str,
) -> Refusal {
    if let Some(seconds) = story.retry_after {
        // An outage's wait is not state: it is told whichever families are chosen.
        if settings.parts().headers.has(Family::RetryAfter) || matches!(story.cause, Cause::Outage)
        {
            headers.push(("retry-after", seconds.to_string()));
        }
    }
    headers.push(("cache-control", "no-store".to_owned()));
    let reply = Refusal {
        status: story.status,
        headers,
        body: Vec::new(),
        grpc_status: None,
        details,
    };
    match kind {
        RequestKind::Plain | RequestKind::Head => {
            let (content_type, body) = body::body(settings, story);
            let mut reply = reply;
            reply.headers.push(("content-type", content_type));
            if kind == RequestKind::Plain {
                reply.body = body;
            }
            reply
        }
        RequestKind::Grpc => Refusal {
            body: body::message(story).into_bytes(),
            grpc_status: Some(grpc),
            ..reply
        },
        RequestKind::GrpcWeb { text } => {
            let (content_type, body) = grpc_web::trailers(grpc, &body::message(story), text);
            let mut reply = Refusal {
                status: 200,
                body,
                ..reply
            };
            reply
                .headers
                .push(("content-type", content_type.to_owned()));
            reply
        }
    }
}

const PERMISSION_DENIED: i32 = 7;
const UNAVAILABLE: i32 = 14;
