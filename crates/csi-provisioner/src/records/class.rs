//! Storage classes.

use std::collections::BTreeMap;

use controller_runtime::Projection;
use storage_kube::names::ClassName;
use storage_kube::uid::Uid;
use storage_kube::wire::{AllowedTopology, BindingMode, ReclaimPolicy, StorageClass};

use crate::migration::ProvisionerNames;

/// Whose class it is (`provisioner`).
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ClassOwner {
    /// This driver.
    Driver,
    /// The in-tree plugin this driver replaces.
    InTree,
    /// Somebody else. Kept, so that a claim can tell "not ours" from "not there", and because a volume made by hand may
    /// name any class for the Secret of its deletion.
    Other,
}

/// A storage class; everything in it is immutable in the API, so a change shows as another UID.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ClassRecord {
    pub(crate) name: ClassName,
    pub(crate) uid: Uid,
    pub(crate) owner: ClassOwner,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) reclaim_policy: Option<ReclaimPolicy>,
    pub(crate) mount_options: Vec<String>,
    pub(crate) binding_mode: Option<BindingMode>,
    pub(crate) allowed_topologies: Vec<AllowedTopology>,
}

/// Keeps every class; a cluster has few.
pub(crate) struct ClassProjection {
    pub(crate) names: ProvisionerNames,
}

impl Projection for ClassProjection {
    type Wire = StorageClass;
    type Key = ClassName;
    type Record = ClassRecord;
    type Group = ();

    fn key(&self, class: &StorageClass) -> Option<ClassName> {
        class.metadata.name.as_deref().map(ClassName::from)
    }

    fn project(&self, class: StorageClass) -> Option<ClassRecord> {
        let name = ClassName::from(class.metadata.name.as_deref()?);
        let uid = Uid::from(class.metadata.uid.as_deref().unwrap_or_default());
        let owner = if self.names.is_driver(&class.provisioner) {
            ClassOwner::Driver
        } else if self.names.is_in_tree(&class.provisioner) {
            ClassOwner::InTree
        } else {
            ClassOwner::Other
        };
        Some(ClassRecord {
            name,
            uid,
            owner,
            parameters: class.parameters,
            reclaim_policy: class.reclaim_policy,
            mount_options: class.mount_options,
            binding_mode: class.volume_binding_mode,
            allowed_topologies: class.allowed_topologies,
        })
    }
}
