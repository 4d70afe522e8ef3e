//! One unary call on one connection: deadline, transport, outcome.

use std::sync::Arc;
use std::time::Duration;

use csi_proto::Sanitize;
use http::Uri;
use http::uri::PathAndQuery;
use prost::Message;
use tokio::time::Instant;
use tonic::client::Grpc;
use tonic::{Code, Request, Status};
use tonic_prost::ProstCodec;

use crate::deadline::Deadline;
use crate::generation::Generation;
use crate::generation::answer::Answer;
use crate::status_text::{DEADLINE, unreadable};
use crate::{Address, Admission, CallError, CallMetrics, Denied, Rpc, observe};

/// What all calls to one driver have in common.
pub(crate) struct Caller {
    pub(crate) address: Address,
    pub(crate) timeout: Duration,
    pub(crate) metrics: CallMetrics,
}

impl Caller {
    /// Sends the request and waits for its answer, at most as long as the timeout. Dropped, it resets the stream.
    /// `migrated`: for the label of that name.
    pub(crate) async fn unary<Req, Resp>(
        &self,
        generation: &Generation,
        method: &'static str,
        migrated: bool,
        request: Req,
    ) -> Result<Resp, CallError>
    where
        Req: Message + Sanitize + 'static,
        Resp: Message + Sanitize + Default + 'static,
    {
        observe::request(method, &request);
        self.counted(generation, method, migrated, request, None).await
    }

    /// The same, if `condition` lets it pass when it is about to be sent. Asked after the log line, whose write may take any
    /// time; nothing is awaited between it and the sending. `term` is asked again when the request is written to the socket.
    pub(crate) async fn admitted<Req, Resp>(
        &self,
        generation: &Generation,
        method: &'static str,
        migrated: bool,
        request: Req,
        condition: &dyn Admission,
        term: Arc<dyn Admission>,
    ) -> Result<Resp, CallError>
    where
        Req: Message + Sanitize + 'static,
        Resp: Message + Sanitize + Default + 'static,
    {
        observe::request(method, &request);
        condition.admit().map_err(|Denied(reason)| CallError::Denied { method, reason })?;
        self.counted(generation, method, migrated, request, Some(term)).await
    }

    async fn counted<Req, Resp>(
        &self,
        generation: &Generation,
        method: &'static str,
        migrated: bool,
        request: Req,
        term: Option<Arc<dyn Admission>>,
    ) -> Result<Resp, CallError>
    where
        Req: Message + Sanitize + 'static,
        Resp: Message + Sanitize + Default + 'static,
    {
        let started = Instant::now();
        let outcome = self.send(generation, method, request, term).await;
        observe::response(&self.metrics, method, migrated, &outcome, started.elapsed());
        outcome
    }

    async fn send<Req, Resp>(
        &self,
        generation: &Generation,
        method: &'static str,
        request: Req,
        term: Option<Arc<dyn Admission>>,
    ) -> Result<Resp, CallError>
    where
        Req: Message + 'static,
        Resp: Message + Default + 'static,
    {
        let answer = Arc::new(Answer::default());
        let grpc = Grpc::with_origin(generation.transport(answer.clone(), term), Uri::from_static("http://localhost"));
        let mut grpc = grpc.max_decoding_message_size(longest_answer(method));
        let mut request = Request::new(request);
        request.set_timeout(self.timeout);
        let codec = ProstCodec::<Req, Resp>::default();
        let deadline = Deadline::after(self.timeout);
        match deadline.bound(grpc.unary(request, PathAndQuery::from_static(method), codec)).await {
            Some(Ok(response)) => Ok(response.into_inner()),
            Some(Err(status)) => Err(self.failure(method, &answer, deadline, &status)),
            None => Err(deadline_exceeded(method)),
        }
    }

    fn failure(&self, method: &'static str, answer: &Answer, deadline: Deadline, made_here: &Status) -> CallError {
        let notes = answer.notes();
        match notes.status {
            Some((code, _)) if deadline.explains(code) => deadline_exceeded(method),
            Some((code, message)) => CallError::Status { method, code, message },
            None if notes.unsent => CallError::NotConnected {
                method,
                address: self.address.clone(),
                waited: Duration::ZERO,
                reason: "the connection was lost before the request was sent".to_owned(),
            },
            None => {
                let (code, message) = unreadable(made_here);
                CallError::Unanswered { method, code, message }
            }
        }
    }
}

/// Bytes of an answer. As in a Go client, but for a listing: there are drivers that give all their volumes in one page
/// however many were asked for.
fn longest_answer(method: &str) -> usize {
    const MIB: usize = 1024 * 1024;
    if method == Rpc::ListVolumes.method() { 64 * MIB } else { 4 * MIB }
}

fn deadline_exceeded(method: &'static str) -> CallError {
    CallError::Unanswered { method, code: Code::DeadlineExceeded, message: DEADLINE.to_owned() }
}
