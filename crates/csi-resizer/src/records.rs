//! What the resizer keeps of the objects it watches: packed records, and only while there is something to do.

pub(crate) mod attributes_class;
pub(crate) mod claim;
pub(crate) mod volume_note;

pub(crate) use attributes_class::{AttributesClassProjection, AttributesClassRecord};
pub(crate) use claim::{ClaimProjection, ClaimRecord};
pub(crate) use volume_note::{VolumeNote, VolumeNoteProjection};
