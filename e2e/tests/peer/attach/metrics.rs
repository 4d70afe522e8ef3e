//! After the same work both attachers serve the same families of metrics, but for what is listed.

use std::collections::BTreeMap;

use anyhow::Result;
use e2e::Cluster;
use e2e::attach_scene::{ATTACHES, AttachScene};
use serde_json::json;

use crate::exposition::{Expected, Family, families};
use crate::site::{PATIENCE, Side};

/// Families of the Go attacher that ours has not; a last `*` stands for any rest. Each with its reason.
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

/// Families of ours that the Go attacher has not. Each with its reason.
const EXTRA: &[(&str, &str)] = &[
    ("workqueue_oldest_waiting_seconds", "tells that work is stuck before anything fails"),
    ("csi_sidecar_api_server_interruptions_total", "tells that everything learnt was forgotten, and why"),
    ("csi_attacher_call_*", "tells that attachments wait for a free call to the driver"),
    ("csi_attacher_calls_*", "tells that attachments wait for a free call to the driver"),
    ("promhttp_metric_handler_requests_*", "all our sidecars count scrapes, as most Go sidecars do"),
];

#[tokio::test]
async fn the_same_families_after_the_same_work() -> Result<()> {
    let (go, ours) = tokio::try_join!(after_some_work(Side::Go), after_some_work(Side::Ours))?;
    Expected { absent: ABSENT, extra: EXTRA }.check(&go, &ours);
    Ok(())
}

/// An attachment that comes and goes with one failed try each.
async fn after_some_work(side: Side) -> Result<BTreeMap<String, Family>> {
    let faults = [
        ATTACHES,
        "--fault=ControllerPublishVolume:code=INTERNAL,times=1",
        "--fault=ControllerUnpublishVolume:code=INTERNAL,times=1",
    ];
    let purpose = if side == Side::Go { "attach-metrics-go" } else { "attach-metrics-ours" };
    let scene = AttachScene::start(Cluster::shared_with_audit().await?, purpose, &faults).await?;
    scene.add_node("node", "node").await?;
    let settings = scene.competing(super::settings(&scene, side).await?);
    let mut attacher = settings.flag("--retry-interval-start=200ms").start()?;
    super::works(&mut attacher, side).await?;
    scene.add_volume("data", &json!({}), &json!({})).await?;
    scene.attach("data", "data", "node").await?;
    scene.attached("data").await?;
    scene.detach("data").await?;
    scene.detached("data").await?;
    attacher.metric("workqueue_retries_total{name=\"csi-attacher-va\"} 2", PATIENCE).await?;
    // The scrape itself is counted, which the next one shows.
    attacher.metrics().await.map(|text| families(&text))
}
