//! What can go wrong with a claim or a volume, and what the queue does about it.

use std::time::Duration;

use csi_client::{CallError, Meaning, Rpc, meaning};
use storage_kube::{access_mode, credentials, fs_type, parameters, quantity, secret_ref, volume_name};
use thiserror::Error;

use crate::attributes_class::AttributesClassError;
use crate::content_source::ContentSourceError;
use crate::data_source::DataSourceError;
use crate::migration::NotInTree;
use crate::source_protection::ProtectError;
use crate::topology::error::TopologyError;

/// Why no request can be made of a claim and its class.
#[derive(Debug, Error)]
pub(crate) enum PlanError {
    #[error(
        "CSI driver {driver} has no dynamic provisioning: it must report the plugin capability CONTROLLER_SERVICE \
         and the controller capability CREATE_DELETE_VOLUME"
    )]
    NoDynamicProvisioning { driver: String },
    #[error(
        "CSI driver {driver} cannot restore snapshots: it must report the controller capability CREATE_DELETE_SNAPSHOT"
    )]
    NoSnapshots { driver: String },
    #[error("CSI driver {driver} cannot clone volumes: it must report the controller capability CLONE_VOLUME")]
    NoClones { driver: String },
    #[error(
        "CSI driver {driver} has no mutable attributes: it must report the controller capability MODIFY_VOLUME, \
         or the claim must name no VolumeAttributesClass"
    )]
    NoModification { driver: String },
    #[error(
        "claim selectors are not supported by dynamic provisioning: remove spec.selector, or bind the claim to an existing volume"
    )]
    Selector,
    #[error("the StorageClass cannot be translated for its CSI driver: {0}")]
    Class(#[from] csi_translation::Error),
    #[error(transparent)]
    Name(#[from] volume_name::Error),
    #[error(transparent)]
    FsType(#[from] fs_type::Error),
    #[error(transparent)]
    AccessMode(#[from] access_mode::Error),
    #[error("requested storage: {0}")]
    Size(#[from] quantity::Error),
    #[error(transparent)]
    Parameters(#[from] parameters::Error),
    #[error(transparent)]
    SecretRef(#[from] secret_ref::Error),
}

/// Why a claim got no volume.
#[derive(Debug, Error)]
pub(crate) enum ProvisionError {
    #[error("storageclass.storage.k8s.io \"{class}\" not found: create it, or name another in the claim")]
    ClassMissing { class: String },
    #[error(transparent)]
    DataSource(#[from] DataSourceError),
    #[error(
        "it is not known whether a ReferenceGrant in namespace {namespace} lets the claim name its source: ReferenceGrants cannot \
         be listed; install their kind and allow list and watch on referencegrants of gateway.networking.k8s.io"
    )]
    GrantsNotListed { namespace: String },
    #[error(transparent)]
    Plan(#[from] PlanError),
    #[error(transparent)]
    ContentSource(#[from] ContentSourceError),
    #[error(transparent)]
    Protect(#[from] ProtectError),
    #[error(transparent)]
    Topology(#[from] TopologyError),
    #[error(transparent)]
    Credentials(#[from] credentials::Error),
    #[error(transparent)]
    AttributesClass(#[from] AttributesClassError),
    #[error(transparent)]
    CreateVolume(#[from] CallError),
    #[error("CSI driver answered CreateVolume without a volume, or with an empty volume_id: the driver must be fixed")]
    NoVolume,
    #[error("CSI driver created a volume of {actual} bytes where {requested} were requested; it was deleted again")]
    TooSmall { requested: i64, actual: i64 },
    #[error(
        "CSI driver created a volume of {actual} bytes where {requested} were requested, and deleting it again failed: {why}"
    )]
    TooSmallAndLeft { requested: i64, actual: i64, why: String },
    #[error(
        "CSI driver did not say that the volume is filled from its source; it was deleted again, and the driver must be fixed"
    )]
    NoContent,
    #[error(
        "CSI driver did not say that the volume is filled from its source, and deleting it again failed: {why}; the driver must be fixed"
    )]
    NoContentAndLeft { why: String },
    #[error(
        "CSI driver created volume {handle}, which cannot be one of the class's in-tree plugin; it was deleted again: {source}"
    )]
    NotInTree { handle: String, source: Box<NotInTree> },
    #[error(
        "CSI driver created volume {handle}, which cannot be one of the class's in-tree plugin, and deleting it again failed ({why}): {source}"
    )]
    NotInTreeAndLeft { handle: String, source: Box<NotInTree>, why: String },
}

/// What becomes of the memory of a call in progress.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Memory {
    /// No call was made: as it was.
    Unchanged,
    /// The call may have made a volume, or may still: its plan is kept.
    Remember,
    /// The driver has given a final answer, or nothing is left of what it made: the next try starts anew.
    Forget,
}

/// What the queue does after a failed provisioning.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Disposition {
    /// Try again with growing delay.
    BackOff(Memory),
    /// Final, and asking again will not help: leave it alone for minutes.
    SlowRetry,
    /// Final or not even asked for, and another node may do: hand the claim back to the scheduler if that chose the node,
    /// else try again with growing delay. The memory of a call is dropped.
    Reschedule,
}

