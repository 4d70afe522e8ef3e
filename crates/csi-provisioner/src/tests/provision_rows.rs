//! Rows of the Go provisioner's own provision table, with its fixture: prefix `test`, five characters of the UID, 100 bytes.

use std::sync::Arc;

use csi_proto::csi::v1::volume_capability::AccessType;
use csi_proto::csi::v1::{CreateVolumeRequest, Volume};
use serde_json::{Value, json};
use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;
use storage_kube::volume_name::UuidLength;

use super::eligibility::{class_record, settings};
use super::objects::{DRIVER, claim, class, with};
use crate::create_volume::request::{Plan, plan};
use crate::error::{Disposition, Memory, PlanError, ProvisionError};
use crate::persistent_volume::persistent_volume;
use crate::settings::Settings;

fn fixture() -> Settings {
    let mut settings = settings();
    settings.flags.volume_name_prefix = "test".to_owned();
    settings.flags.uuid_length = UuidLength::from_flag(5).unwrap();
    settings
}

fn planned(settings: &Settings, uid: &str, change: &Value, class_object: Value) -> Result<Plan, PlanError> {
    let size = json!({ "spec": { "resources": { "requests": { "storage": "100" } } } });
    let object = with(with(claim("fake-pvc", "fast"), &size), change);
    let mut record = super::claims::record(DRIVER, object).unwrap();
    record.uid = ClaimUid(Uid::from(uid));
    plan(settings, &Arc::new(record), &class_record(class_object))
}

fn object_of(settings: &Settings, plan: &Plan) -> Value {
    persistent_volume(settings, plan, &Volume { volume_id: "test-volume-id".into(), ..Volume::default() })
}

fn parameters(request: &CreateVolumeRequest) -> Value {
    json!(request.parameters)
}

#[test]
fn parameters_and_file_system_of_the_table() {
    let metadata = json!({
        "csi.storage.k8s.io/pvc/name": "fake-pvc",
        "csi.storage.k8s.io/pvc/namespace": "shop",
        "csi.storage.k8s.io/pv/name": "test-testi",
        "fstype": "ext3",
    });
    let cases = [
        // parameters of the class, --default-fstype, --extra-create-metadata; fsType of the volume, parameters for the driver
        ("absent, default", json!({}), "ext4", false, json!("ext4"), json!({})),
        ("xfs, default", json!({ "fstype": "xfs" }), "ext4", false, json!("xfs"), json!({ "fstype": "xfs" })),
        ("absent, no default", json!({}), "", false, Value::Null, json!({})),
        ("xfs, no default", json!({ "fstype": "xfs" }), "", false, json!("xfs"), json!({ "fstype": "xfs" })),
        ("plain", json!({ "fstype": "ext3" }), "ext4", false, json!("ext3"), json!({ "fstype": "ext3" })),
        ("extra metadata", json!({ "fstype": "ext3" }), "ext4", true, json!("ext3"), metadata),
        ("prefixed alone", json!({ "csi.storage.k8s.io/fstype": "ext3" }), "ext4", false, json!("ext3"), json!({})),
    ];
    assert_eq!(cases.len(), 7);
    for (case, given, default, extra, fs_type, expected) in cases {
        let mut settings = fixture();
        settings.flags.default_fs_type = default.to_owned();
        settings.flags.extra_create_metadata = extra;
        let plan = planned(&settings, "testid", &json!({}), class("fast", given)).unwrap();
        let object = object_of(&settings, &plan);
        assert_eq!((plan.request.name.as_str(), &object["metadata"]["name"]), ("test-testi", &json!("test-testi")));
        assert_eq!(plan.request.capacity_range.unwrap().required_bytes, 100, "{case}");
        assert_eq!(object["spec"]["capacity"]["storage"], "100", "{case}");
        assert_eq!(object["spec"]["csi"]["fsType"], fs_type, "{case}");
        assert_eq!(parameters(&plan.request), expected, "{case}");
    }
}

#[test]
fn mount_options_go_to_the_driver_and_onto_the_volume() {
    let options = json!(["foo=bar", "baz=qux"]);
    let class = with(class("fast", json!({})), &json!({ "mountOptions": options }));
    let settings = fixture();
    let plan = planned(&settings, "testid", &json!({}), class).unwrap();
    let Some(AccessType::Mount(mount)) = &plan.request.volume_capabilities[0].access_type else {
        panic!("a mount capability");
    };
    assert_eq!(json!(mount.mount_flags), options);
    assert_eq!(object_of(&settings, &plan)["spec"]["mountOptions"], options);
}

#[test]
fn the_volume_takes_the_reclaim_policy_of_its_class() {
    let cases = [(json!("Retain"), json!("Retain")), (json!("Delete"), json!("Delete")), (Value::Null, Value::Null)];
    assert_eq!(cases.len(), 3);
    for (policy, expected) in cases {
        let class = with(class("fast", json!({})), &json!({ "reclaimPolicy": policy }));
        let settings = fixture();
        let object = object_of(&settings, &planned(&settings, "testid", &json!({}), class).unwrap());
        assert_eq!(object["spec"]["persistentVolumeReclaimPolicy"], expected);
        assert_eq!(object["metadata"]["finalizers"], json!(["external-provisioner.volume.kubernetes.io/finalizer"]));
    }
}

#[test]
fn claims_that_the_table_refuses_before_any_call() {
    let prefixed = |word: &str| format!("csi.storage.k8s.io/{word}");
    let secret = |name: &str| json!({ prefixed("provisioner-secret-name"): name, prefixed("provisioner-secret-namespace"): "ns" });
    let annotated = json!({ "metadata": { "annotations": { "akey": "avalue" } } });
    let bad_deprecated_key = json!({
        prefixed("secret-name"): "default-${pvc.annotations['akey']}",
        prefixed("secret-namespace"): "default-ns",
        "csiNodePublishSecretName": "bad",
    });
    let both = json!({ "fstype": "ext4", prefixed("fstype"): "ext3" });
    let cases = [
        ("fstype and prefixed fstype", "testid", json!({}), both, Memory::Forget),
        ("provisioner-secret-name empty", "testid", json!({}), secret(""), Memory::Unchanged),
        ("default secret and a bad deprecated key", "testid", annotated, bad_deprecated_key, Memory::Unchanged),
        ("selector", "testid", json!({ "spec": { "selector": { "matchLabels": {} } } }), json!({}), Memory::Forget),
        ("no UID", "", json!({}), json!({}), Memory::Forget),
        ("unknown reserved parameter", "testid", json!({}), json!({ prefixed("bim"): "x" }), Memory::Forget),
    ];
    assert_eq!(cases.len(), 6);
    for (case, uid, change, parameters, memory) in cases {
        let error = planned(&fixture(), uid, &change, class("fast", parameters)).expect_err(case);
        assert_eq!(ProvisionError::from(error).disposition(), Disposition::BackOff(memory), "{case}");
    }
}
