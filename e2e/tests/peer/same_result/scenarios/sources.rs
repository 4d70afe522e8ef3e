//! Volumes made of snapshots and of other volumes.

use serde_json::{Value, json};

use super::{Course, ONCE, QUICK, Scenario, Setup, Source, bound, setup};

const DRIVER: &[&str] = &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,CREATE_DELETE_SNAPSHOT,CLONE_VOLUME"];
const SNAPSHOT: &str = "snapshot.storage.k8s.io";

pub(super) fn setups() -> Vec<Setup> {
    let from = |name, flags, scenarios| Setup { driver: DRIVER, flags, sources: sources(), ..setup(name, scenarios) };
    let source = Source { snapshot: None, ..source("source") };
    vec![
        from("copies", &[QUICK], copies()),
        from("refused-copies", ONCE, refused()),
        Setup {
            sources: vec![source],
            flags: ONCE,
            ..setup("incapable-of-copies", vec![Scenario { course: Course::Refused, ..clone("clone", "source") }])
        },
    ]
}

fn sources() -> Vec<Source> {
    vec![
        source("source"),
        Source { claim: json!({ "volumeMode": "Block" }), snapshot: Some("block-snapshot"), ..source("block-source") },
        Source { snapshot: Some("unready"), ready: false, ..source("other-source") },
    ]
}

fn copies() -> Vec<Scenario> {
    let larger = json!({ "requests": { "storage": "2Mi" } });
    vec![
        clone("clone", "source"),
        with(clone("larger-clone", "source"), "resources", &larger),
        with(clone("block-clone", "block-source"), "volumeMode", &json!("Block")),
        restore("restore", "snapshot"),
        with(restore("larger-restore", "snapshot"), "resources", &larger),
        with(restore("block-restore", "block-snapshot"), "volumeMode", &json!("Block")),
        by_reference("clone-by-reference", &claim("source")),
        by_reference("restore-by-reference", &snapshot("snapshot")),
        Scenario {
            class: Some(json!({ "reclaimPolicy": "Retain" })),
            course: Course::Kept,
            ..restore("retain", "snapshot")
        },
    ]
}

fn refused() -> Vec<Scenario> {
    let smaller = json!({ "requests": { "storage": "512Ki" } });
    let scenarios = vec![
        clone("no-source", "none"),
        with(clone("smaller-clone", "source"), "resources", &smaller),
        with(clone("clone-of-another-mode", "source"), "volumeMode", &json!("Block")),
        restore("no-snapshot", "none"),
        with(restore("smaller-restore", "snapshot"), "resources", &smaller),
        with(restore("restore-of-another-mode", "snapshot"), "volumeMode", &json!("Block")),
        restore("not-ready", "unready"),
        by_reference(
            "snapshot-of-another-group",
            &json!({ "apiGroup": "example.com", "kind": "VolumeSnapshot", "name": "snapshot" }),
        ),
    ];
    scenarios.into_iter().map(|scenario| Scenario { course: Course::Refused, ..scenario }).collect()
}

/// A volume of 1 MiB with a ready snapshot.
fn source(name: &'static str) -> Source {
    Source { name, claim: json!({}), snapshot: Some("snapshot"), ready: true }
}

fn claim(name: &str) -> Value {
    json!({ "kind": "PersistentVolumeClaim", "name": name })
}

fn snapshot(name: &str) -> Value {
    json!({ "apiGroup": SNAPSHOT, "kind": "VolumeSnapshot", "name": name })
}

fn clone(name: &'static str, of: &str) -> Scenario {
    Scenario { claim: json!({ "dataSource": claim(of) }), ..bound(name) }
}

fn restore(name: &'static str, of: &str) -> Scenario {
    Scenario { claim: json!({ "dataSource": snapshot(of) }), ..bound(name) }
}

fn by_reference(name: &'static str, to: &Value) -> Scenario {
    Scenario { claim: json!({ "dataSourceRef": to }), ..bound(name) }
}

fn with(mut scenario: Scenario, field: &str, value: &Value) -> Scenario {
    scenario.claim[field] = value.clone();
    scenario
}
