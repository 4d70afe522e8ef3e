//! A driver that misbehaves on the wire in ways a gRPC server library does not offer.

use std::path::PathBuf;
use std::sync::Arc;

use http_body_util::Full;
use hyper::body::{Bytes, Incoming};
use hyper::server::conn::http2::Builder;
use hyper::service::service_fn;
use hyper::{Request, Response};
use hyper_util::rt::{TokioExecutor, TokioIo};
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::net::UnixListener;
use tokio::task::JoinHandle;

type Answer = Response<Full<Bytes>>;

/// Answers Probe with "ready", everything else as the test says.
pub(crate) struct RawServer {
    directory: TempDir,
    seen: Arc<Mutex<Vec<String>>>,
    task: JoinHandle<()>,
}

impl RawServer {
    /// `respond` returns nothing to reset the stream, and a future that never ends to hang.
    pub(crate) fn start<F, Fut>(streams: u32, respond: F) -> Self
    where
        F: Fn() -> Fut + Clone + Send + Sync + 'static,
        Fut: Future<Output = Option<Answer>> + Send + 'static,
    {
        let directory = tempfile::tempdir().unwrap();
        let listener = UnixListener::bind(directory.path().join("csi.sock")).unwrap();
        let seen = Arc::<Mutex<Vec<String>>>::default();
        let paths = seen.clone();
        let task = tokio::spawn(async move {
            let (stream, _) = listener.accept().await.unwrap();
            let service = service_fn(move |request: Request<Incoming>| {
                let path = request.uri().path().to_owned();
                let (respond, paths) = (respond.clone(), paths.clone());
                async move {
                    paths.lock().push(path.clone());
                    if path.starts_with("/csi.v1.Identity/") {
                        Ok(answer(&[], &identity(&path)))
                    } else {
                        respond().await.ok_or(Reset)
                    }
                }
            });
            let mut server = Builder::new(TokioExecutor::new());
            let _ = server.max_concurrent_streams(streams).serve_connection(TokioIo::new(stream), service).await;
        });
        Self { directory, seen, task }
    }

    pub(crate) fn socket_path(&self) -> PathBuf {
        self.directory.path().join("csi.sock")
    }

    /// Paths of the requests so far.
    pub(crate) fn controller_calls(&self) -> usize {
        self.seen.lock().iter().filter(|path| path.starts_with("/csi.v1.Controller/")).count()
    }
}

impl Drop for RawServer {
    fn drop(&mut self) {
        self.task.abort();
    }
}

#[derive(Debug)]
struct Reset;

impl std::fmt::Display for Reset {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str("reset")
    }
}

impl std::error::Error for Reset {}

fn identity(path: &str) -> Vec<u8> {
    match path.rsplit('/').next() {
        Some("GetPluginInfo") => message(b"\x0a\x03raw"),
        _ => message(b""),
    }
}

/// A message with its gRPC prefix.
pub(crate) fn message(bytes: &[u8]) -> Vec<u8> {
    let mut framed = vec![0];
    framed.extend(u32::try_from(bytes.len()).unwrap().to_be_bytes());
    framed.extend(bytes);
    framed
}

/// A gRPC answer whose status stands in the headers; 0 where `headers` has none.
pub(crate) fn answer(headers: &[(&'static str, &'static str)], body: &[u8]) -> Answer {
    let mut response = Response::builder().header("content-type", "application/grpc");
    if !headers.iter().any(|(name, _)| *name == "grpc-status" || *name == "no-status") {
        response = response.header("grpc-status", "0");
    }
    for (name, value) in headers {
        response = response.header(*name, *value);
    }
    response.body(Full::new(Bytes::copy_from_slice(body))).unwrap()
}
