//! A faulty way to the API server: an HTTP proxy on loopback between one replica and a cluster.
//!
//! A replica gets the proxy's [`kubeconfig`](Proxy::kubeconfig), with the token of its own account, which is passed on.
//! It is spoken to as by an API server, over TLS and HTTP/2: a request that is cut off loses its stream, not the
//! connection of all others. [`fault`](Proxy::fault) makes chosen requests slow, refused or lost until its handle is
//! dropped, [`black_hole`](Proxy::black_hole) makes the whole link silent, [`cut`](Proxy::cut) resets its connections.
//! [`exchanges`](Proxy::exchanges) tells what was asked and when, [`terms`](Proxy::terms) when its replica led.
//!
//! Everything runs on the caller's runtime and ends when the proxy is dropped.

mod answer;
mod link;
mod request;
mod rules;
mod tls;

use std::{
    net::Ipv4Addr,
    path::{Path, PathBuf},
    sync::Arc,
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use bytes::Bytes;
use csi_client::SocketTasks;
use http::{Response, StatusCode, Version, header};
use http_body_util::{BodyExt as _, Full, Limited, combinators::UnsyncBoxBody};
use hyper::{body::Incoming, server::conn::http2, service::service_fn};
use hyper_util::rt::TokioIo;
use kube::{
    client::Body,
    config::{AuthInfo, KubeConfigOptions, Kubeconfig},
};
use parking_lot::Mutex;
use serde_json::{Value, json};
use tempfile::TempDir;
use tokio::{
    net::{TcpListener, TcpStream},
    sync::{oneshot, watch},
    task::JoinSet,
};
use tokio_rustls::TlsAcceptor;
use tokio_util::sync::CancellationToken;

use self::{
    answer::Answer,
    link::{Link, Wire},
    rules::Rules,
};
pub use self::{
    request::Request,
    rules::{Fault, On},
};
use crate::{
    eventually::eventually,
    journal::{Moment, Term},
};

const MOST_CONNECTIONS: usize = 256;
const MOST_EXCHANGES: usize = 100_000;
/// The API server takes no larger ones either.
const LARGEST_REQUEST: usize = 3 << 20;

type Error = Box<dyn std::error::Error + Send + Sync>;
type Reply = Response<UnsyncBoxBody<Bytes, Error>>;

/// A running proxy for one replica.
#[derive(Debug)]
pub struct Proxy {
    state: Arc<State>,
    kubeconfig: PathBuf,
    _directory: TempDir,
    /// Dropped, it aborts what it runs, and the connections with it.
    _accepting: JoinSet<()>,
}

struct State {
    upstream: kube::Client,
    rules: Rules,
    link: watch::Sender<Link>,
    /// Cancelled and replaced to cut the connections there are.
    connections: Mutex<CancellationToken>,
    /// Requests that are carried out whether their sender waits or not.
    detached: Mutex<JoinSet<()>>,
    exchanges: Mutex<Vec<Exchange>>,
    accepted: watch::Sender<u64>,
}

impl std::fmt::Debug for State {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.debug_struct("State").field("rules", &self.rules).field("link", &self.link).finish_non_exhaustive()
    }
}

/// A request that arrived at the proxy.
#[derive(Clone, Debug)]
pub struct Exchange {
    /// What it asked for.
    pub request: Request,
    /// When it had arrived.
    pub received: Moment,
    /// When the answer of the API server began, or the one made up here.
    pub answered: Option<Moment>,
    /// Code of that answer.
    pub code: Option<u16>,
    /// For a write of a Lease: the holder it names, empty for a release.
    pub holder: Option<String>,
}

/// A fault that is on until this is dropped.
#[derive(Debug)]
pub struct Injected {
    state: Arc<State>,
    id: u64,
}

impl Injected {
    /// How many requests it has met.
    pub fn hits(&self) -> usize {
        self.state.rules.hits(self.id)
    }

