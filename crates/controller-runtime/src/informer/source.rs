//! The requests an informer makes: pages of a list and lines of a watch, as bytes.
//!
//! `Api::list` and `Api::watch` decode everything into the type at once; here each object has to be decoded on its own.

use std::fmt;
use std::time::Duration;

use bytes::Bytes;
use http_body_util::BodyExt;
use kube::api::{ListParams, WatchParams};
use kube::client::Body;
use kube::core::{Request, Status};
use kube::{Api, Client, Resource};
use memchr::memchr;
use tokio::time::timeout;

use super::decode;
use super::failure::Failure;
use crate::kube_client::overload;

/// Objects per page.
const PAGE: u32 = 500;
/// From request to the last byte of a page.
const PAGE_TIMEOUT: Duration = Duration::from_mins(1);
/// A page of the largest objects etcd takes (1.5 MiB) would be larger; a page of this size is no longer reasonable.
const PAGE_BYTES: usize = 256 << 20;
/// From request to the response headers of a watch.
const OPEN_TIMEOUT: Duration = Duration::from_secs(30);
/// The longest line of a watch; an object is smaller than etcd's request limit, which is 1.5 MiB by default.
const LINE_BYTES: usize = 16 << 20;
/// Bytes of an error answer that are read.
const ERROR_BYTES: usize = 64 << 10;

/// One collection at the API server.
#[derive(Clone)]
pub(super) struct Source {
    client: Client,
    request: Request,
    metadata_only: bool,
    /// Which objects of the collection; `None`: all.
    labels: Option<String>,
    /// For messages, such as `persistentvolumes` or `volumeattachments.storage.k8s.io`.
    resource: String,
}

/// Where a watch begins.
#[derive(Clone, Copy, Debug)]
pub(super) enum From {
    /// With all objects there are, as the server sees them at this moment.
    List,
    /// After this version.
    Version(u64),
}

impl Source {
    pub(super) fn new<K: Resource<DynamicType = ()>>(api: Api<K>) -> Self {
        let path = api.resource_url().to_owned();
        Self::of::<K>(api.into_client(), path, None)
    }

    /// Those objects of the collection at `path` that a label selector selects.
    pub(super) fn labelled<K: Resource<DynamicType = ()>>(client: &Client, path: &str, labels: &str) -> Self {
        Self::of::<K>(client.clone(), path.to_owned(), Some(labels.to_owned()))
    }

    fn of<K: Resource<DynamicType = ()>>(client: Client, path: String, labels: Option<String>) -> Self {
        let group = K::group(&());
        let plural = K::plural(&());
        Self {
            request: Request::new(path),
            client,
            metadata_only: K::metadata_api(),
            labels,
            resource: if group.is_empty() { plural.into_owned() } else { format!("{plural}.{group}") },
        }
    }

    /// One page of a list that is at least as new as everything the server has confirmed before this call.
    pub(super) async fn page(&self, more: Option<&str>) -> Result<Bytes, Failure> {
        let params = ListParams { continue_token: more.map(str::to_owned), ..self.list_params(PAGE) };
        self.list(&params).await
    }

    /// The version of the collection, as of this call.
    pub(super) async fn live_version(&self) -> Result<u64, Failure> {
        let body = self.list(&self.list_params(1)).await?;
        decode::page(&body).map(|page| page.version)
    }

    fn list_params(&self, limit: u32) -> ListParams {
        ListParams { label_selector: self.labels.clone(), ..ListParams::default().limit(limit) }
    }

    async fn list(&self, params: &ListParams) -> Result<Bytes, Failure> {
        let request = if self.metadata_only { self.request.list_metadata(params) } else { self.request.list(params) };
        let request = request.map_err(Failure::Request)?;
        let answer = async {
            let body = self.send(request).await?;
            collect(body, PAGE_BYTES).await?.ok_or(Failure::PageTooLarge(PAGE_BYTES))
        };
        timeout(PAGE_TIMEOUT, answer).await.unwrap_or(Err(Failure::NoAnswer(PAGE_TIMEOUT)))
    }

