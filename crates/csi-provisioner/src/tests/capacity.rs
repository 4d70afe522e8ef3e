//! Storage capacities: the tables of the Go provisioner's tests, and what goes wrong for people.

mod behaviour;
mod decisions;
mod field_reports;
mod initial_rows;
mod later_rows;
mod owners;
mod pool;
mod refreshes;
mod segments;

use fake_apiserver::FakeApiServer;
use prometheus::Registry;
use tokio_util::sync::CancellationToken;

use crate::capacity::metrics::CapacityMetrics;
use crate::capacity::process::{CapacityProcess, Prepared};
use crate::capacity::segments::SegmentSource;
use crate::capacity::set_up::set_up;
use crate::settings::Settings;
use storage_kube::topology::Segment;

/// What a scene with `settings.capacity` works with; as `run` does before its start. A scene of one node is in the zone of
/// the node's name.
pub(super) async fn process(settings: &Settings, api: &FakeApiServer, registry: &Registry) -> Option<CapacityProcess> {
    let flags = settings.capacity.clone()?;
    let set_up = set_up(&api.client(), &flags, &CancellationToken::new()).await.unwrap()?;
    let prepared = Prepared { flags, set_up, metrics: CapacityMetrics::register(registry).unwrap() };
    let source = match &settings.node {
        None => SegmentSource::Nodes,
        Some(node) => SegmentSource::Fixed(Segment::from_iter([("zone", node.name.as_str())])),
    };
    Some(CapacityProcess::new(prepared, source, settings))
}
