//! The gRPC services: each call takes its step from the script, else does the default.

use std::any::Any;
use std::collections::{HashMap, VecDeque};
use std::convert::Infallible;
use std::fmt;
use std::sync::Arc;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_server::{Controller, ControllerServer};
use csi_proto::csi::v1::identity_server::{Identity, IdentityServer};
use csi_proto::csi::v1::node_server::{Node, NodeServer};
use parking_lot::Mutex;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};
use tonic::transport::server::UdsConnectInfo;
use tonic::{Request, Response, Status};

use crate::backend::Backend;
use crate::journal::Journal;
use crate::rpc::{CsiRequest, Rpc, with_rpcs};
use crate::step::{Act, Step};

/// Everything of the driver that outlives its socket.
#[derive(Debug, Default)]
pub(crate) struct State {
    pub(crate) backend: Mutex<Backend>,
    pub(crate) script: Mutex<Script>,
    pub(crate) journal: Journal,
}

#[derive(Default)]
pub(crate) struct Script {
    pub(crate) queued: HashMap<Rpc, VecDeque<Step>>,
    pub(crate) by_request: HashMap<Rpc, ByRequest>,
    pub(crate) always: HashMap<Rpc, Box<dyn Fn() -> Step + Send>>,
}

/// Chooses a step by the request, which is that of the RPC.
pub(crate) type ByRequest = Box<dyn Fn(&dyn Any) -> Option<Step> + Send>;

impl Script {
    fn next<R: CsiRequest>(&mut self, request: &R) -> Step {
        let queued = self.queued.get_mut(&R::RPC).and_then(VecDeque::pop_front);
        queued
            .or_else(|| self.by_request.get(&R::RPC).and_then(|choose| choose(request)))
            .or_else(|| self.always.get(&R::RPC).map(|step| step()))
            .unwrap_or_else(Step::answer)
    }
}

impl fmt::Debug for Script {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("Script")
            .field("queued", &self.queued)
            .field("by_request", &self.by_request.keys())
            .field("always", &self.always.keys())
            .finish()
    }
}

impl State {
    async fn serve<R: CsiRequest>(&self, request: Request<R>) -> Result<Response<R::Response>, Status> {
        let extensions = request.extensions();
        let peer = extensions.get::<UdsConnectInfo>().and_then(|info| info.peer_cred).and_then(|peer| peer.pid());
        let authority = extensions.get::<Authority>().map(|authority| authority.0.clone());
        let request = request.into_inner();
        let call = self.journal.begin(request.clone().into_any(), peer, authority);
        let step = self.script.lock().next(&request);
        step.before.wait().await;
        let result = self.act(step.act, &request);
        step.late.wait().await;
        call.end(&result);
        result.map(Response::new)
    }

    fn act<R: CsiRequest>(&self, act: Act, request: &R) -> Result<R::Response, Status> {
        match act {
            Act::Default => request.answer(&mut self.backend.lock()),
            Act::Fail(status) => Err(status),
            Act::WorkThenFail(status) => {
                // An error of the work itself is hidden on purpose: the script says what is answered.
                let _ = request.answer(&mut self.backend.lock());
                Err(status)
            }
            Act::Respond(rpc, respond) => {
                let response: Box<dyn Any> = respond(request)?;
                let response = response.downcast::<R::Response>();
                response
                    .map(|response| *response)
                    .map_err(|_| Status::internal(format!("fake driver: response of {rpc}")))
            }
        }
    }
}

#[derive(Clone, Debug)]
struct Authority(String);

#[derive(Clone, Debug)]
struct Handler(Arc<State>);

macro_rules! serve {
    ($($service:ident { $($method:ident $rpc:ident($request:ident) -> $response:ident;)* })*) => {
        $(
            #[tonic::async_trait]
            impl $service for Handler {
                $(async fn $method(&self, request: Request<csi::$request>) -> Result<Response<csi::$response>, Status> {
                    self.0.serve(request).await
                })*
            }
        )*
    };
}
with_rpcs!(serve);

/// All services on one connection.
#[derive(Clone, Debug)]
pub(crate) struct Services {
    identity: IdentityServer<Handler>,
    controller: ControllerServer<Handler>,
    node: NodeServer<Handler>,
}

impl Services {
    pub(crate) fn new(state: Arc<State>) -> Self {
        let handler = Handler(state);
        Self {
            identity: IdentityServer::new(handler.clone()),
            controller: ControllerServer::new(handler.clone()),
            node: NodeServer::new(handler),
        }
    }
}

impl Service<http::Request<Body>> for Services {
    type Response = http::Response<Body>;
    type Error = Infallible;
    type Future = BoxFuture<Self::Response, Infallible>;

    fn poll_ready(&mut self, _: &mut Context<'_>) -> Poll<Result<(), Infallible>> {
        Poll::Ready(Ok(()))
    }

    fn call(&mut self, mut request: http::Request<Body>) -> Self::Future {
        if let Some(authority) = request.uri().authority().map(|authority| Authority(authority.to_string())) {
            request.extensions_mut().insert(authority);
        }
        let path = request.uri().path();
        if path.starts_with("/csi.v1.Identity/") {
            self.identity.call(request)
        } else if path.starts_with("/csi.v1.Controller/") {
            self.controller.call(request)
        } else if path.starts_with("/csi.v1.Node/") {
            self.node.call(request)
        } else {
            let status = Status::unimplemented(format!("fake driver: no method {path}"));
            Box::pin(async move { Ok(status.into_http()) })
        }
    }
}
