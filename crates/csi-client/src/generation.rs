//! One accepted socket: a generation of the connection to the driver.
//!
//! HTTP/2 is spoken by hyper on this one stream; there is no reconnect inside, so a call can never slip onto a connection that
//! has not passed its handshake. Without keepalive pings: the end of a Unix socket is seen at once, a driver that hangs is
//! bounded by the call deadline, and Go servers close connections that ping more often than every five minutes.
//! A generation that was replaced closes when its last call ends.
//!
//! Head and body of a call leave in one write ([`Gathered`]), which is the one the fence stands before.

pub(crate) mod answer;
mod fence;
mod socket_tasks;

use std::future::poll_fn;
use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::task::{Context, Poll};

use gathered_writes::Gathered;
use http::header::USER_AGENT;
use http::{HeaderValue, Request, Response};
use hyper::client::conn::http2::{Builder, SendRequest};
use hyper_util::rt::TokioIo;
use tokio::io::{AsyncRead, AsyncWrite};
use tokio::sync::{OwnedSemaphorePermit, Semaphore};
use tokio_util::sync::CancellationToken;
use tonic::Status;
use tonic::body::Body;

use crate::Admission;
use crate::connection::socket_file::SocketFile;
use crate::status_text::transport_status;
use answer::{Answer, AnswerBody};
use fence::{Fence, FencedBody, FencedStream};
pub use socket_tasks::{SocketExecutor, SocketTasks};

const USER_AGENT_VALUE: HeaderValue = HeaderValue::from_static(concat!("outrigger/", env!("CARGO_PKG_VERSION")));

/// An HTTP/2 connection on one socket.
pub(crate) struct Generation {
    number: u64,
    file: SocketFile,
    sender: SendRequest<FencedBody<Body>>,
    fence: Arc<Fence>,
    /// Streams the driver allows at once, as last heard. Read once, when calls start to pass.
    allowed: Arc<AtomicUsize>,
    streams: Arc<Semaphore>,
    ended: CancellationToken,
}

impl Generation {
    /// Starts HTTP/2 on the stream. Its tasks belong to `tasks`. Says nothing yet about the driver: not even the preface has
    /// left.
    pub(crate) async fn open<S>(number: u64, stream: S, file: SocketFile, tasks: &SocketTasks) -> hyper::Result<Self>
    where
        S: AsyncRead + AsyncWrite + Unpin + Send + 'static,
    {
        let fence = Arc::<Fence>::default();
        let stream = Gathered::new(TokioIo::new(FencedStream { stream, fence: fence.clone() }));
        let (sender, mut connection) = Builder::new(tasks.executor()).handshake(stream).await?;
        let allowed = Arc::new(AtomicUsize::new(connection.current_max_send_streams()));
        let ended = CancellationToken::new();
        let (heard, end) = (allowed.clone(), ended.clone());
        tasks.spawn(async move {
            let _end = end.drop_guard();
            let outcome = poll_fn(|cx| {
                let state = Pin::new(&mut connection).poll(cx);
                heard.store(connection.current_max_send_streams(), Ordering::Relaxed);
                state
            });
            if let Err(error) = outcome.await {
                tracing::debug!(generation = number, %error, "connection to the CSI driver broke");
            }
        });
        Ok(Self { number, file, sender, fence, allowed, streams: Arc::new(Semaphore::new(0)), ended })
    }

    /// The order of this connection among all that were opened, from 1.
    pub(crate) fn number(&self) -> u64 {
        self.number
    }

    /// The socket file that was dialled.
    pub(crate) fn file(&self) -> &SocketFile {
        &self.file
    }

    /// Lets calls pass, as many at once as the driver allows streams.
    ///
    /// More would queue behind the driver's limit after they were admitted, and be sent later than the admission is worth.
    pub(crate) fn let_calls_pass(&self) {
        self.streams.add_permits(self.allowed.load(Ordering::Relaxed).min(Semaphore::MAX_PERMITS));
    }

    /// A place among the calls in flight; `None` when the connection ended first.
    pub(crate) async fn place(&self) -> Option<OwnedSemaphorePermit> {
        tokio::select! {
            biased;
            () = self.ended.cancelled() => None,
            place = self.streams.clone().acquire_owned() => place.ok(),
        }
    }

    pub(crate) fn has_ended(&self) -> bool {
        self.ended.is_cancelled()
    }

    pub(crate) async fn ended(&self) {
        self.ended.cancelled().await;
    }

    /// The gRPC transport of one call, which notes what the driver answered. `admission`: asked again when the request is
    /// written.
    pub(crate) fn transport(&self, answer: Arc<Answer>, admission: Option<Arc<dyn Admission>>) -> Transport {
        Transport { sender: self.sender.clone(), fence: self.fence.clone(), admission, answer }
    }
}

/// Carries one call.
pub(crate) struct Transport {
    sender: SendRequest<FencedBody<Body>>,
    fence: Arc<Fence>,
    admission: Option<Arc<dyn Admission>>,
    answer: Arc<Answer>,
}

impl tower::Service<Request<Body>> for Transport {
    type Response = Response<AnswerBody>;
    type Error = Status;
    type Future = Pin<Box<dyn Future<Output = Result<Self::Response, Status>> + Send>>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Status>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: Request<Body>) -> Self::Future {
        request.headers_mut().insert(USER_AGENT, USER_AGENT_VALUE);
        let (fence, admission) = (self.fence.clone(), self.admission.clone());
        let sent = self.sender.try_send_request(request.map(|body| FencedBody { body, fence, admission }));
        let answer = self.answer.clone();
        Box::pin(async move {
            match sent.await {
                Ok(mut response) => {
                    answer.read(response.headers_mut());
                    Ok(response.map(|body| AnswerBody::new(body, answer)))
                }
                Err(mut failed) => {
                    if failed.take_message().is_some() {
                        answer.not_sent();
                    }
                    Err(transport_status(failed.error()))
                }
            }
        })
    }
}

#[cfg(test)]
mod tests;
