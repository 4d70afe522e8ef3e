//! `reclaimPolicy` of classes and `persistentVolumeReclaimPolicy` of volumes.

crate::open_enum::open_enum! {
    /// What happens to a volume when its claim is gone (core/v1 `PersistentVolumeReclaimPolicy`).
    ///
    /// Only [`Self::Delete`] may ever lead to a deletion; an unknown policy is kept like [`Self::Retain`].
    pub enum ReclaimPolicy {
        /// The volume is deleted in the storage system, then the object.
        Delete,
        /// Nothing is deleted; an administrator decides.
        Retain,
        /// Deprecated scrubbing of in-tree volumes; never honoured for CSI.
        Recycle,
    }
}
