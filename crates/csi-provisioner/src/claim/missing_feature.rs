//! What a claim or driver may ask for that this provisioner does not do yet.
//!
//! Such a claim gets one Warning event that names the gap, and nothing is created: a volume without the asked-for
//! content is worse than none.

use std::fmt;

use crate::records::claim::AskedAs;
use crate::records::class::ClassOwner;
use crate::records::{ClaimRecord, ClassRecord};
use crate::settings::Settings;

/// A feature that is missing.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub(crate) enum MissingFeature {
    /// The class or claim still names the in-tree plugin.
    Migration,
}

impl fmt::Display for MissingFeature {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Migration => f.write_str(
                "the claim or its StorageClass names an in-tree plugin, and migration to CSI is not supported by this csi-provisioner yet: \
                 use a StorageClass whose provisioner is the CSI driver",
            ),
        }
    }
}

/// The first thing asked for that is missing.
pub(crate) fn missing_feature(settings: &Settings, claim: &ClaimRecord, class: &ClassRecord) -> Option<MissingFeature> {
    if claim.asked_as == AskedAs::InTree || class.owner == ClassOwner::InTree {
        return Some(MissingFeature::Migration);
    }
    None
}
