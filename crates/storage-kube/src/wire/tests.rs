#![allow(clippy::unwrap_used)]

use k8s_openapi::{api, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde_json::{Value, json};

use super::*;
use crate::in_tree::InTreePlugin;

fn metadata(extra: &Value) -> Value {
    let mut metadata = json!({
        "name": "n", "namespace": "ns", "uid": "u", "resourceVersion": "7",
        "creationTimestamp": "2026-01-01T00:00:00Z", "generation": 3,
        "labels": { "l": "v" },
        "ownerReferences": [{ "apiVersion": "v1", "kind": "Pod", "name": "p", "uid": "x" }],
        "managedFields": [{ "manager": "m", "operation": "Update", "fieldsV1": { "f:spec": { "f:x": {} } } }],
    });
    for (key, value) in extra.as_object().unwrap() {
        metadata[key] = value.clone();
    }
    metadata
}

fn decode<T: serde::de::DeserializeOwned>(value: &Value) -> T {
    serde_json::from_str(&value.to_string()).unwrap()
}

#[test]
fn metadata_keeps_what_rules_read_and_drops_the_rest() {
    let attachment: VolumeAttachment = decode(&json!({
        "apiVersion": "storage.k8s.io/v1", "kind": "VolumeAttachment",
        "metadata": metadata(&json!({
            "annotations": { "a": "b" }, "finalizers": ["f1", "f2"], "deletionTimestamp": "2026-01-02T00:00:00Z",
        })),
    }));
    let kept = attachment.meta();
    assert!(kept.deletion_timestamp.is_some());
    assert_eq!(
        *kept,
        ObjectMeta {
            name: Some("n".into()),
            namespace: Some("ns".into()),
            uid: Some("u".into()),
            resource_version: Some("7".into()),
            annotations: Some([("a".to_owned(), "b".to_owned())].into()),
            finalizers: Some(vec!["f1".into(), "f2".into()]),
            deletion_timestamp: kept.deletion_timestamp.clone(),
            ..ObjectMeta::default()
        }
    );
}

#[test]
fn resources_are_those_of_the_full_types() {
    fn same<Slim, Full>() -> String
    where
        Slim: Resource<DynamicType = ()>,
        Full: Resource<DynamicType = ()>,
    {
        assert_eq!(Slim::kind(&()), Full::kind(&()));
        assert_eq!(Slim::api_version(&()), Full::api_version(&()));
        assert_eq!(Slim::url_path(&(), Some("ns")), Full::url_path(&(), Some("ns")));
        Slim::url_path(&(), None)
    }
    assert_eq!(same::<PersistentVolume, api::core::v1::PersistentVolume>(), "/api/v1/persistentvolumes");
    assert_eq!(same::<PersistentVolumeClaim, api::core::v1::PersistentVolumeClaim>(), "/api/v1/persistentvolumeclaims");
    assert_eq!(same::<StorageClass, api::storage::v1::StorageClass>(), "/apis/storage.k8s.io/v1/storageclasses");
    assert_eq!(
        same::<VolumeAttachment, api::storage::v1::VolumeAttachment>(),
        "/apis/storage.k8s.io/v1/volumeattachments"
    );
    assert_eq!(same::<CsiNode, api::storage::v1::CSINode>(), "/apis/storage.k8s.io/v1/csinodes");
    assert_eq!(
        same::<VolumeAttributesClass, api::storage::v1::VolumeAttributesClass>(),
        "/apis/storage.k8s.io/v1/volumeattributesclasses"
    );
}

/// As in `config/crd` of the external-snapshotter and of the gateway API.
#[test]
fn custom_resources_are_those_of_their_definitions() {
    fn path<K: Resource<DynamicType = ()>>() -> (String, String) {
        (K::kind(&()).into_owned(), K::url_path(&(), None))
    }
    let snapshots = "/apis/snapshot.storage.k8s.io/v1";
    assert_eq!(path::<VolumeSnapshot>(), ("VolumeSnapshot".into(), format!("{snapshots}/volumesnapshots")));
    assert_eq!(
        path::<VolumeSnapshotContent>(),
        ("VolumeSnapshotContent".into(), format!("{snapshots}/volumesnapshotcontents"))
    );
    assert_eq!(
        path::<ReferenceGrant>(),
        ("ReferenceGrant".into(), "/apis/gateway.networking.k8s.io/v1beta1/referencegrants".into())
    );
    let here = VolumeSnapshot::url_path(&(), Some("ns"));
    assert_eq!(here, format!("{snapshots}/namespaces/ns/volumesnapshots"));
}

#[test]
fn a_snapshot_and_its_content() {
    let snapshot: VolumeSnapshot = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": { "volumeSnapshotClassName": "c", "source": { "persistentVolumeClaimName": "data" } },
        "status": { "boundVolumeSnapshotContentName": "content", "readyToUse": true, "restoreSize": "5Gi", "error": null },
    }));
    let status = snapshot.status.unwrap();
    assert_eq!(status.bound_volume_snapshot_content_name.as_deref(), Some("content"));
    assert_eq!((status.ready_to_use, status.restore_size.as_deref()), (Some(true), Some("5Gi")));
    assert_eq!(snapshot.spec.source.volume_snapshot_content_name, None);
    let content: VolumeSnapshotContent = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": {
            "driver": "d", "deletionPolicy": "Delete", "source": { "snapshotHandle": "h" }, "sourceVolumeMode": "Block",
            "volumeSnapshotRef": { "kind": "VolumeSnapshot", "namespace": "ns", "name": "n", "uid": "u" },
        },
        "status": { "snapshotHandle": "h", "creationTime": 1, "readyToUse": true, "restoreSize": 5 },
    }));
    assert_eq!((content.spec.driver.as_str(), content.spec.source_volume_mode), ("d", Some(VolumeMode::Block)));
    let reference = VolumeSnapshotReference { namespace: "ns".into(), name: "n".into(), uid: Some("u".into()) };
    assert_eq!(content.spec.volume_snapshot_ref, reference);
    assert_eq!(content.status.unwrap().snapshot_handle.as_deref(), Some("h"));
}

