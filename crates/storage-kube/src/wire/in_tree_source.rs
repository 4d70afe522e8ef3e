//! Volume sources of the plugins that CSI drivers have taken over.

use serde::Deserialize;

use super::presence::null_as_default;

/// Such a source in a `PersistentVolume`. One type for all seven: each has some of these fields, and code that decodes seven
/// types is memory of every process.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default, rename_all = "camelCase")]
pub struct InTreeSource {
    /// What the plugin calls the volume: `volumeID`, `pdName`, `diskURI` or `volumePath`; of an Azure file share nothing.
    #[serde(
        alias = "volumeID",
        alias = "pdName",
        alias = "diskURI",
        alias = "volumePath",
        deserialize_with = "null_as_default"
    )]
    pub id: String,
    /// File system; its own default differs by plugin.
    pub fs_type: Option<String>,
    /// To be mounted read-only.
    pub read_only: Option<bool>,
    /// Of the disk; 0 is the whole disk.
    #[serde(deserialize_with = "null_as_default")]
    pub partition: i32,
    /// Azure disk: who made it and how it is stored.
    pub kind: Option<String>,
    /// Azure disk: the host's cache.
    pub caching_mode: Option<String>,
    /// Azure file: the share.
    #[serde(deserialize_with = "null_as_default")]
    pub share_name: String,
    /// Azure file: the Secret with account and key.
    #[serde(deserialize_with = "null_as_default")]
    pub secret_name: String,
    /// Azure file: where that Secret is, if not with the claim.
    pub secret_namespace: Option<String>,
    /// vSphere: the storage policy.
    #[serde(deserialize_with = "null_as_default")]
    pub storage_policy_name: String,
}
