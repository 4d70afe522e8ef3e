#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::io;
use std::os::unix::net::UnixListener;
use std::sync::atomic::AtomicBool;
use std::time::Duration;

use bytes::Bytes;
use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, DeleteVolumeResponse};
use http_body_util::{BodyExt as _, Full};
use hyper::body::Incoming;
use hyper::server::conn::http2;
use hyper::service::service_fn;
use parking_lot::Mutex;
use prometheus::Registry;
use tempfile::TempDir;
use tokio::io::{DuplexStream, ReadBuf, duplex};

use super::*;
use crate::call::Caller;
use crate::{Address, CallError, CallMetrics, Denied, Rpc};

/// Bytes of one request that the driver takes unread.
const WINDOW: u32 = 64 << 10;

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

/// Ends when it is told.
#[derive(Default)]
struct Lease(AtomicBool);

impl Admission for Lease {
    fn admit(&self) -> Result<(), Denied> {
        if self.0.load(Ordering::Relaxed) { Err(Denied("the lease is over".to_owned())) } else { Ok(()) }
    }
}

/// A driver, and calls to it.
struct Scene {
    generation: Generation,
    caller: Caller,
    /// What was written to the driver.
    writes: Arc<Mutex<Vec<Vec<u8>>>>,
    /// Paths of the requests the driver has read to the end.
    read: Arc<Mutex<Vec<String>>>,
    _directory: TempDir,
    _tasks: SocketTasks,
}

impl Scene {
    /// The driver reads the bodies of CreateVolume only when it `may_read`.
    async fn new(may_read: CancellationToken) -> Self {
        let (near, far) = duplex(1 << 20);
        let (writes, read) = (Arc::default(), Arc::default());
        let tasks = SocketTasks::new();
        tasks.spawn(driver(far, tasks.executor(), may_read, Arc::clone(&read)));
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("csi.sock");
        let _listener = UnixListener::bind(&path).unwrap();
        let stream = Noting { stream: near, writes: Arc::clone(&writes) };
        let generation = Generation::open(1, stream, SocketFile::at(&path).unwrap(), &tasks).await.unwrap();
        let metrics = CallMetrics::register(&Registry::new()).unwrap();
        let address = Address::parse(path.to_str().unwrap()).unwrap();
        let caller = Caller { address, timeout: Duration::from_secs(15), metrics };
        Self { generation, caller, writes, read, _directory: directory, _tasks: tasks }
    }

    /// The frames of the request, by write.
    async fn frames_of_a_call(&self, length: usize) -> Vec<Vec<u8>> {
        self.writes.lock().clear();
        let (method, request) =
            (Rpc::DeleteVolume.method(), DeleteVolumeRequest { volume_id: "v".repeat(length), ..Default::default() });
        self.caller.unary::<_, DeleteVolumeResponse>(&self.generation, method, false, request).await.unwrap();
        let writes = self.writes.lock();
        writes.iter().map(|write| request_frames(write)).filter(|frames| !frames.is_empty()).collect()
    }
}

async fn driver(
    stream: DuplexStream,
    tasks: SocketExecutor,
    may_read: CancellationToken,
    read: Arc<Mutex<Vec<String>>>,
) {
    let service = service_fn(|request: Request<Incoming>| {
        let (may_read, read) = (may_read.clone(), read.clone());
        async move {
            let path = request.uri().path().to_owned();
            if path == Rpc::CreateVolume.method() {
                may_read.cancelled().await;
            }
            request.into_body().collect().await?;
            read.lock().push(path);
            let empty_message = Full::new(Bytes::from_static(&[0; 5]));
            let answer = Response::builder().header("content-type", "application/grpc").header("grpc-status", "0");
            Ok::<_, hyper::Error>(answer.body(empty_message).unwrap())
        }
    });
    let mut server = http2::Builder::new(tasks);
    let _ = server.initial_stream_window_size(WINDOW).serve_connection(TokioIo::new(stream), service).await;
}

#[tokio::test(start_paused = true)]
async fn head_and_body_of_a_call_leave_in_one_write() {
    let scene = Scene::new(CancellationToken::new()).await;
    // The flush of the preface takes the head of the first call along.
    scene.frames_of_a_call(5).await;
    for length in [5, 900] {
        assert_eq!(scene.frames_of_a_call(length).await, [[HEADERS, DATA, DATA]]);
    }
    // HTTP/2 does not wait for more when it hands over a long body: the empty frame at its end may follow apart.
    let long = scene.frames_of_a_call(5000).await;
    assert!(long[0].starts_with(&[HEADERS, DATA]), "{long:?}");
}

/// A driver that does not read leaves no window for the rest of a call, and the lease ends meanwhile.
#[tokio::test(start_paused = true)]
async fn a_call_whose_admission_lapses_before_its_end_is_written_does_not_reach_the_driver_whole() {
    let may_read = CancellationToken::new();
    let scene = Scene::new(may_read.clone()).await;
    let lease = Arc::new(Lease::default());
    let request = CreateVolumeRequest { name: "n".repeat(3 * WINDOW as usize), ..CreateVolumeRequest::default() };
    let method = Rpc::CreateVolume.method();
    let long = scene.caller.admitted::<_, CreateVolumeResponse>(
        &scene.generation,
        method,
        false,
        request,
        &*lease,
        lease.clone(),
    );
    let meanwhile = async {
        // It is written, behind what there was room for, and flushed.
        scene.frames_of_a_call(5).await;
        lease.0.store(true, Ordering::Relaxed);
        may_read.cancel();
    };
    let (outcome, ()) = tokio::join!(long, meanwhile);
    assert!(matches!(outcome, Err(CallError::Unanswered { .. })), "{outcome:?}");
    assert_eq!(*scene.read.lock(), [Rpc::DeleteVolume.method()]);
    scene.generation.ended().await;
}
