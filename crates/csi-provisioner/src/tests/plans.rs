//! Claim and class → request and volume object: tables, and the full shapes as snapshots.

use std::sync::Arc;

use csi_proto::Sanitize as _;
use csi_proto::csi::v1::Volume;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use serde_json::{Value, json};
use storage_kube::access_mode::Mapping;
use storage_kube::volume_name::UuidLength;

use super::eligibility::{class_record, settings};
use super::objects::{DRIVER, claim, class, with};
use crate::create_volume::request::{Plan, plan};
use crate::error::{Disposition, ProvisionError};
use crate::error::{Memory, PlanError};
use crate::persistent_volume::persistent_volume;
use crate::settings::Settings;

fn make(settings: &Settings, claim_object: Value, class_object: Value) -> Result<Plan, PlanError> {
    let claim = Arc::new(super::claims::record(DRIVER, claim_object).unwrap());
    plan(settings, &claim, &class_record(class_object))
}

fn answered() -> Volume {
    Volume { volume_id: "test-volume-id".into(), ..Volume::default() }
}

fn object(settings: &Settings, claim_object: Value, class_object: Value) -> Value {
    persistent_volume(settings, &make(settings, claim_object, class_object).unwrap(), &answered())
}

fn everything() -> (Settings, Value, Value) {
    let mut settings = settings();
    settings.flags.extra_create_metadata = true;
    let parameters = json!({
        "tier": "gold",
        "csi.storage.k8s.io/fstype": "xfs",
        "csi.storage.k8s.io/provisioner-secret-name": "${pvc.annotations['team']}-create",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
        "csi.storage.k8s.io/controller-publish-secret-name": "publish",
        "csi.storage.k8s.io/controller-publish-secret-namespace": "vault",
        "csi.storage.k8s.io/node-stage-secret-name": "stage-${pv.name}",
        "csi.storage.k8s.io/node-stage-secret-namespace": "vault",
        "csiNodePublishSecretName": "node-publish",
        "csiNodePublishSecretNamespace": "vault",
        "csi.storage.k8s.io/controller-expand-secret-name": "expand",
        "csi.storage.k8s.io/controller-expand-secret-namespace": "vault",
        "csi.storage.k8s.io/node-expand-secret-name": "node-expand",
        "csi.storage.k8s.io/node-expand-secret-namespace": "vault",
        "csi.storage.k8s.io/controller-modify-secret-name": "modify",
        "csi.storage.k8s.io/controller-modify-secret-namespace": "vault",
    });
    let claim = with(claim("data", "fast"), &json!({ "metadata": { "annotations": { "team": "blue" } } }));
    let class =
        with(class("fast", parameters), &json!({ "mountOptions": ["foo=bar", "baz=qux"], "reclaimPolicy": "Retain" }));
    (settings, claim, class)
}

#[test]
fn the_request_in_full() {
    let (settings, claim, class) = everything();
    let plan = make(&settings, claim, class).unwrap();
    let request: Value = serde_json::from_str(&plan.request.sanitized()).unwrap();
    insta::assert_json_snapshot!(request);
}

#[test]
fn the_volume_object_in_full() {
    let (settings, claim, class) = everything();
    let plan = make(&settings, claim, class).unwrap();
    let volume = Volume {
        volume_context: [("iqn".to_owned(), "iqn.2026-01.com.example:1".to_owned())].into(),
        capacity_bytes: 5_905_580_032,
        ..answered()
    };
    insta::assert_json_snapshot!(persistent_volume(&settings, &plan, &volume));
}

#[test]
fn a_plain_volume_has_just_the_two_deletion_annotations_and_its_identity() {
    let object = object(&settings(), claim("data", "fast"), class("fast", json!({ "fstype": "ext3" })));
    let annotations = json!({
        "pv.kubernetes.io/provisioned-by": DRIVER,
        "volume.kubernetes.io/provisioner-deletion-secret-name": "",
        "volume.kubernetes.io/provisioner-deletion-secret-namespace": "",
    });
    assert_eq!(object["metadata"]["annotations"], annotations);
    assert_eq!(
        object["spec"]["csi"]["volumeAttributes"],
        json!({ "storage.kubernetes.io/csiProvisionerIdentity": "test-provisioner" })
    );
    assert_eq!(object["spec"]["csi"]["fsType"], "ext3");
}