#[test]
fn a_restore_size_is_a_text_or_a_number_and_may_be_missing() {
    for (written, read) in
        [(json!("5Gi"), Some("5Gi")), (json!(5_368_709_120_u64), Some("5368709120")), (Value::Null, None)]
    {
        let status: VolumeSnapshotStatus = decode(&json!({ "restoreSize": written }));
        assert_eq!(status.restore_size.as_deref(), read);
    }
    let bare: VolumeSnapshot = decode(&json!({ "metadata": { "name": "n" }, "status": null }));
    assert!(bare.status.is_none());
}

#[test]
fn a_grant_and_a_class_of_attributes() {
    let grant: ReferenceGrant = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": {
            "from": [{ "group": "", "kind": "PersistentVolumeClaim", "namespace": "a" }],
            "to": [{ "group": "g", "kind": "K", "name": null }, { "group": "g", "kind": "K", "name": "n" }],
        },
    }));
    let from = GrantedFrom { group: String::new(), kind: "PersistentVolumeClaim".into(), namespace: "a".into() };
    assert_eq!(grant.spec.from, [from]);
    let names: Vec<_> = grant.spec.to.iter().map(|to| to.name.as_deref()).collect();
    assert_eq!(names, [None, Some("n")]);
    let class: VolumeAttributesClass = decode(&json!({
        "metadata": metadata(&json!({})), "driverName": "d", "parameters": { "iops": "4000" },
    }));
    assert_eq!((class.driver_name.as_str(), class.parameters["iops"].as_str()), ("d", "4000"));
}

