//! After the same work both resizers serve the same families of metrics, but for what is listed.

use std::collections::BTreeMap;

use anyhow::Result;
use e2e::Cluster;
use e2e::resize_scene::{Fields, RESIZES, ResizeScene};

use crate::exposition::{Expected, Family, families};
use crate::site::{PATIENCE, Side};

/// Families of the Go resizer that ours has not; a last `*` stands for any rest. Each with its reason.
const ABSENT: &[(&str, &str)] = &[
    ("go_*", "there is no Go runtime"),
    ("registered_metrics_total", "about the Go metrics registry"),
    ("disabled_metrics_total", "about the Go metrics registry"),
    ("hidden_metrics_total", "about the Go metrics registry"),
    ("cardinality_enforcement_unexpected_categorizations_total", "about the Go metrics registry"),
    ("apiserver_*", "of an API server's packages that are linked in and not used"),
    ("aggregator_discovery_*", "of an API server's packages that are linked in and not used"),
    ("process_network_*", "counts what the whole network namespace sends and receives"),
    ("process_virtual_memory_max_bytes", "the limit is not used by anything here"),
];

/// Families of ours that the Go resizer has not. Each with its reason.
const EXTRA: &[(&str, &str)] = &[
    ("workqueue_oldest_waiting_seconds", "tells that work is stuck before anything fails"),
    ("csi_sidecar_api_server_interruptions_total", "tells that everything learnt was forgotten, and why"),
    ("csi_resizer_*", "tell what is not done, and why"),
    ("promhttp_metric_handler_requests_*", "all our sidecars count scrapes, as most Go sidecars do"),
];

#[tokio::test]
async fn the_same_families_after_the_same_work() -> Result<()> {
    let (go, ours) = tokio::try_join!(after_some_work(Side::Go), after_some_work(Side::Ours))?;
    Expected { absent: ABSENT, extra: EXTRA }.check(&go, &ours);
    Ok(())
}

/// A volume that grows after one failed try.
async fn after_some_work(side: Side) -> Result<BTreeMap<String, Family>> {
    let faults = [RESIZES, "--fault=ControllerExpandVolume:code=INTERNAL,times=1"];
    let purpose = if side == Side::Go { "resize-metrics-go" } else { "resize-metrics-ours" };
    let scene = ResizeScene::start(Cluster::shared_with_audit().await?, purpose, &faults).await?;
    let settings = scene.competing(super::settings(&scene, side).await?);
    let mut resizer = settings.flag("--retry-interval-start=200ms").start()?;
    super::works(&mut resizer, side).await?;
    scene.add_claim("data", &Fields::default()).await?;
    scene.ask("data", "2Mi").await?;
    scene.has("data", "2Mi").await?;
    resizer.metric(&format!("workqueue_retries_total{{name=\"{}-pvc\"}} ", scene.driver.name()), PATIENCE).await?;
    // The scrape itself is counted, which the next one shows.
    resizer.metrics().await.map(|text| families(&text))
}
