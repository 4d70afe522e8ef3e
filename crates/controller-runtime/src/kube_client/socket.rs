//! TCP connections that are read in large pieces: TLS asks for 4 KiB at a time, which during a list would be a system call
//! for every object or two.

use std::io;
use std::pin::Pin;
use std::task::{Context, Poll};

use http::Uri;
use hyper::rt::{Read, ReadBufCursor, Write};
use hyper_util::client::legacy::connect::{Connected, Connection, HttpConnector};
use hyper_util::rt::TokioIo;
use tokio::io::BufReader;
use tokio::net::TcpStream;
use tower::{BoxError, Service};

/// Bytes read at once. As long as little arrives at a time, little of it is ever touched.
const READ_BUFFER: usize = 32 << 10;

/// Makes sockets.
#[derive(Clone)]
pub(super) struct Sockets(HttpConnector);

impl Sockets {
    pub(super) fn new() -> Self {
        let mut connector = HttpConnector::new();
        connector.enforce_http(false);
        // Requests share a connection: none is to wait until another's packet is acknowledged.
        connector.set_nodelay(true);
        Self(connector)
    }
}

impl Service<Uri> for Sockets {
    type Response = Socket;
    type Error = BoxError;
    type Future = Pin<Box<dyn Future<Output = Result<Socket, BoxError>> + Send>>;

    fn poll_ready(&mut self, context: &mut Context<'_>) -> Poll<Result<(), BoxError>> {
        self.0.poll_ready(context).map_err(Into::into)
    }

    fn call(&mut self, server: Uri) -> Self::Future {
        let connecting = self.0.call(server);
        Box::pin(async move {
            let stream = connecting.await?.into_inner();
            Ok(Socket(TokioIo::new(BufReader::with_capacity(READ_BUFFER, stream))))
        })
    }
}

/// One connection.
pub(super) struct Socket(TokioIo<BufReader<TcpStream>>);

impl Connection for Socket {
    fn connected(&self) -> Connected {
        self.0.inner().get_ref().connected()
    }
}

impl Read for Socket {
    fn poll_read(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        buffer: ReadBufCursor<'_>,
    ) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_read(context, buffer)
    }
}

impl Write for Socket {
    fn poll_write(mut self: Pin<&mut Self>, context: &mut Context<'_>, data: &[u8]) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write(context, data)
    }

    fn poll_flush(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_flush(context)
    }

    fn poll_shutdown(mut self: Pin<&mut Self>, context: &mut Context<'_>) -> Poll<io::Result<()>> {
        Pin::new(&mut self.0).poll_shutdown(context)
    }

    fn is_write_vectored(&self) -> bool {
        self.0.is_write_vectored()
    }

    fn poll_write_vectored(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
        data: &[io::IoSlice<'_>],
    ) -> Poll<io::Result<usize>> {
        Pin::new(&mut self.0).poll_write_vectored(context, data)
    }
}
