//! Storage capacities on the fakes.

use controller_runtime::Tasks;
use fake_apiserver::FakeApiServer;
use prometheus::Registry;
use sidecar::FirstLists;
use tokio_util::sync::CancellationToken;

use crate::capacity::metrics::CapacityMetrics;
use crate::capacity::process::{CapacityProcess, Prepared};
use crate::capacity::segments::SegmentSource;
use crate::capacity::set_up::set_up;
use crate::settings::Settings;

/// What a scene with `settings.capacity` works with; as `run` does before its start.
pub(super) async fn process(
    settings: &Settings,
    api: &FakeApiServer,
    registry: &Registry,
    first_lists: &FirstLists,
    tasks: &Tasks,
) -> Option<CapacityProcess> {
    let flags = settings.capacity.clone()?;
    let set_up = set_up(&api.client(), &flags, &CancellationToken::new()).await.unwrap()?;
    let prepared = Prepared { flags, set_up, metrics: CapacityMetrics::register(registry).unwrap() };
    Some(CapacityProcess::start(prepared, SegmentSource::Nodes, settings, &api.client(), first_lists, tasks))
}
