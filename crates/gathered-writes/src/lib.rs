//! Connections that write once for all that is to be written in one turn of the scheduler.
//!
//! HTTP/2 flushes the head of a request before it takes its body, and each request apart: a system call, a wake-up of the
//! server and, over TLS, a record each time. Here a flush first lets the other tasks run that are ready.
//!
//! Below it, a flush means that all that was written before is with the stream.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll, ready};

use bytes::{Buf as _, BytesMut};
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection};

/// Bytes that are gathered, as many as a TLS record has at most.
const FULL: usize = 16 << 10;

/// One connection.
pub struct Gathered<S> {
    stream: S,
    unwritten: BytesMut,
    /// Whether the flush that is under way has let the others run.
    waited: bool,
}

impl<S> Gathered<S> {
    /// Nothing is written yet.
    pub fn new(stream: S) -> Self {
        Self { stream, unwritten: BytesMut::new(), waited: false }
    }
}

impl<S: Write + Unpin> Gathered<S> {
    fn poll_drain(&mut self, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        while !self.unwritten.is_empty() {
            let written = ready!(Pin::new(&mut self.stream).poll_write(context, &self.unwritten))?;
            if written == 0 {
                return Poll::Ready(Err(io::ErrorKind::WriteZero.into()));
            }
            self.unwritten.advance(written);
        }
        self.waited = false;
        Poll::Ready(Ok(()))
    }
}

impl<S: Connection> Connection for Gathered<S> {
    fn connected(&self) -> Connected {
        self.stream.connected()
    }
}

impl<S: Read + Unpin> Read for Gathered<S> {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.stream).poll_read(context, buffer)
    }
}

impl<S: Write + Unpin> Write for Gathered<S> {
    /// Not vectored: HTTP/2 then takes bodies of up to 1 KiB together with what comes before and after them, and does not
    /// flush in between.
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        if self.unwritten.len() >= FULL {
            ready!(self.poll_drain(context))?;
        }
        self.unwritten.extend_from_slice(data);
        Poll::Ready(Ok(data.len()))
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        if !self.unwritten.is_empty() && !self.waited {
            self.waited = true;
            context.waker().wake_by_ref();
            return Poll::Pending;
        }
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_drain(context))?;
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}

#[cfg(test)]
mod tests;
