//! What of the capacities outlives a term.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::kube_client;
use prometheus::Registry;
use sidecar::Exit;
use tokio_util::sync::CancellationToken;

use super::managed_by::ManagedBy;
use super::metrics::CapacityMetrics;
use super::owner::Owner;
use super::segments::{SegmentSource, SegmentTable};
use super::set_up::{Place, SetUp, set_up};
use crate::records::CapacityProjection;
use crate::settings::{CapacityFlags, Settings};

/// Limit of each request before the start.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What can be known without the driver.
pub(crate) struct Prepared {
    pub(crate) flags: CapacityFlags,
    pub(crate) set_up: SetUp,
    pub(crate) metrics: CapacityMetrics,
}

impl Prepared {
    /// Finds out what the API server has. `None`: no capacities are published.
    ///
    /// # Errors
    /// Exit 255 when there is no such owner.
    pub(crate) async fn find(
        flags: Option<&CapacityFlags>,
        kube_config: &kube::Config,
        registry: &Registry,
        shutdown: &CancellationToken,
    ) -> Result<Option<Self>, Exit> {
        let Some(flags) = flags else { return Ok(None) };
        let metrics = CapacityMetrics::register(registry).map_err(|error| Exit::fatal(error.to_string()))?;
        let client =
            kube_client::client(kube_config, REQUEST_TIMEOUT).map_err(|error| Exit::fatal(error.to_string()))?;
        let set_up = set_up(&client, flags, shutdown).await?;
        Ok(set_up.map(|set_up| Self { flags: flags.clone(), set_up, metrics }))
    }
}

/// See the module.
pub(crate) struct CapacityProcess {
    pub(crate) flags: CapacityFlags,
    /// `--timeout`.
    pub(crate) timeout: Duration,
    pub(crate) place: Place,
    pub(crate) owner: Option<Owner>,
    pub(crate) source: SegmentSource,
    pub(crate) table: Arc<SegmentTable>,
    pub(crate) projection: CapacityProjection,
    pub(crate) metrics: CapacityMetrics,
}

impl CapacityProcess {
    /// Segments come from `source`; the objects are those of the node that the settings name, if they name one.
    pub(crate) fn new(prepared: Prepared, source: SegmentSource, settings: &Settings) -> Self {
        let Prepared { flags, set_up: SetUp { place, owner }, metrics } = prepared;
        let managed_by = ManagedBy::new(&settings.names.driver, settings.node.as_ref().map(|node| &node.name));
        let table = Arc::new(SegmentTable::default());
        let projection =
            CapacityProjection { managed_by, owner: owner.as_ref().map(Owner::uid), segments: Arc::clone(&table) };
        Self { flags, timeout: settings.timeout, place, owner, source, table, projection, metrics }
    }
}
