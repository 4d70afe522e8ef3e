//! A backlog has a visible reason.

use std::time::Duration;

use fake_driver::{Rpc, Step};
use tracing::Level;

use super::objects::{attachment_of, node, volume_named};
use super::scene::{Config, Scene, config};
use super::secrets::Lines;

/// Half an hour of waiting must not be silent.
#[tokio::test(start_paused = true)]
async fn d7_work_that_waits_for_long_is_told_once_a_minute() {
    let (lines, _guard) = Lines::capture(Level::INFO);
    let scene = Scene::with(Config { worker_threads: 1, ..config() }, |_| ()).await;
    scene.add_node(node("node1", "nodeID1"));
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::answer().after(Duration::from_secs(14)));
    for number in 0..100 {
        let name = format!("va-{number}");
        scene.add_volume(volume_named(&name, &name));
        scene.add_attachment(attachment_of(&name, &name, "node1"));
    }
    let told = || {
        let text = lines.text();
        text.lines().filter(|line| line.contains("waiting for long")).map(str::to_owned).collect::<Vec<_>>()
    };
    scene.pass(Duration::from_secs(29)).await;
    assert!(told().is_empty(), "{:?}", told());
    scene.pass(Duration::from_secs(16)).await;
    assert_eq!(told().len(), 1);
    let line = told().remove(0);
    assert!(line.contains("WARN") && line.contains("age=") && line.contains("depth="), "{line}");
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(told().len(), 11, "once a minute");
    assert!(told().iter().any(|line| line.contains("csi-attacher-va")), "{:?}", told());
}

/// The series that dashboards of the Go attacher read.
#[tokio::test(start_paused = true)]
async fn queues_and_calls_are_counted_under_the_names_of_the_go_attacher() {
    let scene = Scene::start().await;
    scene.add_attachment(attachment_of("va", "pv1", "node1"));
    scene.attached("va").await;
    let families = scene.registry.gather();
    let has = |family: &str, label: &str, value: &str| {
        let found = families.iter().find(|found| found.name() == family).expect(family);
        let labelled = |metric: &prometheus::proto::Metric| {
            metric.get_label().iter().any(|pair| pair.name() == label && pair.value() == value)
        };
        assert!(found.get_metric().iter().any(labelled), "{family} {label}={value}");
    };
    for queue in ["csi-attacher-va", "csi-attacher-pv"] {
        for family in ["depth", "adds_total", "queue_duration_seconds", "work_duration_seconds", "retries_total"] {
            has(&format!("workqueue_{family}"), "name", queue);
        }
    }
    has("csi_sidecar_operations_seconds", "method_name", "/csi.v1.Controller/ControllerPublishVolume");
    has("csi_sidecar_operations_seconds", "driver_name", "csi/test");
    has("csi_sidecar_operations_seconds", "grpc_status_code", "OK");
}
