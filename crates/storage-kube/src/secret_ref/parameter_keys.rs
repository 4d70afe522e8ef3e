//! The class parameters that name secrets.

use super::SecretKind;

/// The keys of one secret reference.
#[derive(Clone, Copy, Debug)]
pub(super) struct Keys {
    /// What the secret is for, as it stands in messages.
    pub(super) purpose: &'static str,
    pub(super) name: &'static str,
    pub(super) namespace: &'static str,
    /// Name and namespace keys from before the prefix; still honoured.
    pub(super) deprecated: Option<(&'static str, &'static str)>,
}

/// The pair that stands in for every kind that has none of its own.
pub(super) const DEFAULT: Keys = Keys {
    purpose: "default",
    name: "csi.storage.k8s.io/secret-name",
    namespace: "csi.storage.k8s.io/secret-namespace",
    deprecated: None,
};

impl SecretKind {
    /// The keys of this kind's own pair.
    pub(super) const fn keys(self) -> Keys {
        match self {
            Self::Provisioner => Keys {
                purpose: "provisioner",
                name: "csi.storage.k8s.io/provisioner-secret-name",
                namespace: "csi.storage.k8s.io/provisioner-secret-namespace",
                deprecated: Some(("csiProvisionerSecretName", "csiProvisionerSecretNamespace")),
            },
            Self::ControllerPublish => Keys {
                purpose: "controller-publish",
                name: "csi.storage.k8s.io/controller-publish-secret-name",
                namespace: "csi.storage.k8s.io/controller-publish-secret-namespace",
                deprecated: Some(("csiControllerPublishSecretName", "csiControllerPublishSecretNamespace")),
            },
            Self::NodeStage => Keys {
                purpose: "node-stage",
                name: "csi.storage.k8s.io/node-stage-secret-name",
                namespace: "csi.storage.k8s.io/node-stage-secret-namespace",
                deprecated: Some(("csiNodeStageSecretName", "csiNodeStageSecretNamespace")),
            },
            Self::NodePublish => Keys {
                purpose: "node-publish",
                name: "csi.storage.k8s.io/node-publish-secret-name",
                namespace: "csi.storage.k8s.io/node-publish-secret-namespace",
                deprecated: Some(("csiNodePublishSecretName", "csiNodePublishSecretNamespace")),
            },
            Self::ControllerExpand => Keys {
                purpose: "controller-expand",
                name: "csi.storage.k8s.io/controller-expand-secret-name",
                namespace: "csi.storage.k8s.io/controller-expand-secret-namespace",
                deprecated: None,
            },
            Self::NodeExpand => Keys {
                purpose: "node-expand",
                name: "csi.storage.k8s.io/node-expand-secret-name",
                namespace: "csi.storage.k8s.io/node-expand-secret-namespace",
                deprecated: None,
            },
            Self::ControllerModify => Keys {
                purpose: "controller-modify",
                name: "csi.storage.k8s.io/controller-modify-secret-name",
                namespace: "csi.storage.k8s.io/controller-modify-secret-namespace",
                deprecated: None,
            },
        }
    }
}

/// Every prefixed key that names a secret, the default pair included.
pub(crate) fn parameter_keys() -> impl Iterator<Item = &'static str> {
    SecretKind::ALL.into_iter().map(SecretKind::keys).chain([DEFAULT]).flat_map(|keys| [keys.name, keys.namespace])
}
