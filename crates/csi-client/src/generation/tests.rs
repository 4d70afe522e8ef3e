#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::convert::Infallible;
use std::io;
use std::time::Duration;

use bytes::Bytes;
use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse};
use http_body_util::{BodyExt as _, Full};
use hyper::server::conn::http2;
use hyper::service::service_fn;
use parking_lot::Mutex;
use prometheus::Registry;
use tokio::io::{DuplexStream, ReadBuf, duplex};

use super::*;
use crate::call::Caller;
use crate::{Address, CallMetrics, Rpc};

const PREFACE: &[u8] = b"PRI * HTTP/2.0\r\n\r\nSM\r\n\r\n";

/// Frames of HTTP/2, as their first bytes after the length tell them.
const DATA: u8 = 0;
const HEADERS: u8 = 1;

/// Notes each write to it, as the system would see it.
struct Noting {
    stream: DuplexStream,
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
}

impl AsyncRead for Noting {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl AsyncWrite for Noting {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        let written = Pin::new(&mut self.stream).poll_write(cx, bytes);
        assert!(matches!(written, Poll::Ready(Ok(all)) if all == bytes.len()), "{written:?}");
        self.writes.lock().push(bytes.to_vec());
        written
    }

    fn poll_write_vectored(
        self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        let bytes: Vec<u8> = buffers.iter().flat_map(|buffer| buffer.iter().copied()).collect();
        self.poll_write(cx, &bytes)
    }

    fn is_write_vectored(&self) -> bool {
        true
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

/// The frames of one write that carry a request.
fn request_frames(mut write: &[u8]) -> Vec<u8> {
    write = write.strip_prefix(PREFACE).unwrap_or(write);
    let mut kinds = Vec::new();
    while let [a, b, c, kind, _, _, _, _, _, rest @ ..] = write {
        let length = u32::from_be_bytes([0, *a, *b, *c]);
        write = &rest[usize::try_from(length).unwrap()..];
        kinds.push(*kind);
    }
    assert!(write.is_empty(), "a frame is whole");
    kinds.retain(|kind| [DATA, HEADERS].contains(kind));
    kinds
}

/// Answers each request when it is complete.
async fn driver(stream: DuplexStream, tasks: SocketExecutor) {
    let service = service_fn(|request: Request<hyper::body::Incoming>| async {
        request.into_body().collect().await.unwrap();
        let empty_message = Full::new(Bytes::from_static(&[0; 5]));
        let answer = Response::builder().header("content-type", "application/grpc").header("grpc-status", "0");
        Ok::<_, Infallible>(answer.body(empty_message).unwrap())
    });
    http2::Builder::new(tasks).serve_connection(TokioIo::new(stream), service).await.unwrap();
}

#[tokio::test(start_paused = true)]
async fn head_and_body_of_a_call_leave_in_one_write() {
    let (near, far) = duplex(1 << 20);
    let writes = Arc::<Mutex<Vec<Vec<u8>>>>::default();
    let tasks = SocketTasks::new();
    tasks.spawn(driver(far, tasks.executor()));
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    let _listener = std::os::unix::net::UnixListener::bind(&path).unwrap();
    let stream = Noting { stream: near, writes: writes.clone() };
    let generation = Generation::open(1, stream, SocketFile::at(&path).unwrap(), &tasks).await.unwrap();

    let metrics = CallMetrics::register(&Registry::new()).unwrap();
    let address = Address::parse(path.to_str().unwrap()).unwrap();
    let caller = Caller { address, timeout: Duration::from_secs(15), metrics };
    let call = async |length| {
        let request = CreateVolumeRequest { name: "n".repeat(length), ..CreateVolumeRequest::default() };
        let method = Rpc::CreateVolume.method();
        caller.unary::<_, CreateVolumeResponse>(&generation, method, false, request).await.unwrap();
        let writes = std::mem::take(&mut *writes.lock());
        writes.iter().map(|write| request_frames(write)).filter(|frames| !frames.is_empty()).collect::<Vec<_>>()
    };
    // The flush of the preface takes the head of the first call along.
    call(5).await;
    assert_eq!(call(5).await, [[HEADERS, DATA, DATA]]);
    // HTTP/2 does not wait for more when it hands over a long body: the empty frame at its end may follow apart.
    let long = call(5000).await;
    assert!(long[0].starts_with(&[HEADERS, DATA]), "{long:?}");
}
