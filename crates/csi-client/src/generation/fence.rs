//! The last look at a caller's right to call, where bytes leave the process.
//!
//! Between the moment when a call is admitted and the write that carries its request, the process may be stopped for longer
//! than the admission is worth. So the body of each request leaves its admission at the fence when it is handed to HTTP/2, and
//! the socket asks it again immediately before every write until all has been written. If it is refused there the connection
//! breaks: what is in its buffers must not be sent, and everybody whose calls are on it has lost the same right.
//!
//! Not guaranteed: that a request larger than HTTP/2's window (64 KiB at first) is asked about after its first part.

use std::io;
use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http_body::{Body, Frame, SizeHint};
use parking_lot::Mutex;
use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

use crate::{Admission, Denied};

/// Of one connection.
#[derive(Default)]
pub(crate) struct Fence {
    /// Of requests that may be in buffers.
    unwritten: Mutex<Vec<Arc<dyn Admission>>>,
}

impl Fence {
    fn leave(&self, admission: Arc<dyn Admission>) {
        self.unwritten.lock().push(admission);
    }

    fn ask(&self) -> io::Result<()> {
        let refused = self.unwritten.lock().iter().find_map(|admission| admission.admit().err());
        refused.map_or(Ok(()), |Denied(why)| Err(io::Error::new(io::ErrorKind::PermissionDenied, why)))
    }

    fn all_is_written(&self) {
        let mut unwritten = self.unwritten.lock();
        if !unwritten.is_empty() {
            unwritten.clear();
        }
    }
}

/// A request's body that leaves the admission of its call at the fence.
pub(crate) struct FencedBody<B> {
    pub(crate) body: B,
    pub(crate) fence: Arc<Fence>,
    /// None: of a call that anybody may send at any time.
    pub(crate) admission: Option<Arc<dyn Admission>>,
}

impl<B: Body<Data = Bytes> + Unpin> Body for FencedBody<B> {
    type Data = Bytes;
    type Error = B::Error;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, B::Error>>> {
        let frame = ready!(Pin::new(&mut self.body).poll_frame(cx));
        if let (Some(Ok(frame)), Some(admission)) = (&frame, &self.admission)
            && frame.is_data()
        {
            self.fence.leave(admission.clone());
        }
        Poll::Ready(frame)
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

/// The stream of a connection, which writes past its fence only.
pub(crate) struct FencedStream<S> {
    pub(crate) stream: S,
    pub(crate) fence: Arc<Fence>,
}

impl<S: AsyncRead + Unpin> AsyncRead for FencedStream<S> {
    fn poll_read(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buffer: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(cx, buffer)
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for FencedStream<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        self.fence.ask()?;
        Pin::new(&mut self.stream).poll_write(cx, bytes)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        buffers: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        self.fence.ask()?;
        Pin::new(&mut self.stream).poll_write_vectored(cx, buffers)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }

    /// HTTP/2 flushes when it has handed over all its buffers, and `Gathered` passes that on when all of them are written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.fence.all_is_written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}
