//! What a claim or driver may ask for that this provisioner does not do yet.
//!
//! Such a claim gets one Warning event that names the gap, and nothing is created: a volume without the asked-for
//! content is worse than none.

use std::fmt;

use storage_kube::wire::DataSource;

use crate::records::claim::AskedAs;
use crate::records::class::ClassOwner;
use crate::records::{ClaimRecord, ClassRecord};
use crate::settings::Settings;

/// A feature that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MissingFeature {
    /// The claim names a snapshot or claim to fill the volume from.
    DataSource {
        /// Its kind.
        kind: String,
        /// Its name.
        name: String,
    },
    /// The claim names a VolumeAttributesClass.
    AttributesClass(String),
    /// The class or claim still names the in-tree plugin.
    Migration,
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::DataSource { kind, name } => write!(
                f,
                "the claim asks for a volume filled from {kind} \"{name}\", and data sources are not supported by this csi-provisioner yet: \
                 create the claim without dataSource and dataSourceRef"
            ),
            Self::AttributesClass(class) => write!(
                f,
                "the claim asks for VolumeAttributesClass \"{class}\", and attributes classes are not supported by this csi-provisioner yet: \
                 create the claim without volumeAttributesClassName, or start with --feature-gates=VolumeAttributesClass=false"
            ),
            Self::Migration => f.write_str(
                "the claim or its StorageClass names an in-tree plugin, and migration to CSI is not supported by this csi-provisioner yet: \
                 use a StorageClass whose provisioner is the CSI driver",
            ),
        }
    }
}

/// What fills the volume, if anything does.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Content<'a> {
    /// An empty volume.
    Empty,
    /// A snapshot or another claim, or anything in another namespace: the driver's work.
    Driver(&'a DataSource),
    /// Any other kind: a volume populator provisions this claim (KEP-1495).
    Populator,
}

/// `dataSource` wins over `dataSourceRef`.
///
/// A source in a namespace needs a feature gate whatever its kind, so it is not left to a populator.
pub(crate) fn content(claim: &ClaimRecord) -> Content<'_> {
    let names_a_namespace = |source: &DataSource| source.namespace.as_deref().is_some_and(|name| !name.is_empty());
    match claim.data_source.as_ref().or(claim.data_source_ref.as_ref()) {
        None => Content::Empty,
        Some(source)
            if source.kind == "VolumeSnapshot"
                || source.kind == "PersistentVolumeClaim"
                || names_a_namespace(source) =>
        {
            Content::Driver(source)
        }
        Some(_) => Content::Populator,
    }
}

/// The first thing asked for that is missing.
pub(crate) fn missing_feature(settings: &Settings, claim: &ClaimRecord, class: &ClassRecord) -> Option<MissingFeature> {
    if claim.asked_as == AskedAs::InTree || class.owner == ClassOwner::InTree {
        return Some(MissingFeature::Migration);
    }
    if let Content::Driver(source) = content(claim) {
        return Some(MissingFeature::DataSource { kind: source.kind.clone(), name: source.name.clone() });
    }
    if settings.flags.attributes_class_gate
        && let Some(class) = &claim.volume_attributes_class
    {
        return Some(MissingFeature::AttributesClass(class.clone()));
    }
    None
}