impl ProvisionError {
    /// What is done about it. CSI spec "CreateVolume Errors"; contract of the Go provisioner for the codes it leaves open.
    pub(crate) fn disposition(&self) -> Disposition {
        match self {
            Self::Topology(error) if error.needs_another_node() => Disposition::Reschedule,
            Self::ClassMissing { .. }
            | Self::GrantsNotListed { .. }
            | Self::ContentSource(_)
            | Self::Protect(_)
            | Self::Topology(_)
            | Self::Credentials(_) => Disposition::BackOff(Memory::Unchanged),
            Self::AttributesClass(error) => Disposition::BackOff(error.memory()),
            Self::Plan(error) => Disposition::BackOff(error.memory()),
            Self::NoVolume
            | Self::TooSmallAndLeft { .. }
            | Self::NoContentAndLeft { .. }
            | Self::NotInTreeAndLeft { .. } => Disposition::BackOff(Memory::Remember),
            Self::DataSource(_) | Self::TooSmall { .. } | Self::NoContent | Self::NotInTree { .. } => {
                Disposition::BackOff(Memory::Forget)
            }
            Self::CreateVolume(error) if !error.was_sent() => Disposition::BackOff(Memory::Unchanged),
            Self::CreateVolume(error) => match meaning(Rpc::CreateVolume, error) {
                Meaning::Uncertain => Disposition::BackOff(Memory::Remember),
                Meaning::Final => Disposition::BackOff(Memory::Forget),
                Meaning::Reschedule => Disposition::Reschedule,
                Meaning::Infeasible => Disposition::SlowRetry,
            },
        }
    }
}

impl PlanError {
    fn memory(&self) -> Memory {
        match self {
            Self::SecretRef(_) => Memory::Unchanged,
            Self::NoDynamicProvisioning { .. }
            | Self::NoSnapshots { .. }
            | Self::NoClones { .. }
            | Self::NoModification { .. }
            | Self::Selector
            | Self::Class(_)
            | Self::Name(_)
            | Self::FsType(_)
            | Self::AccessMode(_)
            | Self::Size(_)
            | Self::Parameters(_) => Memory::Forget,
        }
    }
}

impl AttributesClassError {
    fn memory(&self) -> Memory {
        match self {
            Self::Missing { .. } | Self::Forbidden { .. } | Self::Unavailable { .. } => Memory::Unchanged,
            Self::Impossible { .. } | Self::OtherDriver { .. } => Memory::Forget,
        }
    }
}

/// What helps against a refusal that the answer does not explain.
fn patch_cure(error: &kube::Error) -> &'static str {
    match error {
        kube::Error::Api(status) if status.code == 403 => {
            ": allow this ServiceAccount the verb patch on persistentvolumes, else volumes stay Terminating"
        }
        _ => "",
    }
}

/// Why a volume was not reclaimed. All are tried again with growing delay, for ever; only `Attached` waits for an event, or for
/// the next look at the attachments.
#[derive(Debug, Error)]
pub(crate) enum ReclaimError {
    #[error("CSI driver {driver} cannot delete volumes: it must report CONTROLLER_SERVICE and CREATE_DELETE_VOLUME")]
    NoDynamicProvisioning { driver: String },
    #[error("the volume cannot be translated for its CSI driver: {0}")]
    Untranslatable(Box<csi_translation::Error>),
    #[error(
        "StorageClass {class} cannot be translated for the CSI driver, so the Secret of the deletion is not known: {source}"
    )]
    Class { class: String, source: csi_translation::Error },
    #[error(
        "the volume has no CSI source and none of a plugin that a CSI driver replaces: its annotations must not name this provisioner"
    )]
    NotCsi,
    #[error("the volume belongs to CSI driver {driver}, although its annotations name this provisioner: correct them")]
    OtherDriver { driver: String },
    #[error(
        "persistentvolume {volume} is still attached: it is deleted when no VolumeAttachment names it any more, and \
         {attachments} of them do{}",
        if look_again.is_some() { "; also when no node of theirs uses it any more" } else { "" }
    )]
    Attached {
        volume: String,
        attachments: usize,
        /// When it is looked into whether they are stale; `None`: never.
        look_again: Option<Duration>,
    },
    #[error(
        "the volume has a VolumeAttachment to node {node}, and it cannot be found out whether the node still uses the volume: \
         {source}"
    )]
    NodeOfAttachment { node: String, source: Box<kube::Error> },
    #[error(
        "persistentvolume {volume} is named by claim {claim}, so it is not deleted at the CSI driver: delete the claim, or set \
         persistentVolumeReclaimPolicy to Retain"
    )]
    Claimed { volume: String, claim: String },
    #[error("claims cannot be listed, so it is not known whether one of them has the volume: {source}")]
    Claims { source: Box<kube::Error> },
    #[error("VolumeAttachments cannot be read, so it is not known whether the volume is attached: {source}")]
    Attachments { source: Box<kube::Error> },
    #[error("it is not known yet whether the volume is attached: VolumeAttachments are being listed")]
    AttachmentsNotListed,
    #[error("Secret of the volume's class: {0}")]
    SecretRef(#[from] secret_ref::Error),
    #[error(transparent)]
    DeleteVolume(#[from] CallError),
    #[error("the volume is deleted at the CSI driver, but PersistentVolume {volume} could not be deleted: {source}")]
    DeleteObject { volume: String, source: Box<kube::Error> },
    #[error("finalizers of PersistentVolume {volume} could not be patched: {source}{}", patch_cure(source))]
    PatchFinalizers { volume: String, source: Box<kube::Error> },
}
