//! `volumeMode` of claims and volumes.

crate::open_enum::open_enum! {
    /// How a volume is presented to a pod (core/v1 `PersistentVolumeMode`). An absent field means [`Self::Filesystem`].
    pub enum VolumeMode {
        /// Mounted with a file system.
        Filesystem,
        /// A raw device.
        Block,
    }
}
