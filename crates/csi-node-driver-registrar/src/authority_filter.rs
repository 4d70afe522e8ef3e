//! Makes the requests of every gRPC client acceptable to the HTTP/2 library: `:authority` becomes `localhost`.
//!
//! Kubelet dials the socket by its path, and its gRPC library sends that path, percent-encoded, as `:authority`. Others send the raw
//! path, nothing, or leave it out. The `http` crate takes none of that for a host, and `h2` resets the stream, so that the driver
//! would never be registered.
//!
//! Bytes from the client → `frames` finds the header blocks → `header_block` decodes each, puts `localhost` into it, and writes it anew,
//! without references to a table → the server. Everything else passes as it is, and so does everything the server writes.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use tokio::io::{AsyncRead, AsyncWrite, ReadBuf};

mod frames;
mod header_block;

use frames::Rewriter;

/// Bytes read from the client at once.
const READ: usize = 4096;

/// A client's byte stream with acceptable requests in it.
pub(crate) struct AuthorityFilter<S> {
    stream: S,
    rewriter: Rewriter,
    /// Read and not rewritten yet, from `taken` on.
    input: Vec<u8>,
    taken: usize,
    /// Rewritten and not handed on yet, from `given` on.
    output: Vec<u8>,
    given: usize,
}

impl<S> AuthorityFilter<S> {
    pub(crate) fn new(stream: S) -> Self {
        let (input, output) = (Vec::new(), Vec::new());
        Self { stream, rewriter: Rewriter::new(), input, taken: 0, output, given: 0 }
    }
}

impl<S: AsyncRead + Unpin> AsyncRead for AuthorityFilter<S> {
    /// What is no HTTP/2, or more than a small request needs, is an error of kind `InvalidData`, which ends the connection.
    fn poll_read(self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        let this = self.get_mut();
        loop {
            if let Some(rest) = this.output.get(this.given..).filter(|rest| !rest.is_empty()) {
                let part = rest.get(..buf.remaining()).unwrap_or(rest);
                buf.put_slice(part);
                this.given += part.len();
                return Poll::Ready(Ok(()));
            }
            this.output.clear();
            this.given = 0;
            if let Some(rest) = this.input.get(this.taken..).filter(|rest| !rest.is_empty()) {
                let taken = this.rewriter.step(rest, &mut this.output);
                this.taken += taken.map_err(|malformed| io::Error::new(io::ErrorKind::InvalidData, malformed))?;
                continue;
            }
            this.taken = 0;
            this.input.resize(READ, 0);
            let mut read = ReadBuf::new(&mut this.input);
            let outcome = Pin::new(&mut this.stream).poll_read(cx, &mut read);
            let filled = read.filled().len();
            this.input.truncate(filled);
            ready!(outcome)?;
            if filled == 0 {
                return Poll::Ready(Ok(()));
            }
        }
    }
}

impl<S: AsyncWrite + Unpin> AsyncWrite for AuthorityFilter<S> {
    fn poll_write(mut self: Pin<&mut Self>, cx: &mut Context<'_>, buf: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write(cx, buf)
    }

    fn poll_flush(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_flush(cx)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_shutdown(cx)
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        cx: &mut Context<'_>,
        bufs: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.stream).poll_write_vectored(cx, bufs)
    }

    fn is_write_vectored(&self) -> bool {
        self.stream.is_write_vectored()
    }
}

#[cfg(test)]
mod tests;
