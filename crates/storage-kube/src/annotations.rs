//! Annotation keys, label keys and one attribute key that storage controllers agree on, with who writes and who reads each.

/// On a claim: the driver that should provision it. Written by the PV controller of kube-controller-manager
/// when the claim's class has an external provisioner; read by the provisioner (eligibility).
pub const STORAGE_PROVISIONER: &str = "volume.kubernetes.io/storage-provisioner";

/// The older spelling of [`STORAGE_PROVISIONER`], still written beside it; read when the other is absent.
pub const BETA_STORAGE_PROVISIONER: &str = "volume.beta.kubernetes.io/storage-provisioner";

/// On claims and volumes of an in-tree plugin: the CSI driver that took over. Written by the PV controller;
/// read by the provisioner for both kinds.
pub const MIGRATED_TO: &str = "pv.kubernetes.io/migrated-to";

/// On a claim or volume: its class, from before `storageClassName` existed. Written by users; wins over the
/// field wherever a class is read ([`crate::class_name`]).
pub const BETA_STORAGE_CLASS: &str = "volume.beta.kubernetes.io/storage-class";

/// On a claim with delayed binding: the node the scheduler chose. Written by the scheduler, and by a
/// provisioner per node to win a claim; read by the provisioner, which removes it to have the claim
/// scheduled again.
pub const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The alpha spelling of [`SELECTED_NODE`]; only read, to name the node, never removed.
pub const ALPHA_SELECTED_NODE: &str = "volume.alpha.kubernetes.io/selected-node";

/// On a volume: who made it (the class's provisioner, the in-tree name for a migrated one). Written by the
/// provisioner; read by the provisioner (is this volume mine to delete) and the PV controller.
pub const PROVISIONED_BY: &str = "pv.kubernetes.io/provisioned-by";

/// On a volume: name of the Secret for `DeleteVolume`, `""` for none. Written and read by the provisioner,
/// so that deletion does not depend on the class still being there.
pub const DELETION_SECRET_NAME: &str = "volume.kubernetes.io/provisioner-deletion-secret-name";

/// Namespace that goes with [`DELETION_SECRET_NAME`].
pub const DELETION_SECRET_NAMESPACE: &str = "volume.kubernetes.io/provisioner-deletion-secret-namespace";

/// On a volume: name of the Secret for `ControllerModifyVolume`. Written by the provisioner when the class
/// has such a reference; read by the resizer.
pub const MODIFY_SECRET_NAME: &str = "volume.kubernetes.io/controller-modify-secret-name";

/// Namespace that goes with [`MODIFY_SECRET_NAME`].
pub const MODIFY_SECRET_NAMESPACE: &str = "volume.kubernetes.io/controller-modify-secret-namespace";

/// On a `VolumeSnapshotContent`: whether a restore may change the volume mode. Written by backup software;
/// read by the provisioner.
pub const ALLOW_VOLUME_MODE_CHANGE: &str = "snapshot.storage.kubernetes.io/allow-volume-mode-change";

/// Label on a `CSIStorageCapacity`: the driver. Written by the provisioner; also its watch selector.
pub const DRIVER_NAME_LABEL: &str = "csi.storage.k8s.io/drivername";

/// Label on a `CSIStorageCapacity`: the provisioner deployment that owns it. Written by the provisioner;
/// also its watch selector.
pub const MANAGED_BY_LABEL: &str = "csi.storage.k8s.io/managed-by";

/// Key in a volume's `spec.csi.volumeAttributes`: which provisioner process made it. Written by the
/// provisioner; drivers get it in every publish and stage call as part of the volume context.
pub const PROVISIONER_IDENTITY_ATTRIBUTE: &str = "storage.kubernetes.io/csiProvisionerIdentity";

/// On a `VolumeAttachment`: the node id the volume is published at, for the time when the node is gone. Written and read by
/// the attacher.
pub const PUBLISHED_NODE_ID: &str = "csi.alpha.kubernetes.io/node-id";

/// On a claim of an in-tree plugin: the driver that grows its volume. Written by kube-controller-manager; read by the resizer.
pub const STORAGE_RESIZER: &str = "volume.kubernetes.io/storage-resizer";

/// On a claim: growing its volume needs nothing of the node. Written by the resizer, read by the kubelet.
pub const NODE_EXPANSION_NOT_REQUIRED: &str = "volume.kubernetes.io/node-expansion-not-required";

/// On a volume: how big its file system was before the volume grew. Written and removed by the resizer, read by the kubelet.
pub const PRE_RESIZE_CAPACITY: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";
