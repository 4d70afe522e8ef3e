//! The socket: serving it, and cutting it off the way a dying process does.

use std::io;
use std::path::Path;
use std::pin::Pin;
use std::task::{Context, Poll};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};
use tokio::net::{UnixListener, UnixStream};
use tokio::task::JoinSet;
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::{CancellationToken, WaitForCancellationFutureOwned};
use tonic::transport::Server;
use tonic::transport::server::{Connected, UdsConnectInfo};

use crate::service::Services;

/// One bound listener with the connections it accepted.
#[derive(Debug)]
pub(crate) struct Serving {
    cut: CancellationToken,
    /// One task: it accepts, and ends with the last of its connections.
    tasks: JoinSet<()>,
}

impl Serving {
    pub(crate) fn bind(path: &Path, services: Services) -> io::Result<Self> {
        // Renamed over the old file, so that the new inode number differs from a stale one's.
        let fresh = path.with_extension("new");
        let listener = UnixListener::bind(&fresh)?;
        std::fs::rename(&fresh, path)?;
        let cut = CancellationToken::new();
        let per_stream = cut.clone();
        let incoming = UnixListenerStream::new(listener).map(move |stream| {
            stream.map(|stream| Cut {
                stream,
                until: Box::pin(per_stream.clone().cancelled_owned()),
                token: per_stream.clone(),
            })
        });
        let stop = cut.clone().cancelled_owned();
        let mut tasks = JoinSet::new();
        tasks.spawn(async move {
            // The only error is that of a service that is not ready, which ours always is.
            let _ = Server::builder().serve_with_incoming_shutdown(services, incoming, stop).await;
        });
        Ok(Self { cut, tasks })
    }

    /// Closes the listener and all its connections, without GOAWAY; the socket file stays.
    pub(crate) async fn cut(mut self) {
        self.cut.cancel();
        self.tasks.join_next().await;
    }

    /// The same for a driver that is dropped: nobody waits; dropping the value aborts the accept loop.
    pub(crate) fn cut_now(&self) {
        self.cut.cancel();
    }
}

/// A connection that ends when its listener is cut.
struct Cut {
    stream: UnixStream,
    until: Pin<Box<WaitForCancellationFutureOwned>>,
    token: CancellationToken,
}

impl Connected for Cut {
    type ConnectInfo = UdsConnectInfo;

    fn connect_info(&self) -> UdsConnectInfo {
        self.stream.connect_info()
    }
}

impl AsyncRead for Cut {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        if self.until.as_mut().poll(cx).is_ready() {
            return Poll::Ready(Err(io::ErrorKind::ConnectionReset.into()));
        }
        Pin::new(&mut self.stream).poll_read(cx, buf)
    }
}

impl AsyncWrite for Cut {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        if self.token.is_cancelled() {
            return Poll::Ready(Err(io::ErrorKind::BrokenPipe.into()));
        }
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
