//! What the driver itself answered to one call.
//!
//! The gRPC library mixes the driver's statuses with those it makes up when an answer is missing or unreadable. For volumes the
//! difference is whether work may still be going on, so the status is read here, from the headers and trailers as they pass.

use std::pin::Pin;
use std::sync::Arc;
use std::task::{Context, Poll, ready};

use bytes::Bytes;
use http::HeaderMap;
use http_body::{Body, Frame, SizeHint};
use hyper::body::Incoming;
use parking_lot::Mutex;
use tonic::{Code, Status};

use crate::status_text::transport_status;

/// Notes on one call.
#[derive(Default)]
pub(crate) struct Answer(Mutex<Notes>);

#[derive(Default, Clone)]
pub(crate) struct Notes {
    /// The error status the driver sent.
    pub(crate) status: Option<(Code, String)>,
    /// The connection was gone before the request was handed to it.
    pub(crate) unsent: bool,
}

impl Answer {
    pub(crate) fn notes(&self) -> Notes {
        self.0.lock().clone()
    }

    pub(crate) fn not_sent(&self) {
        self.0.lock().unsent = true;
    }

    /// Notes the status in headers or trailers.
    ///
    /// Removes the details, which nothing here reads and on which the library panics when they are not base64.
    pub(crate) fn read(&self, headers: &mut HeaderMap) {
        headers.remove("grpc-status-details-bin");
        let Some(code) = headers.get("grpc-status").map(|value| Code::from_bytes(value.as_bytes())) else { return };
        if code != Code::Ok {
            let message =
                headers.get("grpc-message").map(|value| percent_decoded(value.as_bytes())).unwrap_or_default();
            self.0.lock().status = Some((code, message));
        }
    }
}

/// `%XX` to bytes, then text. What is no valid escape or no UTF-8 is kept as well as it can be: a spoilt message must not cost the code.
fn percent_decoded(text: &[u8]) -> String {
    let mut bytes = Vec::with_capacity(text.len());
    let mut rest = text;
    while let Some((&first, tail)) = rest.split_first() {
        let byte;
        (rest, byte) = match tail {
            [high, low, after @ ..] if first == b'%' => match (hex(*high), hex(*low)) {
                (Some(high), Some(low)) => (after, high << 4 | low),
                _ => (tail, first),
            },
            _ => (tail, first),
        };
        bytes.push(byte);
    }
    String::from_utf8_lossy(&bytes).into_owned()
}

fn hex(digit: u8) -> Option<u8> {
    char::from(digit).to_digit(16).and_then(|value| u8::try_from(value).ok())
}

/// The response body, watched for its trailers and with the errors of the connection as statuses.
pub(crate) struct AnswerBody {
    body: Incoming,
    answer: Arc<Answer>,
}

impl AnswerBody {
    pub(crate) fn new(body: Incoming, answer: Arc<Answer>) -> Self {
        Self { body, answer }
    }
}

impl Body for AnswerBody {
    type Data = Bytes;
    type Error = Status;

    fn poll_frame(mut self: Pin<&mut Self>, cx: &mut Context<'_>) -> Poll<Option<Result<Frame<Bytes>, Status>>> {
        match ready!(Pin::new(&mut self.body).poll_frame(cx)) {
            Some(Ok(mut frame)) => {
                if let Some(trailers) = frame.trailers_mut() {
                    self.answer.read(trailers);
                }
                Poll::Ready(Some(Ok(frame)))
            }
            Some(Err(error)) => Poll::Ready(Some(Err(transport_status(&error)))),
            None => Poll::Ready(None),
        }
    }

    fn is_end_stream(&self) -> bool {
        self.body.is_end_stream()
    }

    fn size_hint(&self) -> SizeHint {
        self.body.size_hint()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use http::HeaderValue;

    use super::*;

    fn status(code: &'static str, message: &'static str) -> Option<(Code, String)> {
        let mut headers = HeaderMap::new();
        headers.insert("grpc-status", HeaderValue::from_static(code));
        headers.insert("grpc-message", HeaderValue::from_static(message));
        headers.insert("grpc-status-details-bin", HeaderValue::from_static("!not base64!"));
        let answer = Answer::default();
        answer.read(&mut headers);
        assert!(headers.get("grpc-status-details-bin").is_none());
        answer.notes().status
    }

    #[test]
    fn the_status_keeps_its_code_whatever_the_message_is() {
        let table = [
            ("10", "in%20progress", "in progress"),
            ("10", "100%", "100%"),
            ("10", "%zz%+4%4", "%zz%+4%4"),
            ("10", "%C3%A4", "ä"),
            ("10", "%FF", "\u{fffd}"),
            ("10", "", ""),
        ];
        for (code, message, text) in table {
            assert_eq!(status(code, message), Some((Code::Aborted, text.to_owned())), "{message}");
        }
        assert_eq!(status("99", "x"), Some((Code::Unknown, "x".to_owned())));
        assert_eq!(status("0", "x"), None);
    }
}