#[test]
fn a_claim() {
    let claim: PersistentVolumeClaim = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": {
            "accessModes": ["ReadOnlyMany", "ReadWriteOnce", "Later"],
            "resources": { "requests": { "storage": "5Gi", "iops": "7" }, "limits": { "storage": "6Gi" } },
            "storageClassName": "fast", "volumeMode": "Block", "volumeName": "pv1",
            "selector": {},
            "dataSource": { "apiGroup": null, "kind": "PersistentVolumeClaim", "name": "src" },
            "dataSourceRef": { "apiGroup": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot", "name": "snap", "namespace": "other" },
            "volumeAttributesClassName": "gold",
        },
        "status": { "phase": "Bound", "capacity": { "storage": "5Gi" } },
    }));
    let spec = &claim.spec;
    assert_eq!(
        spec.access_modes,
        [AccessMode::ReadOnlyMany, AccessMode::ReadWriteOnce, AccessMode::Unknown("Later".into())]
    );
    assert_eq!(spec.resources.requests.storage.as_deref(), Some("5Gi"));
    assert_eq!(claim.class_name(), "fast");
    assert_eq!(spec.volume_mode, Some(VolumeMode::Block));
    assert_eq!(spec.volume_name.as_deref(), Some("pv1"));
    assert!(spec.has_selector);
    assert_eq!(
        spec.data_source,
        Some(DataSource { api_group: None, kind: "PersistentVolumeClaim".into(), name: "src".into(), namespace: None })
    );
    assert_eq!(
        spec.data_source_ref,
        Some(DataSource {
            api_group: Some("snapshot.storage.k8s.io".into()),
            kind: "VolumeSnapshot".into(),
            name: "snap".into(),
            namespace: Some("other".into()),
        })
    );
    assert_eq!(spec.volume_attributes_class_name.as_deref(), Some("gold"));
    assert_eq!(claim.status.phase, Some(ClaimPhase::Bound));
}

#[test]
fn a_volume() {
    let volume: PersistentVolume = decode(&json!({
        "metadata": metadata(&json!({ "annotations": { "volume.beta.kubernetes.io/storage-class": "beta" } })),
        "spec": {
            "capacity": { "storage": "5Gi" },
            "claimRef": { "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": "ns", "name": "c", "uid": "cu", "resourceVersion": "3" },
            "csi": { "driver": "d", "volumeHandle": "h", "fsType": "ext4", "volumeAttributes": { "k": "v" } },
            "storageClassName": "fast", "persistentVolumeReclaimPolicy": "Delete",
            "nodeAffinity": { "required": { "nodeSelectorTerms": [] } },
        },
        "status": { "phase": "Released" },
    }));
    let claim = ClaimReference { namespace: "ns".into(), name: "c".into(), uid: Some("cu".into()) };
    assert_eq!(volume.spec.claim_ref, Some(claim));
    let csi = volume.spec.csi.as_ref().unwrap();
    assert_eq!((csi.driver.as_str(), csi.volume_handle.as_str()), ("d", "h"));
    assert_eq!(volume.spec.reclaim_policy, Some(ReclaimPolicy::Delete));
    assert_eq!(volume.status.phase, Some(VolumePhase::Released));
    assert_eq!(volume.class_name(), "beta");
}

#[test]
fn a_class_and_an_attachment() {
    let class: StorageClass = decode(&json!({
        "metadata": metadata(&json!({})),
        "provisioner": "d", "parameters": { "fstype": "xfs" }, "reclaimPolicy": "Retain", "mountOptions": ["a", "b"],
        "volumeBindingMode": "WaitForFirstConsumer", "allowVolumeExpansion": true,
        "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": ["a", "b"] }] }],
    }));
    assert_eq!(class.provisioner, "d");
    assert_eq!(class.parameters["fstype"], "xfs");
    assert_eq!(class.reclaim_policy, Some(ReclaimPolicy::Retain));
    assert_eq!(class.mount_options, ["a", "b"]);
    assert_eq!(class.volume_binding_mode, Some(BindingMode::WaitForFirstConsumer));
    let zones = LabelValues { key: "zone".into(), values: vec!["a".into(), "b".into()] };
    assert_eq!(class.allowed_topologies, [AllowedTopology { match_label_expressions: vec![zones] }]);

    let attachment: VolumeAttachment = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": { "attacher": "d", "nodeName": "node", "source": { "persistentVolumeName": "pv1" } },
        "status": { "attached": true },
    }));
    assert_eq!(attachment.spec.attacher, "d");
    assert_eq!(attachment.spec.source.persistent_volume_name.as_deref(), Some("pv1"));
}