#[test]
fn the_file_system_of_the_volume() {
    let cases = [
        (json!({}), "ext4", "Filesystem", json!("ext4")),
        (json!({ "fstype": "xfs" }), "ext4", "Filesystem", json!("xfs")),
        (json!({}), "", "Filesystem", Value::Null),
        (json!({ "csi.storage.k8s.io/fstype": "xfs" }), "", "Filesystem", json!("xfs")),
        (json!({ "fstype": "xfs" }), "ext4", "Block", Value::Null),
    ];
    assert_eq!(cases.len(), 5);
    for (parameters, default, mode, expected) in cases {
        let mut settings = settings();
        settings.flags.default_fs_type = default.to_owned();
        let claim = with(claim("data", "fast"), &json!({ "spec": { "volumeMode": mode } }));
        let object = object(&settings, claim, class("fast", parameters.clone()));
        assert_eq!(object["spec"]["csi"]["fsType"], expected, "{parameters}, default {default:?}, {mode}");
        assert_eq!(object["spec"]["volumeMode"], mode);
    }
}

#[test]
fn access_modes_map_one_by_one_and_in_order() {
    let cases = [
        (json!(["ReadWriteMany"]), Mapping::Basic, vec![Mode::MultiNodeMultiWriter]),
        (json!(["ReadOnlyMany"]), Mapping::Basic, vec![Mode::MultiNodeReaderOnly]),
        (json!(["ReadWriteOnce"]), Mapping::Basic, vec![Mode::SingleNodeWriter]),
        (json!(["ReadWriteOnce"]), Mapping::SingleNodeMultiWriter, vec![Mode::SingleNodeMultiWriter]),
        (json!(["ReadWriteOncePod"]), Mapping::SingleNodeMultiWriter, vec![Mode::SingleNodeSingleWriter]),
        (
            json!(["ReadOnlyMany", "ReadWriteOnce"]),
            Mapping::Basic,
            vec![Mode::MultiNodeReaderOnly, Mode::SingleNodeWriter],
        ),
        (json!([]), Mapping::Basic, vec![]),
    ];
    assert_eq!(cases.len(), 7);
    for (modes, mapping, expected) in cases {
        let mut settings = settings();
        settings.driver.access_modes = mapping;
        let claim = with(claim("data", "fast"), &json!({ "spec": { "accessModes": modes } }));
        let plan = make(&settings, claim, class("fast", json!({}))).unwrap();
        let found: Vec<_> =
            plan.request.volume_capabilities.iter().map(|one| one.access_mode.unwrap().mode()).collect();
        assert_eq!(found, expected, "{modes}");
        assert_eq!(persistent_volume(&settings, &plan, &answered())["spec"]["accessModes"], modes);
    }
}

#[test]
fn read_only_volumes_are_marked_when_the_flag_asks_for_it() {
    let cases = [
        (json!(["ReadOnlyMany"]), false, Value::Null),
        (json!(["ReadOnlyMany"]), true, json!(true)),
        (json!(["ReadOnlyMany", "ReadWriteOnce"]), true, Value::Null),
        (json!(["ReadWriteOnce"]), true, Value::Null),
    ];
    assert_eq!(cases.len(), 4);
    for (modes, flag, expected) in cases {
        let mut settings = settings();
        settings.flags.publish_readonly = flag;
        let claim = with(claim("data", "fast"), &json!({ "spec": { "accessModes": modes } }));
        let object = object(&settings, claim, class("fast", json!({})));
        assert_eq!(object["spec"]["csi"]["readOnly"], expected, "{modes}, flag {flag}");
    }
}