    /// Waits until it has met a request.
    ///
    /// # Errors
    /// When it has not within `bound`.
    pub async fn met(&self, bound: Duration) -> Result<()> {
        eventually("a request that the fault is for", bound, async || Ok((self.hits() > 0).then_some(()))).await
    }
}

impl Drop for Injected {
    fn drop(&mut self) {
        self.state.rules.remove(self.id);
    }
}

impl Proxy {
    /// Starts one in front of the cluster that a kubeconfig names, for whoever would use that file.
    ///
    /// # Errors
    /// When the kubeconfig cannot be read or there is no port.
    pub async fn start(kubeconfig: &Path) -> Result<Self> {
        let mut file = Kubeconfig::read_from(kubeconfig)?;
        let mut config = kube::Config::from_custom_kubeconfig(file.clone(), &KubeConfigOptions::default()).await?;
        config.auth_info = AuthInfo::default();
        config.default_retry = false;
        let state = Arc::new(State {
            upstream: kube::Client::try_from(config)?,
            rules: Rules::new(),
            link: watch::Sender::default(),
            connections: Mutex::default(),
            detached: Mutex::default(),
            exchanges: Mutex::default(),
            accepted: watch::Sender::default(),
        });
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).await?;
        let directory = crate::temporary_directory("proxy")?;
        let identity = tls::identity()?;
        let authority = directory.path().join("ca.crt");
        std::fs::write(&authority, identity.authority).context("cannot write the authority of a proxy")?;
        for cluster in file.clusters.iter_mut().filter_map(|named| named.cluster.as_mut()) {
            cluster.server = Some(format!("https://{}", listener.local_addr()?));
            cluster.certificate_authority = Some(authority.to_string_lossy().into_owned());
            cluster.certificate_authority_data = None;
        }
        let kubeconfig = directory.path().join("kubeconfig");
        std::fs::write(&kubeconfig, serde_json::to_vec(&file)?).context("cannot write the kubeconfig of a proxy")?;
        let accepting = JoinSet::from_iter([accept(listener, identity.acceptor, Arc::clone(&state))]);
        Ok(Self { state, kubeconfig, _directory: directory, _accepting: accepting })
    }

    /// A kubeconfig whose server is this proxy.
    pub fn kubeconfig(&self) -> &Path {
        &self.kubeconfig
    }

    /// Makes requests suffer until the result is dropped. Of several faults the one that was made first counts.
    #[must_use = "dropping it ends the fault"]
    pub fn fault(&self, on: On, fault: Fault) -> Injected {
        Injected { id: self.state.rules.add(on, fault, None), state: Arc::clone(&self.state) }
    }

    /// The same, for that many requests at most.
    #[must_use = "dropping it ends the fault"]
    pub fn fault_times(&self, times: usize, on: On, fault: Fault) -> Injected {
        Injected { id: self.state.rules.add(on, fault, Some(times)), state: Arc::clone(&self.state) }
    }

    /// From now on nothing passes on any connection, and new ones are accepted and get no answer.
    pub fn black_hole(&self) {
        self.state.link.send_modify(|link| link.dark = true);
    }

    /// Ends the black hole. The connections from before go on where they were.
    pub fn heal(&self) {
        self.state.link.send_modify(|link| link.dark = false);
    }

    /// Ends the black hole for new connections; those from before stay silent for ever, as behind a gateway that has
    /// forgotten them.
    pub fn heal_new_connections(&self) {
        let first_alive = *self.state.accepted.borrow();
        self.state.link.send_modify(|link| *link = Link { dark: false, first_alive });
    }

    /// Resets all connections there are.
    pub fn cut(&self) {
        std::mem::take(&mut *self.state.connections.lock()).cancel();
    }

    /// What has arrived so far, oldest first.
    ///
    /// # Errors
    /// When it was more than is kept.
    pub fn exchanges(&self) -> Result<Vec<Exchange>> {
        let exchanges = self.state.exchanges.lock();
        if exchanges.len() >= MOST_EXCHANGES {
            bail!("more than {MOST_EXCHANGES} requests: the first of them do not tell the whole story");
        }
        Ok(exchanges.clone())
    }

    /// How many requests for a resource with a verb have arrived.
    ///
    /// # Errors
    /// As [`exchanges`](Self::exchanges).
    pub fn count(&self, verb: &str, resource: &str) -> Result<usize> {
        let matches = |it: &&Exchange| it.request.verb == verb && it.request.resource == resource;
        Ok(self.exchanges()?.iter().filter(matches).count())
    }

    /// When the replica behind this proxy may have worked: from each write of the Lease that names a holder, a renew
    /// deadline long, until a write that releases it. A write without answer may have been carried out and counts.
    ///
    /// # Errors
    /// As [`exchanges`](Self::exchanges).
    pub fn terms(&self, renew_deadline: Duration) -> Result<Vec<Term>> {
        let mut terms: Vec<Term> = Vec::new();
        for exchange in self.exchanges()? {
            let refused = exchange.code.is_some_and(|code| !(200..300).contains(&code));
            let Some(holder) = exchange.holder.filter(|_| !refused) else { continue };
            let at = exchange.received;
            match terms.last_mut().filter(|term| at <= term.end) {
                Some(last) if holder.is_empty() => last.end = at,
                Some(last) => last.end = at + renew_deadline,
                None if holder.is_empty() => {}
                None => terms.push(Term { start: at, end: at + renew_deadline }),
            }
        }
        Ok(terms)
    }
}

