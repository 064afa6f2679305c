//! A real gRPC client, tonic, against a limit that is used up.

use bytes::{Buf, BufMut};
use serde_json::json;
use support::config::Link;
use support::mesh::{mesh, per_key, policy};
use tonic::client::Grpc;
use tonic::codec::{Codec, DecodeBuf, Decoder, EncodeBuf, Encoder};
use tonic::codegen::http::uri::PathAndQuery;
use tonic::metadata::MetadataMap;
use tonic::transport::{Channel, Endpoint};
use tonic::{Code, Request, Status};

/// Messages of plain bytes: what they mean does not matter here.
#[derive(Clone, Default)]
struct Plain;

impl Codec for Plain {
    type Encode = Vec<u8>;
    type Decode = Vec<u8>;
    type Encoder = Self;
    type Decoder = Self;

    fn encoder(&mut self) -> Self {
        Self
    }

    fn decoder(&mut self) -> Self {
        Self
    }
}

impl Encoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn encode(&mut self, item: Vec<u8>, out: &mut EncodeBuf<'_>) -> Result<(), Status> {
        out.put_slice(&item);
        Ok(())
    }
}

impl Decoder for Plain {
    type Item = Vec<u8>;
    type Error = Status;

    fn decode(&mut self, from: &mut DecodeBuf<'_>) -> Result<Option<Vec<u8>>, Status> {
        let item = from.chunk().to_vec();
        from.advance(item.len());
        Ok(Some(item))
    }
}

async fn call(client: &mut Grpc<Channel>) -> Status {
    client.ready().await.expect("a connection");
    let mut request = Request::new(b"hello".to_vec());
    request
        .metadata_mut()
        .insert("x-api-key", "tonic".parse().expect("a value"));
    let path = PathAndQuery::from_static("/demo.Service/Method");
    client
        .unary(request, path, Plain)
        .await
        .expect_err("the upstream speaks no gRPC")
}

fn seconds(metadata: &MetadataMap) -> u64 {
    let text = metadata
        .get("retry-after")
        .expect("a wait")
        .to_str()
        .expect("text");
    text.parse().expect("whole seconds")
}

#[test]
fn b49_tonic_sees_resource_exhausted_with_the_message_and_the_wait() {
    let limits = json!([per_key("sliding-log", "1/1m")]);
    let mesh = mesh(Link::Straight, policy("deny", "2s", limits)).start();
    // The upstream answers in HTTP/1.1 without a gRPC status: an allowed call ends otherwise than a
    // refused one, and that is all that is asked of it.
    let runtime = tokio::runtime::Runtime::new().expect("a runtime");
    let (allowed, refused) = runtime.block_on(async {
        let address = format!("http://{}", mesh.address());
        let channel = Endpoint::from_shared(address)
            .expect("an address")
            .connect()
            .await;
        let mut client = Grpc::new(channel.expect("a connection"));
        (call(&mut client).await, call(&mut client).await)
    });
    assert_ne!(allowed.code(), Code::ResourceExhausted);
    assert_eq!(
        mesh.echo.hits(),
        1,
        "the second call did not reach the upstream"
    );
    assert_eq!(refused.code(), Code::ResourceExhausted);
    let wait = seconds(refused.metadata());
    let message = format!("rate limit per-key exceeded, retry after {wait} s");
    assert_eq!(refused.message(), message);
    assert!((1..=60).contains(&wait));
}
