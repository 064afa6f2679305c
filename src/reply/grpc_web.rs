//! A refusal as gRPC-Web writes one: a 200 whose body is a single frame of trailers.
//!
//! The status is not put into the headers. Envoy takes the content type off a local reply without a
//! body, clients do not read a response without it, and a page of another origin could not read such
//! headers anyhow.

use std::fmt::Write as _;

use super::base64::base64;

/// The `Content-Type` and the body. `text`: the client asked for base64.
pub(super) fn trailers(status: i32, message: &str, text: bool) -> (&'static str, Vec<u8>) {
    let mut block = format!("grpc-status: {status}\r\ngrpc-message: ");
    for byte in message.bytes() {
        if matches!(byte, b' '..=b'~') && byte != b'%' {
            block.push(char::from(byte));
        } else {
            let _ = write!(block, "%{byte:02X}");
        }
    }
    block.push_str("\r\n");
    let length = u32::try_from(block.len()).unwrap_or(u32::MAX);
    let mut frame = vec![TRAILERS];
    frame.extend_from_slice(&length.to_be_bytes());
    frame.extend_from_slice(block.as_bytes());
    if text {
        (
            "application/grpc-web-text+proto",
            base64(&frame).into_bytes(),
        )
    } else {
        ("application/grpc-web+proto", frame)
    }
}

/// The flag of a frame that holds trailers.
const TRAILERS: u8 = 0x80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_frame_is_flag_length_and_a_block_of_lines() {
        let (content_type, frame) = trailers(8, "50% is\nenough", false);
        assert_eq!(content_type, "application/grpc-web+proto");
        let block = b"grpc-status: 8\r\ngrpc-message: 50%25 is%0Aenough\r\n";
        let length = u8::try_from(block.len()).unwrap();
        assert_eq!(frame, [&[0x80, 0, 0, 0, length], &block[..]].concat());
    }
}
