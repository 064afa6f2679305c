//! What kind of client asks, as far as the answer depends on it.

/// How a refusal must look to its client.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum RequestKind {
    /// A status, headers and a body.
    Plain,
    /// A status and headers.
    Head,
    /// Trailers only: status 200, `grpc-status`, `grpc-message`. Envoy makes it from the local reply.
    Grpc,
    /// The same, made here, since Envoy knows only `application/grpc`.
    GrpcWeb {
        /// Whether bodies are base64, `application/grpc-web-text`.
        text: bool,
    },
}

impl RequestKind {
    /// Reads it from the request's `:method` and `content-type`, raw.
    #[must_use]
    pub fn of(method: &[u8], content_type: Option<&[u8]>) -> Self {
        let content_type = content_type.unwrap_or_default();
        if is_type(content_type, b"application/grpc") {
            Self::Grpc
        } else if is_type(content_type, b"application/grpc-web") {
            Self::GrpcWeb { text: false }
        } else if is_type(content_type, b"application/grpc-web-text") {
            Self::GrpcWeb { text: true }
        } else if method == b"HEAD" {
            Self::Head
        } else {
            Self::Plain
        }
    }

    /// Whether it is gRPC of either kind.
    #[must_use]
    pub const fn is_grpc(self) -> bool {
        matches!(self, Self::Grpc | Self::GrpcWeb { .. })
    }
}

/// Whether `content_type` is `name`, `name+suffix` or `name;parameters`, in any letter case.
fn is_type(content_type: &[u8], name: &[u8]) -> bool {
    let Some((head, tail)) = content_type.split_at_checked(name.len()) else {
        return false;
    };
    head.eq_ignore_ascii_case(name) && matches!(tail.first(), None | Some(b'+' | b';' | b' '))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn b49_only_grpc_types_are_grpc() {
        for (content_type, kind) in [
            ("application/grpc", RequestKind::Grpc),
            ("application/grpc+proto", RequestKind::Grpc),
            ("application/grpc+json", RequestKind::Grpc),
            ("Application/gRPC;charset=x", RequestKind::Grpc),
            ("application/grpc-web", RequestKind::GrpcWeb { text: false }),
            (
                "application/grpc-web+proto",
                RequestKind::GrpcWeb { text: false },
            ),
            (
                "application/grpc-web-text+proto",
                RequestKind::GrpcWeb { text: true },
            ),
            ("application/grpcfoo", RequestKind::Plain),
            ("application/json", RequestKind::Plain),
            ("", RequestKind::Plain),
        ] {
            assert_eq!(
                RequestKind::of(b"POST", Some(content_type.as_bytes())),
                kind
            );
        }
        assert_eq!(RequestKind::of(b"HEAD", None), RequestKind::Head);
        assert_eq!(RequestKind::of(b"GET", Some(b"\xff")), RequestKind::Plain);
    }
}
