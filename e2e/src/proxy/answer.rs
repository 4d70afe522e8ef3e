//! The body of an answer, which may be a watch that lives for minutes and is kept back in the middle.

use std::{
    pin::Pin,
    sync::Arc,
    task::{Context, Poll, ready},
};

use bytes::Bytes;
use http_body::{Body as HttpBody, Frame, SizeHint};
use kube::client::Body;

use super::{State, request::Request};

type Waiting = Pin<Box<dyn Future<Output = ()> + Send>>;

pub(super) struct Answer {
    body: Body,
    request: Request,
    state: Arc<State>,
    waiting: Option<Waiting>,
}

impl Answer {
    pub(super) fn new(body: Body, request: Request, state: Arc<State>) -> Self {
        Self { body, request, state, waiting: None }
    }
}

impl HttpBody for Answer {
    type Data = Bytes;
    type Error = kube::Error;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<Result<Frame<Bytes>, Self::Error>>> {
        loop {
            if let Some(waiting) = &mut self.waiting {
                ready!(waiting.as_mut().poll(context));
                self.waiting = None;
            }
            if !self.state.rules.holds_answer(&self.request) {
                return Pin::new(&mut self.body).poll_frame(context);
            }
            self.waiting = Some(Box::pin(self.state.rules.answer_free(self.request.clone())));
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}