#[test]
fn absent_fields_and_nulls_are_the_same() {
    for body in [
        json!({ "metadata": {} }),
        json!({ "metadata": { "annotations": null, "deletionTimestamp": null, "finalizers": null }, "spec": null, "status": null }),
        json!({ "metadata": {}, "spec": {}, "status": {} }),
        json!({ "metadata": {}, "status": { "phase": null }, "spec": {
            "accessModes": null, "resources": null, "storageClassName": null, "volumeMode": null, "volumeName": null,
            "selector": null, "dataSource": null, "dataSourceRef": null, "claimRef": null, "csi": null,
            "persistentVolumeReclaimPolicy": null, "source": null,
        } }),
        json!({ "metadata": {}, "spec": { "resources": { "requests": null }, "source": { "persistentVolumeName": null } },
            "parameters": null, "reclaimPolicy": null, "mountOptions": null, "volumeBindingMode": null, "allowedTopologies": null }),
        json!({ "metadata": {}, "allowedTopologies": [] }),
    ] {
        let claim: PersistentVolumeClaim = decode(&body);
        assert!(claim.spec.access_modes.is_empty() && !claim.spec.has_selector && claim.spec.data_source.is_none());
        assert_eq!((claim.class_name(), claim.status.phase), ("", None));
        assert_eq!(claim.spec.resources.requests.storage, None);
        let volume: PersistentVolume = decode(&body);
        assert!(volume.spec.csi.is_none() && volume.spec.claim_ref.is_none() && volume.spec.reclaim_policy.is_none());
        assert_eq!((volume.class_name(), volume.status.phase), ("", None));
        let class: StorageClass = decode(&body);
        assert!(class.parameters.is_empty() && class.mount_options.is_empty() && class.allowed_topologies.is_empty());
        let attachment: VolumeAttachment = decode(&body);
        assert_eq!(attachment.spec.source.persistent_volume_name, None);
        assert_eq!(attachment.metadata, ObjectMeta::default());
    }
}

#[test]
fn values_of_a_later_kubernetes_do_not_break_decoding() {
    let volume: PersistentVolume = decode(&json!({
        "metadata": {}, "spec": { "persistentVolumeReclaimPolicy": "Archive" }, "status": { "phase": "" },
    }));
    assert_eq!(volume.spec.reclaim_policy, Some(ReclaimPolicy::Other));
    assert_eq!(volume.status.phase, Some(VolumePhase::Other));
}

#[test]
fn wrong_types_are_errors() {
    let rows = [
        json!({}),
        json!({ "metadata": null }),
        json!({ "metadata": { "name": 7 } }),
        json!({ "metadata": {}, "spec": { "accessModes": "ReadWriteOnce" } }),
        json!({ "metadata": {}, "spec": { "resources": { "requests": { "storage": {} } } } }),
        json!({ "metadata": {}, "spec": [1] }),
    ];
    assert_eq!(rows.len(), 6);
    for body in rows {
        assert!(serde_json::from_value::<PersistentVolumeClaim>(body.clone()).is_err(), "{body}");
    }
}

#[test]
fn slim_types_are_small() {
    assert!(size_of::<PersistentVolume>() < 850, "{}", size_of::<PersistentVolume>());
    assert!(size_of::<PersistentVolumeClaim>() < 900, "{}", size_of::<PersistentVolumeClaim>());
}

#[test]
fn what_an_attacher_reads() {
    let volume: PersistentVolume = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": {
            "accessModes": ["ReadWriteOnce"], "mountOptions": ["noatime"], "volumeMode": "Block",
            "csi": {
                "driver": "d", "volumeHandle": "h", "fsType": "xfs", "readOnly": true, "volumeAttributes": { "k": "v" },
                "controllerPublishSecretRef": { "name": "s", "namespace": "n" }, "nodeStageSecretRef": { "name": "x" },
            },
        },
    }));
    let (spec, csi) = (&volume.spec, volume.spec.csi.as_ref().unwrap());
    assert_eq!(spec.access_modes, [AccessMode::ReadWriteOnce]);
    assert_eq!(spec.mount_options, ["noatime"]);
    assert_eq!(spec.volume_mode, Some(VolumeMode::Block));
    assert_eq!((csi.fs_type.as_deref(), csi.read_only, csi.volume_attributes["k"].as_str()), (Some("xfs"), true, "v"));
    let secret = SecretReference { name: "s".into(), namespace: "n".into() };
    assert_eq!(csi.controller_publish_secret_ref, Some(secret));

    let attachment: VolumeAttachment = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": { "attacher": "d", "nodeName": "node", "source": { "inlineVolumeSpec": { "csi": { "volumeHandle": "h" } } } },
        "status": { "attached": false, "attachError": { "message": "m" }, "attachmentMetadata": { "dev": "sda" } },
    }));
    let inline = attachment.spec.source.inline_volume_spec.as_ref().unwrap();
    assert_eq!(inline.csi.as_ref().unwrap().volume_handle, "h");
    assert_eq!(attachment.spec.node_name, "node");
    let status = &attachment.status;
    assert!(!status.attached && status.attach_error && !status.detach_error);
    assert_eq!(status.attachment_metadata["dev"], "sda");

    let node: CsiNode = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": { "drivers": [{ "name": "d", "nodeID": "id", "topologyKeys": ["zone"], "allocatable": { "count": 3 } }] },
    }));
    assert_eq!((node.spec.drivers[0].name.as_str(), node.spec.drivers[0].node_id.as_str()), ("d", "id"));
}

