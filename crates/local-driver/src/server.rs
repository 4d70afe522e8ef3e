//! Serving: the socket appears, calls are answered, the socket goes away, calls under way end.

mod services;
mod socket;

use std::io;
use std::sync::Arc;
use std::time::Duration;

use tokio::net::UnixStream;
use tokio::time::{sleep, timeout};
use tokio_stream::StreamExt;
use tokio_stream::wrappers::UnixListenerStream;
use tokio_util::sync::CancellationToken;
use tonic::transport::Server;

use crate::args::Config;
use crate::calls::{Calls, Served};
use crate::controller::ControllerService;
use crate::error::Error;
use crate::identity::IdentityService;
use crate::journal::Journal;
use crate::node::NodeService;
use crate::state::{self, NodeId};
use services::Services;
use socket::Socket;

/// How long calls under way may take after the driver was told to stop.
const DRAIN: Duration = Duration::from_secs(10);

/// Between a failed accept and the next: out of file descriptors, it fails again at once.
const ACCEPT_PAUSE: Duration = Duration::from_millis(100);

/// Loads the state, serves until `shutdown`, removes the socket, and lets calls under way end.
///
/// Returns an error when it cannot start or the socket cannot be served; a call that outlasts the drain time of
/// ten seconds is not one.
pub async fn run(config: Config, shutdown: CancellationToken) -> Result<(), Error> {
    let (volumes, snapshots) = state::open(&config.state_dir, config.capacity)?;
    let volumes = Arc::new(volumes);
    let journal = config.journal.as_deref().map(Journal::open).transpose()?;
    let calls = Arc::new(Calls::new(config.faults, journal));
    let capabilities = Arc::new(config.capabilities);
    let node_id = NodeId::from(config.node_id.as_str());
    let identity = IdentityService {
        driver_name: config.driver_name.clone(),
        capabilities: Arc::clone(&capabilities),
        with_topology: !config.places.is_empty(),
    };
    let controller = ControllerService {
        capabilities: Arc::clone(&capabilities),
        volumes: Arc::clone(&volumes),
        node_id: node_id.clone(),
        known_nodes: config.known_nodes,
        max_volumes_per_node: config.max_volumes_per_node,
        places: config.places,
        mutable_parameters: config.mutable_parameters,
        max_volume_size: config.max_volume_size,
        answered_size: config.answered_size,
        snapshots,
    };
    let node = NodeService::new(
        node_id,
        config.max_volumes_per_node,
        config.topology,
        capabilities,
        Arc::clone(&volumes),
        &config.state_dir,
    );
    let services = Services::new(
        Served { calls: Arc::clone(&calls), service: Arc::new(identity) },
        Served { calls: Arc::clone(&calls), service: Arc::new(controller) },
        Served { calls: Arc::clone(&calls), service: Arc::new(node) },
    );

    let (socket, listener) = Socket::bind(&config.socket)?;
    tracing::info!(driver = config.driver_name, socket = %config.socket.display(), volumes = volumes.len(), "serving");
    let incoming = UnixListenerStream::new(listener).then(pause_after_error);
    let serving =
        Server::builder().serve_with_incoming_shutdown(services, incoming, shutdown.clone().cancelled_owned());
    tokio::pin!(serving);
    tokio::select! {
        result = &mut serving => return result.map_err(Error::Serve),
        () = shutdown.cancelled() => {}
    }
    drop(socket);
    let drained = timeout(DRAIN, async {
        let served = serving.await.map_err(Error::Serve);
        calls.idle().await;
        served
    });
    if let Ok(result) = drained.await {
        return result;
    }
    tracing::warn!("calls are still under way after {DRAIN:?}; their callers get no answer");
    Ok(())
}

async fn pause_after_error(accepted: io::Result<UnixStream>) -> io::Result<UnixStream> {
    if let Err(error) = &accepted {
        tracing::warn!("cannot accept a connection: {error}");
        sleep(ACCEPT_PAUSE).await;
    }
    accepted
}
