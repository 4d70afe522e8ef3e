//! What the provisioner keeps of the objects it watches: packed records, not whole objects.
//!
//! Objects of other drivers are dropped in the projection, so memory follows this driver's work and not the size of
//! the cluster. A record is read-only; what a write needs beyond it is patched or fetched then.

pub(crate) mod attachment;
pub(crate) mod capacity;
pub(crate) mod claim;
pub(crate) mod claims;
pub(crate) mod class;
pub(crate) mod csi_node;
pub(crate) mod grant;
pub(crate) mod node;
pub(crate) mod volume;

pub(crate) use attachment::{AttachmentProjection, AttachmentRecord};
pub(crate) use capacity::{CapacityProjection, CapacityRecord};
pub(crate) use claim::{ClaimEntry, ClaimProjection, ClaimRecord, SourceClaim};
pub(crate) use claims::Claims;
pub(crate) use class::{ClassProjection, ClassRecord};
pub(crate) use csi_node::{CsiNodeProjection, CsiNodeRecord};
pub(crate) use grant::GrantProjection;
pub(crate) use node::{NodeProjection, NodeRecord};
pub(crate) use volume::{VolumeProjection, VolumeRecord};
