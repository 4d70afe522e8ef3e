//! The gRPC services on one connection, chosen by the path of the request.

use std::convert::Infallible;

use csi_proto::csi::v1::controller_server::ControllerServer;
use csi_proto::csi::v1::identity_server::IdentityServer;
use csi_proto::csi::v1::node_server::NodeServer;
use tonic::Status;
use tonic::body::Body;
use tonic::codegen::{BoxFuture, Context, Poll, Service, http};

use crate::calls::Served;
use crate::controller::ControllerService;
use crate::identity::IdentityService;
use crate::node::NodeService;

#[derive(Clone, Debug)]
pub(super) struct Services {
    identity: IdentityServer<Served<IdentityService>>,
    controller: ControllerServer<Served<ControllerService>>,
    node: NodeServer<Served<NodeService>>,
}

impl Services {
    pub(super) fn new(
        identity: Served<IdentityService>,
        controller: Served<ControllerService>,
        node: Served<NodeService>,
    ) -> Self {
        Self {
            identity: IdentityServer::new(identity),
            controller: ControllerServer::new(controller),
            node: NodeServer::new(node),
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

    fn call(&mut self, request: http::Request<Body>) -> Self::Future {
        let path = request.uri().path();
        let service = path.strip_prefix('/').and_then(|path| path.split('/').next());
        match service {
            Some("csi.v1.Identity") => self.identity.call(request),
            Some("csi.v1.Controller") => self.controller.call(request),
            Some("csi.v1.Node") => self.node.call(request),
            _ => {
                let status = Status::unimplemented(format!("{path} is not served by this driver"));
                Box::pin(async move { Ok(status.into_http()) })
            }
        }
    }
}
