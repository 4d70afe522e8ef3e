//! Which source a claim names, and who may name one in another namespace: tables.

use serde_json::{Value, json};
use storage_kube::names::Namespace;
use storage_kube::wire::{DataSource, ReferenceGrantSpec};

use super::objects::{DRIVER, claim, with};
use crate::content_source::reference_grant::allows;
use crate::data_source::{Content, DataSourceError, NamedSource, content};

fn found(spec: Value, gate: bool, granted: bool) -> &'static str {
    let claim = super::claims::record(DRIVER, with(claim("data", "fast"), &json!({ "spec": spec }))).unwrap();
    match content(&claim, gate, |_| granted) {
        Ok(Content::Empty) => "empty",
        Ok(Content::Populator) => "populator",
        Ok(Content::Driver(key)) => match key.to_string().as_str() {
            "PersistentVolumeClaim shop/s" => "claim here",
            "PersistentVolumeClaim away/s" => "claim away",
            "VolumeSnapshot shop/s" => "snapshot here",
            "VolumeSnapshot away/s" => "snapshot away",
            other => panic!("{other}"),
        },
        Err(DataSourceError::NamespaceNeedsGate { .. }) => "gate",
        Err(DataSourceError::NotGranted { .. }) => "grant",
        Err(DataSourceError::NoName { .. }) => "no name",
        Err(DataSourceError::Impossible { .. }) => "impossible",
        Err(DataSourceError::SnapshotGroup { .. }) => "group",
    }
}