#[test]
fn the_source_of_a_plugin_is_known_under_every_name_of_its_id() {
    let rows = [
        ("awsElasticBlockStore", "volumeID", Some(InTreePlugin::AwsEbs)),
        ("gcePersistentDisk", "pdName", Some(InTreePlugin::GcePd)),
        ("cinder", "volumeID", Some(InTreePlugin::Cinder)),
        ("azureDisk", "diskURI", Some(InTreePlugin::AzureDisk)),
        ("azureFile", "id", Some(InTreePlugin::AzureFile)),
        ("vsphereVolume", "volumePath", Some(InTreePlugin::Vsphere)),
        ("portworxVolume", "volumeID", Some(InTreePlugin::Portworx)),
        ("csi", "volumeHandle", None),
        ("nfs", "path", None),
    ];
    assert_eq!(rows.len(), 9);
    for (field, id, plugin) in rows {
        let metadata = metadata(&json!({}));
        let volume: PersistentVolume = decode(&json!({ "metadata": metadata, "spec": { field: { id: "x" } } }));
        let found = volume.spec.in_tree_source();
        assert_eq!(found.map(|(plugin, source)| (plugin, source.id.as_str())), plugin.map(|plugin| (plugin, "x")));
        assert_eq!(volume.metadata.labels, Some([("l".to_owned(), "v".to_owned())].into()), "they say where it is");
    }
    let nulls = json!({ "volumeID": null, "fsType": null, "readOnly": null, "partition": null, "secretRef": {} });
    let volume: PersistentVolume = decode(&json!({ "metadata": {}, "spec": { "cinder": nulls } }));
    assert_eq!(volume.spec.in_tree_source(), Some((InTreePlugin::Cinder, &InTreeSource::default())));
}

#[test]
fn a_capacity_keeps_what_it_is_about_and_whose_it_is() {
    let object: CsiStorageCapacity = decode(&json!({
        "metadata": metadata(&json!({})), "storageClassName": "fast",
        "nodeTopology": { "matchLabels": { "zone": "a" }, "matchExpressions": [] },
        "capacity": "1Gi", "maximumVolumeSize": null,
    }));
    assert_eq!(object.metadata.labels.as_ref().unwrap()["l"], "v");
    assert_eq!(object.metadata.owner_references.as_ref().unwrap()[0].uid, "x");
    assert!(object.metadata.creation_timestamp.is_some() && object.metadata.managed_fields.is_none());
    let topology = object.node_topology.unwrap();
    assert_eq!((topology.match_labels["zone"].as_str(), topology.match_expressions), ("a", false));
    assert_eq!((object.capacity.as_deref(), object.maximum_volume_size), (Some("1Gi"), None));
    let expression = json!({ "key": "zone", "operator": "Exists" });
    let object: CsiStorageCapacity = decode(&json!({
        "metadata": { "name": "n" }, "storageClassName": "fast", "nodeTopology": { "matchExpressions": [expression] },
    }));
    assert!(object.node_topology.unwrap().match_expressions && object.capacity.is_none());
    let object: CsiStorageCapacity = decode(&json!({ "metadata": { "name": "n" }, "nodeTopology": null }));
    assert_eq!(object.node_topology, None);
}