#[test]
fn a_default_secret_serves_all_calls() {
    let cases = [("default", "default"), ("default-${pvc.name}", "default-data")];
    assert_eq!(cases.len(), 2);
    for (template, name) in cases {
        let parameters = json!({
            "csi.storage.k8s.io/secret-name": template,
            "csi.storage.k8s.io/secret-namespace": "vault",
        });
        let object = object(&settings(), claim("data", "fast"), class("fast", parameters));
        let reference = json!({ "name": name, "namespace": "vault" });
        for field in [
            "controllerPublishSecretRef",
            "nodeStageSecretRef",
            "nodePublishSecretRef",
            "controllerExpandSecretRef",
            "nodeExpandSecretRef",
        ] {
            assert_eq!(object["spec"]["csi"][field], reference, "{field}");
        }
        for key in ["provisioner-deletion-secret", "controller-modify-secret"] {
            assert_eq!(object["metadata"]["annotations"][format!("volume.kubernetes.io/{key}-name")], name);
            assert_eq!(object["metadata"]["annotations"][format!("volume.kubernetes.io/{key}-namespace")], "vault");
        }
    }
}

#[test]
fn what_cannot_be_planned_says_why_and_whether_the_memory_of_a_call_is_dropped() {
    let claim_with = |spec: Value| with(claim("data", "fast"), &json!({ "spec": spec }));
    let plain = || class("fast", json!({}));
    let mut no_provisioning = settings();
    no_provisioning.driver.provisions = false;
    let mut no_prefix = settings();
    no_prefix.flags.volume_name_prefix = String::new();
    let mut long_name = settings();
    long_name.flags.uuid_length = UuidLength::from_flag(99).unwrap();
    let cases = [
        (no_provisioning, claim("data", "fast"), plain(), Memory::Forget, "CONTROLLER_SERVICE"),
        (settings(), claim_with(json!({ "selector": {} })), plain(), Memory::Forget, "selector"),
        (no_prefix, claim("data", "fast"), plain(), Memory::Forget, "prefix"),
        (long_name, claim("data", "fast"), plain(), Memory::Forget, "99"),
        (
            settings(),
            claim("data", "fast"),
            class("fast", json!({ "fstype": "a", "csi.storage.k8s.io/fstype": "b" })),
            Memory::Forget,
            "fstype",
        ),
        (settings(), claim_with(json!({ "accessModes": ["ReadSometimes"] })), plain(), Memory::Forget, "ReadSometimes"),
        (
            settings(),
            claim_with(json!({ "resources": { "requests": { "storage": "16Ei" } } })),
            plain(),
            Memory::Forget,
            "16Ei",
        ),
        (
            settings(),
            claim_with(json!({ "resources": { "requests": { "storage": "much" } } })),
            plain(),
            Memory::Forget,
            "much",
        ),
        (
            settings(),
            claim("data", "fast"),
            class("fast", json!({ "csi.storage.k8s.io/bim": "x" })),
            Memory::Forget,
            "csi.storage.k8s.io/bim",
        ),
        (
            settings(),
            claim("data", "fast"),
            class(
                "fast",
                json!({ "csi.storage.k8s.io/provisioner-secret-name": "", "csi.storage.k8s.io/provisioner-secret-namespace": "" }),
            ),
            Memory::Unchanged,
            "provisioner-secret",
        ),
        (
            settings(),
            claim("data", "fast"),
            class(
                "fast",
                json!({ "csi.storage.k8s.io/node-stage-secret-name": "${pvc.uid}", "csi.storage.k8s.io/node-stage-secret-namespace": "vault" }),
            ),
            Memory::Unchanged,
            "pvc.uid",
        ),
    ];
    assert_eq!(cases.len(), 11);
    for (settings, claim, class, memory, named) in cases {
        let error = make(&settings, claim, class).expect_err(named);
        let text = error.to_string();
        assert!(text.contains(named), "{text}");
        assert_eq!(ProvisionError::from(error).disposition(), Disposition::BackOff(memory), "{text}");
    }
}

#[test]
fn a_claim_without_a_size_asks_for_none() {
    let claim = with(claim("data", "fast"), &json!({ "spec": { "resources": null } }));
    let plan = make(&settings(), claim, class("fast", json!({}))).unwrap();
    assert_eq!(plan.request.capacity_range.unwrap().required_bytes, 0);
}
