//! Volumes made of snapshots and of other volumes, also of those in another namespace.

use e2e::OptionalRule;
use serde_json::{Value, json};

use super::{Course, ONCE, QUICK, Scenario, Setup, Source, bound, setup};

const DRIVER: &[&str] = &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,CREATE_DELETE_SNAPSHOT,CLONE_VOLUME"];
/// The API server of these tests has the gate, too.
const ACROSS: &str = "--feature-gates=CrossNamespaceVolumeDataSource=true";
const ONCE_ACROSS: &[&str] = &["--retry-interval-start=1h", "--retry-interval-max=2h", ACROSS];
const SNAPSHOT: &str = "snapshot.storage.k8s.io";

pub(super) fn setups() -> Vec<Setup> {
    let from = |name, flags, scenarios| Setup { driver: DRIVER, flags, sources: sources(), ..setup(name, scenarios) };
    let across = |name, flags, scenarios| Setup {
        rules: &[OptionalRule::ReferenceGrants],
        objects: vec![grant()],
        sources: sources_elsewhere(),
        ..from(name, flags, scenarios)
    };
    let source = Source { snapshot: None, ..source("source") };
    vec![
        from("copies", &[QUICK], copies()),
        from("refused-copies", ONCE, refused()),
        across("copies-across", &[QUICK, ACROSS], across_namespaces()),
        across("refused-across", ONCE_ACROSS, without_a_grant()),
        across(
            "no-copies-across",
            ONCE,
            vec![Scenario { course: Course::Refused, ..by_reference("granted", &elsewhere(claim("far-source"))) }],
        ),
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

fn sources_elsewhere() -> Vec<Source> {
    let far = |name, snapshot| Source { snapshot: Some(snapshot), elsewhere: true, ..source(name) };
    vec![far("far-source", "far-snapshot"), far("hidden-source", "hidden-snapshot")]
}

fn across_namespaces() -> Vec<Scenario> {
    vec![
        by_reference("far-clone", &elsewhere(claim("far-source"))),
        by_reference("far-restore", &elsewhere(snapshot("far-snapshot"))),
    ]
}

fn without_a_grant() -> Vec<Scenario> {
    let scenarios = vec![
        by_reference("clone-of-hidden", &elsewhere(claim("hidden-source"))),
        by_reference("restore-of-hidden", &elsewhere(snapshot("hidden-snapshot"))),
        by_reference("clone-of-none", &elsewhere(claim("none"))),
    ];
    scenarios.into_iter().map(|scenario| Scenario { course: Course::Refused, ..scenario }).collect()
}

/// Lets claims of the site name some of the sources in the other namespace.
fn grant() -> Value {
    json!({ "apiVersion": "gateway.networking.k8s.io/v1beta1", "kind": "ReferenceGrant",
        "metadata": { "name": "grant", "namespace": "SITE-elsewhere" },
        "spec": {
            "from": [{ "group": "", "kind": "PersistentVolumeClaim", "namespace": "SITE" }],
            "to": [
                { "group": "", "kind": "PersistentVolumeClaim", "name": "far-source" },
                { "group": SNAPSHOT, "kind": "VolumeSnapshot", "name": "far-snapshot" },
            ] } })
}

fn elsewhere(mut source: Value) -> Value {
    source["namespace"] = json!("SITE-elsewhere");
    source
}

/// A volume of 1 MiB with a ready snapshot.
fn source(name: &'static str) -> Source {
    Source { name, claim: json!({}), snapshot: Some("snapshot"), ready: true, elsewhere: false }
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
