//! Kubernetes objects as they come over the wire, reduced to the fields a rule reads.
//!
//! A decoded volume of `k8s-openapi` takes 15 KB, one of these below 1 KB, and what is not read is skipped while
//! parsing. None of them can be serialised: a PUT of such an object would erase what was not read. Writes are
//! patches, or start from the full object.
//!
//! Lenient as Go's decoder is: an absent field and `null` are the same, unknown enum values decode as `Other`. An
//! object whose fields have the wrong JSON type is an error of that one object.

mod claim_progress;
mod csi_node;
mod csi_storage_capacity;
mod custom;
mod in_tree_source;
mod metadata;
mod node;
mod node_affinity;
mod persistent_volume;
mod persistent_volume_claim;
mod pod;
mod presence;
mod reference_grant;
mod storage_class;
mod volume_attachment;
mod volume_attributes_class;
mod volume_snapshot;

pub use claim_progress::{
    ClaimCondition, ClaimProgress, ClaimProgressSpec, ClaimProgressStatus, ModifyStatus, ModifyVolumeStatus,
    ResizeStatus, Storage,
};
pub use csi_node::{CsiNode, CsiNodeDriver, CsiNodeSpec, VolumeNodeResources};
pub use csi_storage_capacity::{CsiStorageCapacity, NodeTopology};
pub use in_tree_source::InTreeSource;
pub use node::NodeMetadata;
pub use node_affinity::{
    NodeAffinity, NodeSelector, NodeSelectorRequirement, NodeSelectorTerm, VolumeReach, VolumeReachSpec,
};
pub use persistent_volume::{
    ClaimReference, CsiSource, PersistentVolume, PersistentVolumeSpec, PersistentVolumeStatus, SecretReference,
    VolumePhase,
};
pub use persistent_volume_claim::{
    ClaimPhase, DataSource, PersistentVolumeClaim, PersistentVolumeClaimSpec, PersistentVolumeClaimStatus, Requests,
    Resources,
};
pub use pod::{PodClaims, PodClaimsSpec};
pub use reference_grant::{GrantedFrom, GrantedTo, ReferenceGrant, ReferenceGrantSpec};
pub use storage_class::{AllowedTopology, BindingMode, LabelValues, StorageClass};
pub use volume_attachment::{VolumeAttachment, VolumeAttachmentSource, VolumeAttachmentSpec, VolumeAttachmentStatus};
pub use volume_attributes_class::VolumeAttributesClass;
pub use volume_snapshot::{
    VolumeSnapshot, VolumeSnapshotContent, VolumeSnapshotContentSpec, VolumeSnapshotContentStatus,
    VolumeSnapshotReference, VolumeSnapshotSource, VolumeSnapshotSpec, VolumeSnapshotStatus,
};

pub use crate::{access_mode::AccessMode, reclaim_policy::ReclaimPolicy, volume_mode::VolumeMode};

#[cfg(test)]
mod tests;
