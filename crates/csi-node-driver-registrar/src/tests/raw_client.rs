//! An HTTP/2 client that sends any `:authority`, which the HTTP library refuses to send as it refuses to take it.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use loona_hpack::{Decoder, Encoder};
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use tokio::net::UnixStream;
use tokio::time::timeout;

const HEADERS: u8 = 1;
const RESET: u8 = 3;
const SETTINGS: u8 = 4;
const GOAWAY: u8 = 7;

/// What came back.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Reply {
    /// The values of `grpc-status`, and the messages.
    Answer { grpc_status: String, data: Vec<u8> },
    /// The stream was reset with this code.
    Reset(u32),
    /// The connection was closed.
    Closed,
}

/// Calls a method with an empty message on a connection of its own. `authority` is sent as it is, or not at all.
pub(crate) async fn call(path: &Path, method: &str, authority: Option<&str>) -> Reply {
    let mut headers: Vec<(&[u8], &[u8])> =
        vec![(b":method", b"POST"), (b":scheme", b"http"), (b":path", method.as_bytes())];
    headers.extend(authority.map(|authority| (&b":authority"[..], authority.as_bytes())));
    headers.extend([(&b"content-type"[..], &b"application/grpc"[..]), (b"te", b"trailers")]);
    let mut bytes = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n".to_vec();
    bytes.extend(frame(SETTINGS, 0, 0, &[]));
    bytes.extend(frame(HEADERS, 4, 1, &Encoder::new().encode(headers)));
    bytes.extend(frame(0, 1, 1, &[0; 5]));
    exchange(path, &bytes).await
}

/// Sends bytes and reads the answer to stream 1.
pub(crate) async fn exchange(path: &Path, bytes: &[u8]) -> Reply {
    let mut stream = UnixStream::connect(path).await.unwrap();
    stream.write_all(bytes).await.unwrap();
    timeout(Duration::from_secs(20), reply(&mut stream)).await.expect("a reply or the end of the connection")
}

async fn reply(stream: &mut UnixStream) -> Reply {
    let mut decoder = Decoder::new();
    let mut data = Vec::new();
    loop {
        let mut head = [0; 9];
        if stream.read_exact(&mut head).await.is_err() {
            return Reply::Closed;
        }
        let mut payload = vec![0; u32::from_be_bytes([0, head[0], head[1], head[2]]) as usize];
        stream.read_exact(&mut payload).await.unwrap();
        match head[3] {
            0 => data.extend(payload),
            HEADERS => {
                let list = decoder.decode(&payload).unwrap();
                if let Some((_, status)) = list.into_iter().find(|(name, _)| name == b"grpc-status") {
                    return Reply::Answer { grpc_status: String::from_utf8(status).unwrap(), data };
                }
            }
            RESET => return Reply::Reset(u32::from_be_bytes(payload.try_into().unwrap())),
            SETTINGS if head[4] == 0 => {
                let acknowledged = stream.write_all(&frame(SETTINGS, 1, 0, &[])).await;
                assert!(acknowledged.is_ok() || data.is_empty());
            }
            GOAWAY => return Reply::Closed,
            _ => {}
        }
    }
}

fn frame(kind: u8, flags: u8, stream: u32, payload: &[u8]) -> Vec<u8> {
    let mut bytes = u32::try_from(payload.len()).unwrap().to_be_bytes()[1..].to_vec();
    bytes.extend([kind, flags]);
    bytes.extend(stream.to_be_bytes());
    bytes.extend(payload);
    bytes
}
