//! Whose a volume is, and what it needs: tables.

use std::sync::Arc;

use controller_runtime::Projection;
use serde_json::{Value, json};
use storage_kube::names::{ClassName, Interner};
use storage_kube::topology::Segment;
use storage_kube::volume_name::UuidLength;

use super::objects::{DRIVER, volume, with};
use crate::migration::ProvisionerNames;
use crate::records::volume::{DeletionSecret, VolumeClass, VolumeNaming, VolumeSource};
use crate::records::{VolumeProjection, VolumeRecord};
use crate::volume::decision::{VolumeDecision, VolumeWait, decide};

fn record(driver: &str, volume: Value) -> Option<VolumeRecord> {
    record_of_node(driver, None, volume)
}

pub(super) fn projection(driver: &str, place: Option<Segment>) -> VolumeProjection {
    VolumeProjection {
        names: ProvisionerNames::of(driver),
        interner: Arc::new(Interner::new()),
        place,
        naming: VolumeNaming::new("pvc", UuidLength::Full),
    }
}

/// As a provisioner of a node at this place keeps it.
pub(super) fn record_of_node(driver: &str, place: Option<Segment>, volume: Value) -> Option<VolumeRecord> {
    let projection = projection(driver, place);
    let json = volume.to_string().into_bytes();
    let record = projection.project(serde_json::from_slice(&json).unwrap());
    assert!(record.is_none() || projection.may_concern(&json), "kept, but refused in a first list");
    record
}

/// A volume that is for the claim of this UID.
pub(super) fn record_for(claim: &str) -> VolumeRecord {
    let claimed = json!({ "spec": { "claimRef": { "uid": claim } } });
    record(DRIVER, with(volume("pv", "h", "Bound", "Delete"), &claimed)).unwrap()
}

/// Contract "Responsible for PV?" and the rows of the library's table.
#[test]
fn who_is_responsible_for_a_volume() {
    let ebs = "ebs.csi.aws.com";
    let plugin = "kubernetes.io/aws-ebs";
    let annotations = |by: Option<&str>, to: Option<&str>| json!({ "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": by, "pv.kubernetes.io/migrated-to": to } } });
    let csi = |driver: &str| json!({ "spec": { "csi": { "driver": driver, "volumeHandle": "h" } } });
    let in_tree = json!({ "spec": { "csi": null, "awsElasticBlockStore": { "volumeID": "v" } } });
    let cases = [
        ("dynamic, ours", annotations(Some(ebs), None), csi(ebs), true),
        ("dynamic, by the in-tree name", annotations(Some(plugin), None), in_tree.clone(), true),
        ("dynamic, another's", annotations(Some("other"), None), csi("other"), false),
        ("dynamic, another's, migrated to us", annotations(Some("other"), Some(ebs)), in_tree.clone(), true),
        ("static CSI, ours", annotations(None, None), csi(ebs), true),
        ("static CSI, another's", annotations(None, None), csi("other"), false),
        ("static CSI, another's, migrated to us", annotations(None, Some(ebs)), csi("other"), false),
        ("static in-tree", annotations(None, None), in_tree.clone(), false),
        ("static in-tree, migrated to us", annotations(None, Some(ebs)), in_tree.clone(), true),
        ("static in-tree, migrated to another", annotations(None, Some("other")), in_tree, false),
    ];
    assert_eq!(cases.len(), 10);
    for (case, annotations, source, expected) in cases {
        let object = with(with(volume("pv", "h", "Bound", "Delete"), &annotations), &source);
        assert_eq!(record(ebs, object).is_some(), expected, "{case}");
    }
}

/// The claim that a volume names.
#[derive(Debug, Clone, Copy)]
enum For {
    Nobody,
    /// By name: a user's reservation.
    Name,
    /// With its UID.
    Claim,
}

fn needs(phase: &str, policy: &str, deleting: bool, protected: bool, claim: For) -> VolumeDecision {
    let mut object = volume("pv", "h", phase, policy);
    if deleting {
        object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
    }
    if !protected {
        object["metadata"]["finalizers"] = json!(["kubernetes.io/pv-protection"]);
    }
    match claim {
        For::Nobody => object["spec"]["claimRef"] = Value::Null,
        For::Name => object["spec"]["claimRef"]["uid"] = Value::Null,
        For::Claim => {}
    }
    decide(&record(DRIVER, object).unwrap())
}