/// Contract "Data source normalisation", and the checks of kind, group and name.
#[test]
fn which_source_a_claim_names() {
    let snapshot = || json!({ "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "s" });
    let pvc = || json!({ "kind": "PersistentVolumeClaim", "name": "s" });
    let other = || json!({ "apiGroup": "example.com", "kind": "MyPopulator", "name": "s" });
    let at = |source: Value, namespace: Value| with(source, &json!({ "namespace": namespace }));
    let named = |source: Value, name: &str| with(source, &json!({ "name": name }));
    let group = |source: Value, group: Value| with(source, &json!({ "apiGroup": group }));
    let source = |source: Value| json!({ "dataSource": source });
    let reference = |source: Value| json!({ "dataSourceRef": source });
    let cases = [
        // spec, gate, granted
        (json!({}), false, false, "empty"),
        (source(snapshot()), false, false, "snapshot here"),
        (source(pvc()), false, false, "claim here"),
        (source(other()), false, false, "populator"),
        (source(at(pvc(), json!("away"))), true, false, "claim here"),
        (json!({ "dataSource": pvc(), "dataSourceRef": at(snapshot(), json!("away")) }), false, false, "claim here"),
        (reference(snapshot()), false, false, "snapshot here"),
        (reference(pvc()), true, false, "claim here"),
        (reference(other()), true, false, "populator"),
        (reference(at(snapshot(), json!(""))), false, false, "snapshot here"),
        (reference(at(snapshot(), json!(""))), true, false, "snapshot here"),
        (reference(at(snapshot(), json!("shop"))), true, false, "snapshot here"),
        (reference(at(snapshot(), json!("shop"))), false, true, "gate"),
        (reference(at(snapshot(), json!("away"))), false, true, "gate"),
        (reference(at(other(), json!("away"))), false, true, "gate"),
        (reference(at(snapshot(), json!("away"))), true, false, "grant"),
        (reference(at(other(), json!("away"))), true, false, "grant"),
        (reference(at(snapshot(), json!("away"))), true, true, "snapshot away"),
        (reference(at(pvc(), json!("away"))), true, true, "claim away"),
        (reference(at(other(), json!("away"))), true, true, "populator"),
        (source(named(snapshot(), "")), false, false, "no name"),
        (source(named(other(), "")), false, false, "no name"),
        (source(named(pvc(), "../../secrets/s")), false, false, "impossible"),
        (reference(at(pvc(), json!("away/secrets"))), true, true, "impossible"),
        (source(group(snapshot(), json!("unsupported.group.io"))), false, false, "group"),
        (source(group(snapshot(), Value::Null)), false, false, "group"),
        (source(group(pvc(), json!("any.example.com"))), false, false, "claim here"),
    ];
    assert_eq!(cases.len(), 27);
    for (spec, gate, granted, expected) in cases {
        assert_eq!(found(spec.clone(), gate, granted), expected, "{spec}, gate {gate}, granted {granted}");
    }
}

/// The grant function's own table. A grant of another namespace is not asked at all; see `grants`.
#[test]
fn what_a_grant_allows() {
    let claims = || json!({ "group": "", "kind": "PersistentVolumeClaim", "namespace": "bakery" });
    let to = |group: &str, kind: &str| json!({ "group": group, "kind": kind });
    let named = |name: &str| json!({ "group": "", "kind": "PersistentVolumeClaim", "name": name });
    let snapshots = "snapshot.storage.k8s.io";
    let pvc = || (None, "PersistentVolumeClaim");
    let snapshot = || (Some(snapshots), "VolumeSnapshot");
    let any = || json!([claims()]);
    let from = |change: Value| json!([with(claims(), &change)]);
    let cases = [
        ("base", any(), json!([to("", "PersistentVolumeClaim")]), pvc(), true),
        ("to.name equal", any(), json!([named("s")]), pvc(), true),
        ("to.name null", any(), json!([{ "group": "", "kind": "PersistentVolumeClaim", "name": null }]), pvc(), true),
        ("to.name empty", any(), json!([named("")]), pvc(), true),
        (
            "group empty in the claim",
            any(),
            json!([to("", "PersistentVolumeClaim")]),
            (Some(""), "PersistentVolumeClaim"),
            true,
        ),
        ("snapshot", any(), json!([to(snapshots, "VolumeSnapshot")]), snapshot(), true),
        ("another kind", any(), json!([to("example.com", "Thing")]), (Some("example.com"), "Thing"), true),
        (
            "one of several",
            json!([{ "group": "x", "kind": "y", "namespace": "z" }, claims()]),
            json!([to("x", "y"), named("s")]),
            pvc(),
            true,
        ),
        ("from.group", from(json!({ "group": "apps" })), json!([to("", "PersistentVolumeClaim")]), pvc(), false),
        ("from.kind", from(json!({ "kind": "Pod" })), json!([to("", "PersistentVolumeClaim")]), pvc(), false),
        (
            "from.namespace",
            from(json!({ "namespace": "shop" })),
            json!([to("", "PersistentVolumeClaim")]),
            pvc(),
            false,
        ),
        ("to.group", any(), json!([to("apps", "PersistentVolumeClaim")]), pvc(), false),
        ("to.kind", any(), json!([to("", "Pod")]), pvc(), false),
        ("to.name", any(), json!([named("other")]), pvc(), false),
        ("claim wanted, snapshots granted", any(), json!([to(snapshots, "VolumeSnapshot")]), pvc(), false),
        ("snapshot wanted, claims granted", any(), json!([to("", "PersistentVolumeClaim")]), snapshot(), false),
        (
            "snapshot without group wanted",
            any(),
            json!([to(snapshots, "VolumeSnapshot")]),
            (None, "VolumeSnapshot"),
            false,
        ),
        ("from empty", json!([]), json!([to("", "PersistentVolumeClaim")]), pvc(), false),
        ("to empty", any(), json!([]), pvc(), false),
        ("both empty", json!([]), json!([]), pvc(), false),
    ];
    assert_eq!(cases.len(), 20);
    for (case, from, to, (group, kind), expected) in cases {
        let grant: ReferenceGrantSpec = serde_json::from_value(json!({ "from": from, "to": to })).unwrap();
        let source = DataSource {
            api_group: group.map(str::to_owned),
            kind: kind.to_owned(),
            name: "s".to_owned(),
            namespace: Some("shop".to_owned()),
        };
        let named = NamedSource { source: &source, namespace: Namespace::from("shop") };
        assert_eq!(allows(&grant, &Namespace::from("bakery"), &named), expected, "{case}");
    }
}
