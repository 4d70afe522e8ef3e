//! Storage capacities: the tables of the Go provisioner's tests, and what goes wrong for people.

mod behaviour;
mod decisions;
mod field_reports;
mod initial_rows;
mod later_rows;
mod owners;
mod pool;
mod refreshes;
mod refusals;
mod segments;

use fake_apiserver::FakeApiServer;
use prometheus::Registry;

use crate::capacity::metrics::CapacityMetrics;
use crate::capacity::owner::await_owner;
use crate::capacity::process::CapacityProcess;
use crate::capacity::segments::SegmentSource;
use crate::settings::Settings;
use storage_kube::topology::Segment;

/// What a scene with `settings.capacity` works with; as `run` does before its start. A scene of one node is in the zone of
/// the node's name.
pub(super) async fn process(settings: &Settings, api: &FakeApiServer, registry: &Registry) -> Option<CapacityProcess> {
    let flags = settings.capacity.as_ref()?;
    let owner = await_owner(&api.client(), flags).await.unwrap();
    let source = match &settings.node {
        None => SegmentSource::Nodes,
        Some(node) => SegmentSource::Fixed(Segment::from_iter([("zone", node.name.as_str())])),
    };
    CapacityProcess::new(settings, owner, source, CapacityMetrics::register(registry).unwrap())
}