/// Contract "Protection finalizer" and "shouldDelete", and what the Go provisioner is silent about.
#[test]
fn l3_every_phase_deletion_finalizer_and_policy_has_its_outcome() {
    use VolumeDecision::{Nothing, Protect, Reclaim, Tell, Unprotect};
    use VolumeWait::{Bound, Failed, NeverBound, Unknown, Unprotected};
    // Not deleted without and with our finalizer, deleted without and with it.
    let with_policy_delete = [
        ("Pending", [Nothing, Nothing, Tell(Unprotected), Tell(NeverBound)]),
        ("Available", [Nothing, Nothing, Tell(Unprotected), Tell(NeverBound)]),
        ("Bound", [Protect, Nothing, Tell(Unprotected), Tell(Bound)]),
        ("Released", [Reclaim, Reclaim, Tell(Unprotected), Reclaim]),
        ("Failed", [Tell(Failed), Tell(Failed), Tell(Unprotected), Reclaim]),
        ("Unheard", [Nothing, Nothing, Tell(Unprotected), Tell(Unknown)]),
    ];
    let states = [(false, false), (false, true), (true, false), (true, true)];
    let mut rows = 0;
    for (phase, delete) in with_policy_delete {
        let retain = [Nothing, Unprotect, Nothing, Unprotect];
        let unheard = [Nothing, Nothing, Nothing, Tell(Unknown)];
        for (policy, expected) in [("Delete", delete), ("Retain", retain), ("Recycle", retain), ("Unheard", unheard)] {
            for ((deleting, protected), expected) in states.into_iter().zip(expected) {
                let found = needs(phase, policy, deleting, protected, For::Claim);
                assert_eq!(found, expected, "{phase}, {policy}, deleting {deleting}, protected {protected}");
                rows += 1;
            }
        }
    }
    assert_eq!(rows, 6 * 4 * 4);
}

/// kube-controller-manager binds a deleted volume to nobody, but for one that is reserved by name.
#[test]
fn l3_the_claim_decides_about_a_volume_deleted_before_it_was_bound() {
    let cases = [
        (For::Nobody, VolumeDecision::Reclaim),
        (For::Name, VolumeDecision::Tell(VolumeWait::Reserved)),
        (For::Claim, VolumeDecision::Tell(VolumeWait::NeverBound)),
    ];
    assert_eq!(cases.len(), 3);
    for (claim, expected) in cases {
        for phase in ["Pending", "Available"] {
            assert_eq!(needs(phase, "Delete", true, true, claim), expected, "{phase}, {claim:?}");
            assert_eq!(needs(phase, "Delete", false, true, claim), VolumeDecision::Nothing, "{phase}, {claim:?}");
        }
        assert_eq!(needs("Released", "Delete", true, true, claim), VolumeDecision::Reclaim, "{claim:?}");
    }
}

/// Nearly every volume has its class in the field alone.
#[test]
fn l15_the_class_of_a_volume_takes_no_more_memory_for_its_annotation() {
    assert_eq!(size_of::<VolumeClass>(), size_of::<ClassName>());
}

#[test]
fn the_annotations_name_the_secret_of_the_deletion() {
    let annotated = |name: Option<&str>, namespace: Option<&str>| {
        let annotations = json!({
            "volume.kubernetes.io/provisioner-deletion-secret-name": name,
            "volume.kubernetes.io/provisioner-deletion-secret-namespace": namespace,
        });
        let object =
            with(volume("pv", "h", "Released", "Delete"), &json!({ "metadata": { "annotations": annotations } }));
        match record(DRIVER, object).unwrap().deletion_secret {
            DeletionSecret::Named(secret) => secret.to_string(),
            DeletionSecret::None => "none".to_owned(),
            DeletionSecret::AskClass => "class".to_owned(),
        }
    };
    assert_eq!(annotated(Some("n"), Some("ns")), "ns/n");
    assert_eq!(annotated(Some(""), Some("")), "none");
    assert_eq!(annotated(Some("n"), Some("")), "none");
    assert_eq!(annotated(Some("n"), None), "class");
    assert_eq!(annotated(None, None), "class");
}

#[test]
fn a_volume_of_another_driver_under_our_annotation_is_recognised() {
    let other = json!({ "spec": { "csi": { "driver": "other", "volumeHandle": "h" } } });
    let record = record(DRIVER, with(volume("pv", "h", "Released", "Delete"), &other)).unwrap();
    assert!(matches!(record.source, VolumeSource::OtherDriver(driver) if &*driver == "other"));
}