async fn accept(listener: TcpListener, acceptor: TlsAcceptor, state: Arc<State>) {
    let mut connections = JoinSet::new();
    loop {
        while connections.try_join_next().is_some() {}
        if connections.len() >= MOST_CONNECTIONS {
            connections.join_next().await;
        }
        let Ok((stream, _)) = listener.accept().await else { continue };
        let mut number = 0;
        state.accepted.send_modify(|accepted| {
            number = *accepted;
            *accepted += 1;
        });
        connections.spawn(serve(stream, number, acceptor.clone(), Arc::clone(&state)));
    }
}

async fn serve(stream: TcpStream, number: u64, acceptor: TlsAcceptor, state: Arc<State>) {
    // However the connection ends here, its client learns of it by a reset.
    let _ = (stream.set_nodelay(true), stream.set_zero_linger());
    let cut = state.connections.lock().clone();
    let wire = Wire::new(stream, number, state.link.subscribe());
    let answers = SocketTasks::new();
    let served = async {
        let stream = acceptor.accept(wire).await.map_err(Error::from)?;
        let service = service_fn(move |request| exchange(request, Arc::clone(&state)));
        let served = http2::Builder::new(answers.executor()).serve_connection(TokioIo::new(stream), service);
        served.await.map_err(Error::from)
    };
    // Errors are how clients that were killed or gave up leave.
    let _ = cut.run_until_cancelled(served).await;
}

/// One request and its answer; an error ends its stream.
async fn exchange(request: http::Request<Incoming>, state: Arc<State>) -> Result<Reply, Error> {
    let (mut parts, body) = request.into_parts();
    let body = Limited::new(body, LARGEST_REQUEST).collect().await?.to_bytes();
    let asked = Request::of(&parts);
    let number = state.note(&asked, &body);
    let fault = state.rules.hit(&asked);
    parts.headers.remove(header::HOST);
    parts.version = Version::HTTP_11;
    let request = http::Request::from_parts(parts, Body::from(body.to_vec()));
    match fault.map(|hit| hit.fault) {
        Some(Fault::Cut) => return Err("cut".into()),
        Some(Fault::Answer { code, retry_after }) => {
            state.note_answer(number, code);
            return refusal(code, retry_after);
        }
        Some(Fault::AnswerInStream { code }) => {
            state.note_answer(number, 200);
            return made_up(Response::builder(), &json!({ "type": "ERROR", "object": status(code) }));
        }
        Some(Fault::Hold) => {
            if let Some(hit) = fault {
                state.rules.over(hit).await;
            }
        }
        Some(Fault::DelayRequest(delay)) => return forward_later(&state, number, asked, request, delay).await,
        Some(Fault::DelayAnswer(_) | Fault::HoldAnswer | Fault::LoseAnswer) | None => {}
    }
    let answer = state.forward(number, request).await?;
    match fault.map(|hit| hit.fault) {
        Some(Fault::DelayAnswer(delay)) => tokio::time::sleep(delay).await,
        Some(Fault::LoseAnswer) => return Err("lost".into()),
        Some(Fault::HoldAnswer) => state.rules.answer_free(asked.clone()).await,
        _ => {}
    }
    Ok(reply(answer, asked, &state))
}

