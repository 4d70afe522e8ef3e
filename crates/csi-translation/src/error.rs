//! What cannot be translated.

use storage_kube::in_tree::InTreePlugin;

/// Why a volume or class has no counterpart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// The volume has some other source.
    #[error("the volume has no source of a plugin that a CSI driver replaces")]
    NotInTree,
    /// The volume has no CSI source, or one of another driver.
    #[error("the volume has no source of a CSI driver that replaces a plugin")]
    NotCsi,
    /// The class says twice where volumes may be.
    #[error("the class has allowedTopologies and a parameter zone or zones: keep one of them")]
    ZonesTwice,
    /// An id, URI or handle of another form.
    #[error("\"{handle}\" is no volume of {}: it must have the form {form}", plugin.as_str())]
    Handle {
        /// Whose it should be.
        plugin: InTreePlugin,
        /// What it is.
        handle: String,
        /// What it should look like.
        form: &'static str,
    },
    /// A node id of another form.
    #[error("node id \"{node_id}\" does not tell project and zone: it must have the form {form}")]
    NodeId {
        /// The id.
        node_id: String,
        /// What it should look like.
        form: &'static str,
    },
    /// The zones do not tell one region.
    #[error("zones {zones:?} do not lie in one region: name zones of one region, in the form {form}")]
    Region {
        /// The zones.
        zones: Vec<String>,
        /// What each should look like.
        form: &'static str,
    },
    /// A partition that is no number.
    #[error("volume attribute partition is \"{0}\": it must be a number")]
    Partition(String),
    /// An Azure disk the driver cannot use.
    #[error("azureDisk.kind is \"{0}\", and the CSI driver takes managed disks only: copy the data to a managed disk")]
    DiskKind(String),
    /// Nobody says where the Secret of an Azure file share is.
    #[error(
        "neither azureFile.secretNamespace nor claimRef says in which namespace the Secret is: set secretNamespace"
    )]
    SecretNamespace,
}