#[test]
fn the_reach_of_a_volume_is_its_affinity() {
    let term = json!({ "matchExpressions": [{ "key": "zone", "operator": "In", "values": ["a"] }] });
    let affinity =
        json!({ "required": { "nodeSelectorTerms": [term, { "matchFields": [{ "key": "metadata.name" }] }] } });
    let volume: VolumeReach = decode(&json!({
        "metadata": metadata(&json!({})), "spec": { "csi": { "driver": "d" }, "nodeAffinity": affinity },
    }));
    let terms = volume.spec.node_affinity.unwrap().required.unwrap().node_selector_terms;
    assert_eq!(terms[0].match_expressions[0].values, ["a"]);
    assert_eq!((terms[0].match_fields, terms[1].match_fields), (false, true));
    let volume: VolumeReach = decode(&json!({ "metadata": { "name": "n" }, "spec": {} }));
    assert_eq!(volume.spec.node_affinity, None);
}

#[test]
fn a_claim_says_how_far_growing_and_modifying_have_come() {
    let claim: ClaimProgress = decode(&json!({
        "metadata": metadata(&json!({ "annotations": { "a": "b" } })),
        "spec": { "resources": { "requests": { "storage": "2Gi" } }, "volumeName": "pv", "volumeAttributesClassName": "gold" },
        "status": {
            "phase": "Bound", "capacity": { "storage": "1Gi" },
            "allocatedResources": { "storage": "2Gi", "example.com/other": "1" },
            "allocatedResourceStatuses": { "storage": "NodeResizePending", "example.com/other": "NodeResizeInfeasible" },
            "conditions": [{ "type": "Resizing", "status": "True", "lastProbeTime": null, "lastTransitionTime": "2026-01-01T00:00:00Z" }],
            "currentVolumeAttributesClassName": "silver",
            "modifyVolumeStatus": { "targetVolumeAttributesClassName": "gold", "status": "InProgress" },
        },
    }));
    let ClaimProgress { spec, status, .. } = claim;
    assert_eq!(spec.resources.requests.storage.as_deref(), Some("2Gi"));
    assert_eq!((spec.volume_name.as_deref(), spec.volume_attributes_class_name.as_deref()), (Some("pv"), Some("gold")));
    assert_eq!((status.phase, status.capacity.storage.as_deref()), (Some(ClaimPhase::Bound), Some("1Gi")));
    assert_eq!(status.allocated_resources.storage.as_deref(), Some("2Gi"));
    assert_eq!(status.allocated_resource_statuses.storage, Some(ResizeStatus::NodeResizePending));
    assert_eq!(status.conditions, [ClaimCondition { kind: "Resizing".into(), status: "True".into(), reason: None }]);
    assert_eq!(status.current_volume_attributes_class_name.as_deref(), Some("silver"));
    assert_eq!(status.modify_volume_status.unwrap().status, Some(ModifyStatus::InProgress));

    let bare: ClaimProgress =
        decode(&json!({ "metadata": {}, "spec": null, "status": { "capacity": null, "conditions": null } }));
    assert!(bare.status.capacity.storage.is_none() && bare.status.conditions.is_empty());
}

#[test]
fn a_pod_says_which_claims_it_uses() {
    let pod = |phase: Value| -> PodClaims {
        decode(&json!({
            "metadata": metadata(&json!({})),
            "spec": { "containers": [{ "name": "c" }], "volumes": [
                { "name": "one", "persistentVolumeClaim": { "claimName": "data", "readOnly": true } },
                { "name": "two", "emptyDir": {} },
                { "name": "three", "ephemeral": { "volumeClaimTemplate": {} } },
            ] },
            "status": { "phase": phase },
        }))
    };
    assert_eq!(pod(json!("Running")).claims().collect::<Vec<_>>(), ["data"]);
    assert!(!pod(Value::Null).has_ended() && pod(json!("Succeeded")).has_ended());
    let bare: PodClaims = decode(&json!({ "metadata": {}, "spec": { "volumes": null } }));
    assert_eq!(bare.claims().count(), 0);
}

#[test]
fn a_volume_says_how_big_it_is_and_which_secret_expands_it() {
    let volume: PersistentVolume = decode(&json!({
        "metadata": metadata(&json!({})),
        "spec": { "capacity": { "storage": "3Gi" }, "csi": { "driver": "d", "volumeHandle": "h",
            "controllerExpandSecretRef": { "name": "s", "namespace": "ns" } } },
    }));
    assert_eq!(volume.spec.capacity.storage.as_deref(), Some("3Gi"));
    let secret = volume.spec.csi.unwrap().controller_expand_secret_ref.unwrap();
    assert_eq!((secret.name.as_str(), secret.namespace.as_str()), ("s", "ns"));
}
