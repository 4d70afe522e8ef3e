//! An in-tree volume as its CSI driver knows it.

use std::collections::BTreeMap;

use storage_kube::access_mode::AccessMode;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::{InTreeSource, SecretReference};

/// What `spec` would have if the volume were a CSI volume. Its place is [`crate::topology::to_csi`]'s business.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CsiVolume {
    /// `csi.driver`
    pub driver: &'static str,
    /// `csi.volumeHandle`
    pub handle: String,
    /// `csi.fsType`; empty when the volume names none.
    pub fs_type: String,
    /// `csi.readOnly`
    pub read_only: bool,
    /// `csi.volumeAttributes`
    pub attributes: BTreeMap<String, String>,
    /// The Secret references of `csi`.
    pub secrets: Secrets,
    /// `accessModes`
    pub access_modes: Vec<AccessMode>,
}

/// Which Secrets the calls for a volume take along.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Secrets {
    /// `csi.controllerPublishSecretRef`
    pub controller_publish: Option<SecretReference>,
    /// `csi.nodeStageSecretRef`
    pub node_stage: Option<SecretReference>,
    /// `csi.nodePublishSecretRef`
    pub node_publish: Option<SecretReference>,
    /// `csi.controllerExpandSecretRef`
    pub controller_expand: Option<SecretReference>,
    /// `csi.nodeExpandSecretRef`
    pub node_expand: Option<SecretReference>,
}

impl CsiVolume {
    /// With file system and mode of the source, and nothing else that plugins differ in.
    pub(crate) fn new(plugin: InTreePlugin, handle: String, source: &InTreeSource) -> Self {
        Self {
            driver: plugin.driver(),
            handle,
            fs_type: source.fs_type.clone().unwrap_or_default(),
            read_only: source.read_only.unwrap_or_default(),
            attributes: BTreeMap::new(),
            secrets: Secrets::default(),
            access_modes: Vec::new(),
        }
    }

    /// The same with an attribute more.
    pub(crate) fn with(mut self, attribute: &str, value: impl Into<String>) -> Self {
        self.attributes.insert(attribute.to_owned(), value.into());
        self
    }
}
