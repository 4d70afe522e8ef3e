//! The last look at a caller's right to call, where bytes leave the process.
//!
//! Between the moment when a call is admitted and the write that carries its request, the process may be stopped for longer
//! than the admission is worth. So the body of each request leaves its admission at the fence when it is handed to HTTP/2, and
//! the socket asks it again immediately before every write until all of the body has been written, which may be long after:
//! a driver that does not read leaves HTTP/2 no window. If it is refused there the connection breaks: what is in its buffers
//! must not be sent, and everybody whose calls are on it has lost the same right.
//!
//! Not guaranteed: that the empty frame at the end of a call is asked about, when all before it has been written and it has not.

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
    /// Of bodies that may be in buffers, each shared with its [`Watched`].
    unwritten: Mutex<Vec<Arc<Left>>>,
}

/// What a body leaves at the fence.
struct Left(Arc<dyn Admission>);

/// The bytes of a body. HTTP/2 drops them when it has handed over the last of them, or gives them up.
struct Watched {
    data: Bytes,
    _left: Arc<Left>,
}

impl AsRef<[u8]> for Watched {
    fn as_ref(&self) -> &[u8] {
        &self.data
    }
}

impl Fence {
    fn leave(&self, admission: Arc<dyn Admission>, data: Bytes) -> Bytes {
        let left = Arc::new(Left(admission));
        self.unwritten.lock().push(left.clone());
        Bytes::from_owner(Watched { data, _left: left })
    }

    fn ask(&self) -> io::Result<()> {
        let refused = self.unwritten.lock().iter().find_map(|left| left.0.admit().err());
        refused.map_or(Ok(()), |Denied(why)| Err(io::Error::new(io::ErrorKind::PermissionDenied, why)))
    }

    /// All that was handed over is written: of the bodies remain those that HTTP/2 still has.
    fn all_is_written(&self) {
        self.unwritten.lock().retain(|left| Arc::strong_count(left) > 1);
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
        let Some(admission) = &self.admission else { return Poll::Ready(frame) };
        let leave = |data| self.fence.leave(admission.clone(), data);
        Poll::Ready(frame.map(|frame| frame.map(|frame| frame.map_data(leave))))
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

    /// `Gathered` passes a flush on when all that HTTP/2 has handed over is written.
    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(Pin::new(&mut self.stream).poll_flush(cx))?;
        self.fence.all_is_written();
        Poll::Ready(Ok(()))
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use std::sync::atomic::{AtomicBool, Ordering};

    use http_body_util::{BodyExt as _, Full};
    use tokio::io::AsyncWriteExt as _;

    use super::*;

    #[derive(Default)]
    struct Lapsed(AtomicBool);

    impl Admission for Lapsed {
        fn admit(&self) -> Result<(), Denied> {
            if self.0.load(Ordering::Relaxed) { Err(Denied("the lease is over".to_owned())) } else { Ok(()) }
        }
    }

    #[tokio::test]
    async fn a_body_is_asked_about_until_all_of_it_is_written() {
        let fence = Arc::<Fence>::default();
        let (stream, _far) = tokio::io::duplex(100);
        let mut stream = FencedStream { stream, fence: fence.clone() };
        let admission = Arc::new(Lapsed::default());
        let body = Full::new(Bytes::from_static(b"body"));
        let mut body = FencedBody { body, fence, admission: Some(admission.clone()) };
        let mut data = body.frame().await.unwrap().unwrap().into_data().unwrap();
        assert_eq!(data, "body");

        let rest = data.split_off(2);
        stream.write_all(&data).await.unwrap();
        drop(data);
        stream.flush().await.unwrap();
        admission.0.store(true, Ordering::Relaxed);
        assert_eq!(stream.write_all(b"other").await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);

        admission.0.store(false, Ordering::Relaxed);
        stream.write_all(&rest).await.unwrap();
        drop(rest);
        admission.0.store(true, Ordering::Relaxed);
        assert_eq!(stream.write_all(b"other").await.unwrap_err().kind(), io::ErrorKind::PermissionDenied);
        stream.flush().await.unwrap();
        stream.write_all(b"other").await.unwrap();
    }
}
