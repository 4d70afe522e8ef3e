//! Which claims enter the cache, and whose they are.

use controller_runtime::Projection;
use serde_json::{Value, json};
use storage_kube::names::NodeName;

use super::objects::{CLAIM_UID, DRIVER, claim, with};
use crate::migration::ProvisionerNames;
use crate::records::claim::AskedAs;
use crate::records::{ClaimEntry, ClaimProjection, ClaimRecord};

pub(super) fn record(driver: &str, claim: Value) -> Option<ClaimRecord> {
    entry(driver, claim)?.waiting().map(|claim| (**claim).clone())
}

fn entry(driver: &str, claim: Value) -> Option<ClaimEntry> {
    let claim = with(claim, &json!({ "metadata": { "uid": CLAIM_UID, "resourceVersion": "42" } }));
    let projection = ClaimProjection::new(ProvisionerNames::of(driver));
    let json = claim.to_string().into_bytes();
    let record = projection.project(serde_json::from_slice(&json).unwrap());
    assert!(record.is_none() || projection.may_concern(&json), "kept, but refused in a first list");
    record
}

fn annotated(ga: Option<&str>, beta: Option<&str>, migrated_to: Option<&str>) -> Value {
    let annotations = json!({
        "volume.kubernetes.io/storage-provisioner": ga,
        "volume.beta.kubernetes.io/storage-provisioner": beta,
        "pv.kubernetes.io/migrated-to": migrated_to,
    });
    with(claim("data", "fast"), &json!({ "metadata": { "annotations": annotations } }))
}

/// Contract of the annotations, and the migration rows of the provision table.
#[test]
fn the_annotations_say_whose_the_claim_is() {
    let ebs = "ebs.csi.aws.com";
    let plugin = "kubernetes.io/aws-ebs";
    let ours = Some(AskedAs::Driver);
    let cases = [
        (ebs, None, None, None, None),
        (ebs, Some(ebs), None, None, ours),
        (ebs, None, Some(ebs), None, ours),
        (ebs, Some(ebs), Some("other"), None, ours),
        (ebs, Some("other"), Some(ebs), None, None),
        (ebs, None, Some("other"), None, None),
        (ebs, Some(plugin), None, Some(ebs), Some(AskedAs::InTree)),
        (ebs, None, Some(plugin), Some(ebs), Some(AskedAs::InTree)),
        (ebs, Some(ebs), None, Some(ebs), ours),
        (ebs, Some(ebs), None, Some("foo"), ours),
        (ebs, Some("foo"), None, Some("foo"), None),
        (ebs, Some(plugin), None, Some("foo"), None),
        (ebs, Some(plugin), None, None, None),
        (ebs, Some("foo"), None, Some(ebs), None),
        (DRIVER, Some(plugin), None, Some(DRIVER), None),
    ];
    assert_eq!(cases.len(), 15);
    for (driver, ga, beta, migrated_to, expected) in cases {
        let found = record(driver, annotated(ga, beta, migrated_to)).map(|claim| claim.asked_as);
        assert_eq!(found, expected, "driver {driver}, annotations {ga:?} {beta:?} {migrated_to:?}");
    }
}

#[test]
fn a_bound_claim_is_not_kept() {
    assert!(record(DRIVER, with(claim("data", "fast"), &json!({ "spec": { "volumeName": "pv" } }))).is_none());
    assert!(record(DRIVER, with(claim("data", "fast"), &json!({ "spec": { "volumeName": "" } }))).is_some());
}

#[test]
fn the_selected_node_is_read_from_the_present_key_and_empty_means_none() {
    let cases = [
        (json!({ "volume.kubernetes.io/selected-node": "n1" }), Some("n1")),
        (json!({ "volume.alpha.kubernetes.io/selected-node": "n2" }), None),
        (
            json!({ "volume.kubernetes.io/selected-node": "n1", "volume.alpha.kubernetes.io/selected-node": "n2" }),
            Some("n1"),
        ),
        (json!({ "volume.kubernetes.io/selected-node": "" }), None),
        (json!({}), None),
    ];
    assert_eq!(cases.len(), 5);
    for (annotations, expected) in cases {
        let claim = with(claim("data", "fast"), &json!({ "metadata": { "annotations": annotations } }));
        let found = record(DRIVER, claim).unwrap().selected_node;
        assert_eq!(found.as_ref().map(NodeName::as_str), expected, "{annotations}");
    }
}

#[test]
fn the_beta_annotation_names_the_class_but_the_field_labels_the_metrics() {
    let beta = json!({ "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "slow" } } });
    let record = record(DRIVER, with(claim("data", "fast"), &beta)).unwrap();
    assert_eq!((record.class.as_str(), record.class_label.as_str()), ("slow", "fast"));
}

/// In a first list of a large cluster nearly every claim is bound, and is skipped unparsed.
#[test]
fn a_bound_claim_does_not_concern_the_first_list_unless_it_is_protected() {
    let projection = ClaimProjection::new(ProvisionerNames::of(DRIVER));
    let concerns = |change: Value| {
        let json = with(annotated(Some(DRIVER), None, None), &change).to_string();
        projection.may_concern(json.as_bytes())
    };
    let finalizer = json!({ "metadata": { "finalizers": ["provisioner.storage.kubernetes.io/cloning-protection"] } });
    let quoted = json!({ "metadata": { "annotations": { "note": r#"{"volumeName":"pv"}"# } } });
    assert!(concerns(json!({})));
    assert!(concerns(json!({ "spec": { "volumeName": "" } })));
    assert!(concerns(quoted), "in a text it says nothing");
    assert!(!concerns(json!({ "spec": { "volumeName": "pv" } })));
    assert!(concerns(with(finalizer, &json!({ "spec": { "volumeName": "pv" } }))));
}
