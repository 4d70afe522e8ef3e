//! Waiting out an overloaded API server: it says how long, and that it has not looked at the request.
//!
//! For requests of a leader term, above the client-side limiter (each resend takes its turn again) and below the gate (asked
//! before each resend, see [`Gate::client`](crate::Gate::client)), and for informers. Not for leases, whose renewal has a deadline
//! of its own.

use std::time::Duration;

use http::header::RETRY_AFTER;
use http::{HeaderMap, Request, Response, StatusCode};
use http_body_util::BodyExt as _;
use kube::client::Body;
use tokio::time::{Instant, sleep};
use tower::BoxError;

use super::{AnswerBody, ApiServer};
use crate::jitter::random;

/// How long after its first sending a request may be sent again. After that the refusal is the caller's.
const PATIENCE: Duration = Duration::from_secs(30);
/// The least pause, for a server that asks for none.
const LEAST: Duration = Duration::from_secs(1);

/// Sends `request`, again and again while the answer is 429 or 503 with a `Retry-After`, for up to 30 s.
///
/// The pause is as long as the server asks, and up to a quarter more. A write is sent again as well: 429 is given before
/// the request is looked at. A 503 may come later; every writer has to bear that its request was carried out without an
/// answer anyhow.
pub(crate) async fn send(server: ApiServer, mut request: Request<Body>) -> Result<Response<AnswerBody>, BoxError> {
    let begun = Instant::now();
    loop {
        let again = copy(&request);
        let answer = server.send(request).await?;
        let (Some(asked), Some(again)) = (pause_asked(&answer), again) else { return Ok(answer) };
        let pause = asked.max(LEAST).mul_f64(1.0 + random() / 4.0);
        if begun.elapsed() + pause > PATIENCE {
            return Ok(answer);
        }
        tracing::debug!(
            method = %again.method(), path = again.uri().path(), status = answer.status().as_u16(), ?pause,
            "the API server is overloaded and asks to wait"
        );
        // Read to its end the answer leaves its connection for the next request.
        let _ = answer.into_body().collect().await;
        sleep(pause).await;
        request = again;
    }
}

fn pause_asked(answer: &Response<AnswerBody>) -> Option<Duration> {
    match answer.status() {
        StatusCode::TOO_MANY_REQUESTS | StatusCode::SERVICE_UNAVAILABLE => retry_after(answer.headers()),
        _ => None,
    }
}

/// What `Retry-After` says, in the one form the API server uses: whole seconds.
fn retry_after(headers: &HeaderMap) -> Option<Duration> {
    let seconds: u32 = headers.get(RETRY_AFTER)?.to_str().ok()?.trim().parse().ok()?;
    Some(Duration::from_secs(seconds.into()))
}

/// The same request once more; none when its body is a stream.
fn copy(request: &Request<Body>) -> Option<Request<Body>> {
    let mut copy = Request::new(request.body().try_clone()?);
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    Some(copy)
}

#[cfg(test)]
mod tests;
