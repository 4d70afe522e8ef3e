//! Accepting and serving HTTP/1 connections, bounded in number, age and idle time.

use std::convert::Infallible;
use std::io;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use http::Request;
use hyper::body::Incoming;
use hyper::server::conn::http1;
use hyper::service::service_fn;
use hyper_util::rt::{TokioIo, TokioTimer};
use tokio::net::{TcpListener, TcpStream};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio::task::JoinSet;
use tokio_util::sync::CancellationToken;

use super::{Answer, address};

/// Connections served at a time; others wait in the kernel's queue.
pub(super) const CONNECTIONS: usize = 64;
/// How long the head of a request may take, which is also how long an idle connection is kept.
const HEAD_TIMEOUT: Duration = Duration::from_secs(30);
/// How long a connection lives, so that one that never reads its answer does not hold its place for ever.
const CONNECTION_AGE: Duration = Duration::from_mins(5);
/// How long the answers under way may take when a connection is to end.
const GRACE: Duration = Duration::from_secs(5);
/// The pause after a failed accept: usually no file descriptor is free.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// An address that is listened on; connections wait in the kernel until [`Listener::serve`].
#[derive(Debug)]
pub struct Listener {
    listener: TcpListener,
    address: SocketAddr,
}

impl Listener {
    /// Takes the address, `host:port` as Go takes it: `:8080` means all interfaces, port 0 any free one.
    pub async fn bind(address: &str) -> io::Result<Self> {
        let listener = address::listen(address).await?;
        let address = listener.local_addr()?;
        Ok(Self { listener, address })
    }

    /// Where it listens, with the port it was given for port 0.
    pub fn local_address(&self) -> SocketAddr {
        self.address
    }

    /// Answers every request with `answer` until `shutdown`, then lets the answers under way end, for at most some seconds.
    ///
    /// An answer that its peer does not wait for is dropped.
    pub async fn serve<F, A>(self, shutdown: CancellationToken, answer: F)
    where
        F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
        A: Future<Output = Answer> + Send + 'static,
    {
        let answer = Arc::new(answer);
        let places = Arc::new(Semaphore::new(CONNECTIONS));
        let mut connections = JoinSet::new();
        loop {
            let (stream, place) = tokio::select! {
                () = shutdown.cancelled() => break,
                // Ended connections are collected as they end, so the set does not grow.
                Some(_) = connections.join_next() => continue,
                accepted = self.accept(&places) => accepted,
            };
            connections.spawn(serve(stream, place, Arc::clone(&answer), shutdown.clone()));
        }
        while connections.join_next().await.is_some() {}
    }

    /// The next connection, once there is a place for it.
    async fn accept(&self, places: &Arc<Semaphore>) -> (TcpStream, Option<OwnedSemaphorePermit>) {
        // The semaphore is never closed, so there always is a permit.
        let place = Arc::clone(places).acquire_owned().await.ok();
        loop {
            match self.listener.accept().await {
                Ok((stream, _)) => return (stream, place),
                Err(error) => {
                    tracing::warn!(%error, address = %self.address, "Cannot accept a connection");
                    tokio::time::sleep(ACCEPT_PAUSE).await;
                }
            }
        }
    }
}

async fn serve<F, A>(
    stream: TcpStream,
    place: Option<OwnedSemaphorePermit>,
    answer: Arc<F>,
    shutdown: CancellationToken,
) where
    F: Fn(Request<Incoming>) -> A + Send + Sync + 'static,
    A: Future<Output = Answer> + Send + 'static,
{
    let service = service_fn(move |request: Request<Incoming>| {
        let answer = answer(request);
        async move { Ok::<_, Infallible>(answer.await) }
    });
    let connection = http1::Builder::new()
        .timer(TokioTimer::new())
        .header_read_timeout(HEAD_TIMEOUT)
        .serve_connection(TokioIo::new(stream), service);
    let mut connection = std::pin::pin!(connection);
    // What a peer does to its connection is its own business: errors are not reported.
    tokio::select! {
        _ = connection.as_mut() => {}
        () = end_of_connection(&shutdown) => {
            connection.as_mut().graceful_shutdown();
            let _ = tokio::time::timeout(GRACE, connection).await;
        }
    }
    drop(place);
}

async fn end_of_connection(shutdown: &CancellationToken) {
    tokio::select! {
        () = shutdown.cancelled() => {}
        () = tokio::time::sleep(CONNECTION_AGE) => {}
    }
}
