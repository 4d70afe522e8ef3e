//! The driver's answer → the PersistentVolume object, field by field. Pure.
//!
//! Built as JSON: the object is written once and never read back, and the full API type would bring the generated code
//! of every volume plugin into the binary.

mod node_affinity;
pub(crate) mod write;

use csi_proto::csi::v1::Volume;
use csi_proto::csi::v1::volume_capability::{self, access_mode::Mode};
use serde_json::{Map, Value, json};
use storage_kube::access_mode::AccessMode;
use storage_kube::reclaim_policy::ReclaimPolicy;
use storage_kube::secret_ref::SecretRef;
use storage_kube::volume_mode::VolumeMode;
use storage_kube::{annotations, finalizers, quantity};

use crate::create_volume::request::Plan;
use crate::migration::{self, NotInTree};
use crate::settings::Settings;

/// A volume that the driver has made.
#[derive(Debug)]
pub(crate) struct NewVolume {
    /// The PersistentVolume to write.
    pub(crate) object: Value,
    /// The driver's handle, as the object tells it.
    pub(crate) handle: String,
}

/// The PersistentVolume for a plan that the driver has carried out: with `spec.csi`, or the source of the plugin whose class
/// it is.
pub(crate) fn new_volume(settings: &Settings, plan: &Plan, volume: &Volume) -> Result<NewVolume, NotInTree> {
    let object = persistent_volume(settings, plan, volume);
    if plan.is_migrated() {
        let (object, handle) = migration::in_tree_volume(object)?;
        Ok(NewVolume { object, handle })
    } else {
        Ok(NewVolume { object, handle: volume.volume_id.clone() })
    }
}

/// The same as a volume of the driver.
pub(crate) fn persistent_volume(settings: &Settings, plan: &Plan, volume: &Volume) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": {
            "name": plan.volume_name.to_string(),
            "annotations": object_annotations(settings, plan),
            "finalizers": [finalizers::VOLUME_PROTECTION],
        },
        "spec": spec(settings, plan, volume),
    })
}

/// Size of the new volume in bytes: the driver's word, or the request where it gave none (CSI: 0 = unknown).
pub(crate) fn capacity(plan: &Plan, volume: &Volume) -> i64 {
    if volume.capacity_bytes == 0 { plan.requested_bytes } else { volume.capacity_bytes }
}

fn spec(settings: &Settings, plan: &Plan, volume: &Volume) -> Map<String, Value> {
    let (claim, class) = (&plan.claim, &plan.class);
    let mut spec = Map::new();
    let modes: Vec<_> = claim.access_modes.iter().map(AccessMode::as_str).collect();
    spec.insert("accessModes".into(), json!(modes));
    spec.insert("capacity".into(), json!({ "storage": quantity::from_bytes_binary_si(capacity(plan, volume)) }));
    spec.insert(
        "claimRef".into(),
        json!({
            "apiVersion": "v1",
            "kind": "PersistentVolumeClaim",
            "name": claim.name.as_str(),
            "namespace": claim.namespace.as_str(),
            "resourceVersion": claim.resource_version,
            "uid": claim.uid.to_string(),
        }),
    );
    spec.insert("csi".into(), Value::Object(csi_source(settings, plan, volume)));
    if !class.mount_options.is_empty() {
        spec.insert("mountOptions".into(), json!(class.mount_options));
    }
    if let Some(policy) = class.reclaim_policy.and_then(ReclaimPolicy::as_str) {
        spec.insert("persistentVolumeReclaimPolicy".into(), json!(policy));
    }
    if settings.topology()
        && let Some(affinity) = node_affinity::node_affinity(&volume.accessible_topology)
    {
        spec.insert("nodeAffinity".into(), affinity);
    }
    spec.insert("storageClassName".into(), json!(class.name.as_str()));
    if settings.flags.attributes_class_gate
        && let Some(class) = &claim.volume_attributes_class
    {
        spec.insert("volumeAttributesClassName".into(), json!(class));
    }
    if let Some(mode) = claim.volume_mode.and_then(VolumeMode::as_str) {
        spec.insert("volumeMode".into(), json!(mode));
    }
    spec
}

fn csi_source(settings: &Settings, plan: &Plan, volume: &Volume) -> Map<String, Value> {
    let mut attributes = Map::new();
    attributes.insert(annotations::PROVISIONER_IDENTITY_ATTRIBUTE.into(), json!(settings.identity));
    attributes.extend(volume.volume_context.iter().map(|(key, value)| (key.clone(), json!(value))));

    let mut csi = Map::new();
    csi.insert("driver".into(), json!(settings.names.driver));
    csi.insert("volumeHandle".into(), json!(volume.volume_id));
    csi.insert("volumeAttributes".into(), Value::Object(attributes));
    if !plan.fs_type.is_empty() {
        csi.insert("fsType".into(), json!(plan.fs_type));
    }
    if settings.flags.publish_readonly && read_only(plan) {
        csi.insert("readOnly".into(), json!(true));
    }
    let refs = [
        ("controllerPublishSecretRef", &plan.secrets.controller_publish),
        ("nodeStageSecretRef", &plan.secrets.node_stage),
        ("nodePublishSecretRef", &plan.secrets.node_publish),
        ("controllerExpandSecretRef", &plan.secrets.controller_expand),
        ("nodeExpandSecretRef", &plan.secrets.node_expand),
    ];
    for (field, secret) in refs {
        if let Some(SecretRef { namespace, name }) = secret {
            csi.insert(field.into(), json!({ "name": name, "namespace": namespace }));
        }
    }
    csi
}

/// Exactly one access mode, and that one only reads.
fn read_only(plan: &Plan) -> bool {
    let modes = plan
        .request
        .volume_capabilities
        .iter()
        .map(|capability| capability.access_mode.as_ref().map(volume_capability::AccessMode::mode));
    modes.eq([Some(Mode::MultiNodeReaderOnly)])
}

/// `DeleteVolume` must find its Secret when class and claim are gone, so the volume carries the reference itself.
fn object_annotations(settings: &Settings, plan: &Plan) -> Map<String, Value> {
    let (namespace, name) = match &plan.secrets.provisioner {
        Some(secret) => (secret.namespace.as_str(), secret.name.as_str()),
        None => ("", ""),
    };
    let mut all = Map::new();
    all.insert(annotations::PROVISIONED_BY.into(), json!(settings.names.provisioned_by(&plan.class)));
    all.insert(annotations::DELETION_SECRET_NAME.into(), json!(name));
    all.insert(annotations::DELETION_SECRET_NAMESPACE.into(), json!(namespace));
    if let Some(secret) = &plan.secrets.controller_modify {
        all.insert(annotations::MODIFY_SECRET_NAME.into(), json!(secret.name));
        all.insert(annotations::MODIFY_SECRET_NAMESPACE.into(), json!(secret.namespace));
    }
    all
}