    /// Opens a watch that the server ends after `length`.
    pub(super) async fn watch(&self, from: From, length: Duration) -> Result<Lines, Failure> {
        let params = WatchParams {
            timeout: Some(u32::try_from(length.as_secs()).unwrap_or(u32::MAX)),
            bookmarks: true,
            send_initial_events: matches!(from, From::List),
            label_selector: self.labels.clone(),
            ..WatchParams::default()
        };
        let version = match from {
            // No version asks for a consistent read; "0" would allow a server that lags behind to answer.
            From::List => String::new(),
            From::Version(version) => version.to_string(),
        };
        let request = if self.metadata_only {
            self.request.watch_metadata(&params, &version)
        } else {
            self.request.watch(&params, &version)
        };
        let mut request = request.map_err(Failure::Request)?;
        // From 1.37 the server compresses each event by itself, which stream decoders take for the end.
        request.headers_mut().insert(http::header::ACCEPT_ENCODING, http::HeaderValue::from_static("identity"));
        let body = timeout(OPEN_TIMEOUT, self.send(request)).await.unwrap_or(Err(Failure::NoAnswer(OPEN_TIMEOUT)))?;
        Ok(Lines::new(body))
    }

    async fn send(&self, request: http::Request<Vec<u8>>) -> Result<Body, Failure> {
        let response = self.client.send(request.map(Body::from)).await.map_err(Failure::Transport)?;
        let code = response.status();
        let retry_after = overload::retry_after(response.headers());
        let body = response.into_body();
        if !code.is_client_error() && !code.is_server_error() {
            return Ok(body);
        }
        let text = collect(body, ERROR_BYTES).await?.unwrap_or_default();
        let status = match serde_json::from_slice::<Status>(&text) {
            Ok(status) if !status.message.is_empty() || !status.reason.is_empty() => status,
            // A proxy's answer, for example.
            Ok(_) | Err(_) => {
                let text: String = String::from_utf8_lossy(&text).chars().take(200).collect();
                Status::failure(text.trim(), code.canonical_reason().unwrap_or(""))
            }
        };
        Err(Failure::refused(status.with_code(code.as_u16()), retry_after))
    }
}

impl fmt::Display for Source {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.resource)
    }
}

/// The whole body, or `None` when it is longer than `limit`.
async fn collect(mut body: Body, limit: usize) -> Result<Option<Bytes>, Failure> {
    let mut whole = Vec::new();
    while let Some(frame) = body.frame().await {
        if let Ok(data) = frame.map_err(Failure::BrokenOff)?.into_data() {
            if whole.len() + data.len() > limit {
                return Ok(None);
            }
            whole.extend_from_slice(&data);
        }
    }
    Ok(Some(Bytes::from(whole)))
}

/// The lines of a body.
pub(super) struct Lines {
    body: Body,
    /// Bytes received and not yet handed out are `buffer[start..]`; of them, `start..searched` hold no line end.
    buffer: Vec<u8>,
    start: usize,
    searched: usize,
}

impl Lines {
    /// A larger buffer is given back as soon as it is empty.
    const KEEP: usize = 64 << 10;

    fn new(body: Body) -> Self {
        Self { body, buffer: Vec::new(), start: 0, searched: 0 }
    }

    /// The next complete line, without its end; `None` at the end of the body. What the body ends with after its last line
    /// end is a line cut off, and dropped. Dropping the future loses nothing.
    pub(super) async fn next(&mut self) -> Result<Option<&[u8]>, Failure> {
        loop {
            if let Some(at) = memchr(b'\n', &self.buffer[self.searched..]) {
                let (start, end) = (self.start, self.searched + at);
                self.start = end + 1;
                self.searched = self.start;
                if start == end {
                    continue;
                }
                return Ok(Some(&self.buffer[start..end]));
            }
            self.searched = self.buffer.len();
            if self.searched - self.start > LINE_BYTES {
                return Err(Failure::LineTooLong(LINE_BYTES));
            }
            let Some(frame) = self.body.frame().await else {
                return Ok(None);
            };
            if let Ok(data) = frame.map_err(Failure::BrokenOff)?.into_data() {
                self.refill(&data);
            }
        }
    }