async fn forward_later(
    state: &Arc<State>,
    number: usize,
    asked: Request,
    request: http::Request<Body>,
    delay: Duration,
) -> Result<Reply, Error> {
    let (give, take) = oneshot::channel();
    let later = Arc::clone(state);
    {
        let mut detached = state.detached.lock();
        while detached.try_join_next().is_some() {}
        detached.spawn(async move {
            tokio::time::sleep(delay).await;
            let answer = later.forward(number, request).await;
            // The sender may have given up.
            drop(give.send(answer));
        });
    }
    Ok(reply(take.await??, asked, state))
}

fn reply(answer: Response<Body>, asked: Request, state: &Arc<State>) -> Reply {
    answer.map(|body| Answer::new(body, asked, Arc::clone(state)).map_err(Error::from).boxed_unsync())
}

/// An answer as the API server makes it when it cannot or will not.
fn refusal(code: u16, retry_after: Option<u32>) -> Result<Reply, Error> {
    let mut response = Response::builder().status(StatusCode::from_u16(code)?);
    if let Some(seconds) = retry_after {
        response = response.header(header::RETRY_AFTER, seconds);
    }
    made_up(response, &status(code))
}

fn status(code: u16) -> Value {
    let reason = match code {
        404 => "NotFound",
        406 => "NotAcceptable",
        410 => "Expired",
        429 => "TooManyRequests",
        _ => "InternalError",
    };
    json!({ "kind": "Status", "apiVersion": "v1", "metadata": {}, "status": "Failure",
        "message": "refused by the proxy of this test", "reason": reason, "code": code })
}

fn made_up(response: http::response::Builder, body: &Value) -> Result<Reply, Error> {
    let body = Full::new(Bytes::from(format!("{body}\n")));
    let response = response.header(header::CONTENT_TYPE, "application/json");
    Ok(response.body(body.map_err(|never| match never {}).boxed_unsync())?)
}

impl State {
    fn note(&self, request: &Request, body: &[u8]) -> usize {
        let lease = request.writes_lease().then(|| serde_json::from_slice::<Value>(body).unwrap_or_default());
        let holder = lease.map(|lease| lease["spec"]["holderIdentity"].as_str().unwrap_or_default().to_owned());
        let mut exchanges = self.exchanges.lock();
        if exchanges.len() < MOST_EXCHANGES {
            let request = request.clone();
            exchanges.push(Exchange { request, received: Moment::now(), answered: None, code: None, holder });
            return exchanges.len() - 1;
        }
        MOST_EXCHANGES
    }

    fn note_answer(&self, number: usize, code: u16) {
        if let Some(exchange) = self.exchanges.lock().get_mut(number) {
            exchange.answered = Some(Moment::now());
            exchange.code = Some(code);
        }
    }

    async fn forward(&self, number: usize, request: http::Request<Body>) -> Result<Response<Body>, kube::Error> {
        let answer = self.upstream.send(request).await?;
        self.note_answer(number, answer.status().as_u16());
        Ok(answer)
    }
}
