//! The wire between the proxy and its clients, which can fall silent without either side being told.

use std::{
    future::pending,
    io,
    pin::Pin,
    task::{Context, Poll, ready},
};

use tokio::{
    io::{AsyncRead, AsyncWrite, ReadBuf},
    net::TcpStream,
    sync::watch,
};

/// Which connections carry bytes.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Link {
    /// No connection does.
    pub(super) dark: bool,
    /// Older ones never do again.
    pub(super) first_alive: u64,
}

impl Link {
    fn carries(self, connection: u64) -> bool {
        !self.dark && connection >= self.first_alive
    }
}

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

/// One connection. While its link is dark, what was sent neither arrives nor is refused, as with packets that are
/// dropped on the way.
pub(super) struct Wire {
    stream: TcpStream,
    connection: u64,
    link: watch::Receiver<Link>,
    waiting: Option<Waiting>,
}

impl Wire {
    pub(super) fn new(stream: TcpStream, connection: u64, link: watch::Receiver<Link>) -> Self {
        Self { stream, connection, link, waiting: None }
    }

    fn poll_carries(&mut self, context: &mut Context<'_>) -> Poll<()> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            if self.link.borrow().carries(self.connection) {
                return Poll::Ready(());
            }
            let (mut link, connection) = (self.link.clone(), self.connection);
            self.waiting = Some(Box::pin(async move {
                if link.wait_for(|link| link.carries(connection)).await.is_err() {
                    pending::<()>().await;
                }
            }));
        }
    }
}

impl AsyncRead for Wire {
    fn poll_read(mut self: Pin<&mut Self>, context: &mut Context<'_>, into: &mut ReadBuf<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_carries(context));
        Pin::new(&mut self.stream).poll_read(context, into)
    }
}

impl AsyncWrite for Wire {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, bytes: &[u8]) -> Poll<io::Result<usize>> {
        ready!(self.poll_carries(context));
        Pin::new(&mut self.stream).poll_write(context, bytes)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_carries(context));
        Pin::new(&mut self.stream).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        ready!(self.poll_carries(context));
        Pin::new(&mut self.stream).poll_shutdown(context)
    }
}