    fn refill(&mut self, data: &[u8]) {
        if self.start == self.buffer.len() {
            if self.buffer.capacity() > Self::KEEP {
                self.buffer = Vec::new();
            } else {
                self.buffer.clear();
            }
        } else {
            self.buffer.drain(..self.start);
        }
        self.searched -= self.start;
        self.start = 0;
        self.buffer.extend_from_slice(data);
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

    use std::collections::VecDeque;
    use std::convert::Infallible;

    use futures_util::StreamExt as _;
    use http_body::Frame;
    use http_body_util::StreamBody;
    use tower::service_fn;

    use super::*;

    /// Lines whose body arrives in these pieces.
    async fn lines(pieces: &[&str]) -> Lines {
        lines_apart(pieces, Duration::ZERO).await
    }

    /// Lines whose body arrives in these pieces, each so long after the one before.
    async fn lines_apart(pieces: &[&str], apart: Duration) -> Lines {
        let pieces: VecDeque<Bytes> = pieces.iter().map(|piece| Bytes::copy_from_slice(piece.as_bytes())).collect();
        let service = service_fn(move |_: http::Request<Body>| {
            let pieces = pieces.clone();
            async move {
                let frames = futures_util::stream::iter(pieces).then(move |piece| async move {
                    if !apart.is_zero() {
                        tokio::time::sleep(apart).await;
                    }
                    Ok::<_, Infallible>(Frame::data(piece))
                });
                let body = StreamBody::new(Box::pin(frames));
                Ok::<_, Infallible>(http::Response::new(body))
            }
        });
        let client = Client::new(service, "default");
        let api = Api::<k8s_openapi::api::core::v1::PersistentVolume>::all(client);
        Source::new(api).watch(From::List, Duration::from_secs(1)).await.unwrap()
    }

    async fn all(pieces: &[&str]) -> Vec<String> {
        let mut lines = lines(pieces).await;
        let mut all = Vec::new();
        while let Some(line) = lines.next().await.unwrap() {
            all.push(String::from_utf8(line.to_vec()).unwrap());
        }
        all
    }

    #[tokio::test]
    async fn lines_do_not_depend_on_how_the_bytes_arrive() {
        let text = "first\n\nsecond, longer\nthird\n";
        let expected = ["first", "second, longer", "third"];
        assert_eq!(all(&[text]).await, expected);
        for size in 1..text.len() {
            let pieces: Vec<&str> =
                text.as_bytes().chunks(size).map(|piece| std::str::from_utf8(piece).unwrap()).collect();
            assert_eq!(all(&pieces).await, expected, "in pieces of {size}");
        }
    }

    #[tokio::test(start_paused = true)]
    async fn lines_that_come_slowly_all_come() {
        let mut lines = lines_apart(&["fir", "st\n", "second\n"], Duration::from_secs(1)).await;
        assert_eq!(lines.next().await.unwrap().unwrap(), b"first");
        assert_eq!(lines.next().await.unwrap().unwrap(), b"second");
        assert!(lines.next().await.unwrap().is_none());
    }

    #[tokio::test]
    async fn a_line_cut_off_by_the_end_is_dropped() {
        assert_eq!(all(&["whole\nhal"]).await, ["whole"]);
        assert_eq!(all(&[]).await, [""; 0]);
    }

    #[tokio::test]
    async fn an_endless_line_is_refused() {
        let piece = "x".repeat(1 << 20);
        let pieces = vec![piece.as_str(); 20];
        let mut lines = lines(&pieces).await;
        assert!(matches!(lines.next().await, Err(Failure::LineTooLong(_))));
    }

    #[tokio::test]
    async fn the_buffer_of_a_long_line_is_given_back() {
        let long = format!("{}\n", "x".repeat(1 << 20));
        let mut lines = lines(&[&long, "short\n"]).await;
        assert_eq!(lines.next().await.unwrap().unwrap().len(), 1 << 20);
        assert_eq!(lines.next().await.unwrap().unwrap(), b"short");
        assert!(lines.buffer.capacity() < 1 << 10);
    }
}
