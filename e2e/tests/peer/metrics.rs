//! After the same work both provisioners serve the same families of metrics, but for what is listed.

use std::collections::BTreeMap;

use anyhow::Result;
use e2e::eventually;
use serde_json::json;

use crate::exposition::{Expected, Family, families};
use crate::site::{PATIENCE, Side, Site, works};

/// Families of the Go provisioner that ours has not; a last `*` stands for any rest. Each with its reason.
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

/// Families of ours that the Go provisioner has not. Each with its reason.
const EXTRA: &[(&str, &str)] = &[
    ("workqueue_oldest_waiting_seconds", "tells that work is stuck before anything fails"),
    ("csi_sidecar_api_server_interruptions_total", "tells that everything learnt was forgotten, and why"),
];

#[tokio::test]
async fn the_same_families_after_the_same_work() -> Result<()> {
    let (go, ours) = tokio::try_join!(after_some_work(Side::Go), after_some_work(Side::Ours))?;
    Expected { absent: ABSENT, extra: EXTRA }.check(&go, &ours);
    Ok(())
}

/// A volume that comes and goes with one failed try each, and a claim that is refused.
async fn after_some_work(side: Side) -> Result<BTreeMap<String, Family>> {
    let faults = ["--fault=CreateVolume:code=INTERNAL,times=1", "--fault=DeleteVolume:code=INTERNAL,times=1"];
    let site = Site::start(if side == Side::Go { "metrics-go" } else { "metrics-ours" }, &faults).await?;
    site.add_class("volumes", &json!({})).await?;
    let namespace = format!("--leader-election-namespace={}", site.namespace);
    let settings = site.settings(side).await?.flag("--leader-election").flag(&namespace);
    let mut provisioner = settings.flag("--retry-interval-start=200ms").start()?;
    works(&mut provisioner, side).await?;
    site.claim("refused", "volumes", &json!({}), &json!({ "selector": {} })).await?;
    site.claim("data", "volumes", &json!({}), &json!({})).await?;
    let volume = site.bound("data").await?;
    site.delete_claim("data").await?;
    eventually::gone(&site.volumes(), &volume, PATIENCE).await?;
    let class = site.class("volumes");
    provisioner.metric(&format!("controller_persistentvolume_delete_total{{class=\"{class}\"}}"), PATIENCE).await?;
    let refused = format!("controller_persistentvolumeclaim_provision_failed_total{{class=\"{class}\"");
    provisioner.metric(&refused, PATIENCE).await?;
    // The scrape itself is counted, which the next one shows.
    provisioner.metrics().await.map(|text| families(&text))
}
