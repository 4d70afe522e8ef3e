//! Where the files of a node are.

use std::path::{Path, PathBuf};

/// Paths below the directory of one node; the same inside and outside its mount namespace.
#[derive(Clone, Debug)]
pub struct Places(PathBuf);

impl Places {
    /// Those of the node in that directory.
    pub fn below(directory: &Path) -> Self {
        Self(directory.to_owned())
    }

    /// The kubelet's directory, `/var/lib/kubelet` on other nodes: `plugins`, `plugins_registry`, `pods`.
    pub fn kubelet(&self) -> PathBuf {
        self.0.join("kubelet")
    }

    /// Where drivers are introduced to the kubelet.
    pub fn plugins_registry(&self) -> PathBuf {
        self.kubelet().join("plugins_registry")
    }

    /// Where a driver serves.
    pub fn driver_socket(&self, driver: &str) -> PathBuf {
        self.kubelet().join("plugins").join(driver).join("csi.sock")
    }

    /// What the node has at `/var/lib`.
    pub fn var_lib(&self) -> PathBuf {
        self.0.join("var-lib")
    }

    /// What the node has at `/var/log`.
    pub fn var_log(&self) -> PathBuf {
        self.0.join("var-log")
    }

    pub(super) fn programs(&self) -> PathBuf {
        self.0.join("bin")
    }

    pub(super) fn network_plugins(&self) -> PathBuf {
        self.0.join("cni-bin")
    }

    pub(super) fn network(&self) -> PathBuf {
        self.0.join("cni")
    }

    pub(super) fn containerd(&self) -> PathBuf {
        self.0.join("containerd")
    }

    pub(super) fn containerd_settings(&self) -> PathBuf {
        self.0.join("containerd.toml")
    }

    pub(super) fn containerd_socket(&self) -> PathBuf {
        self.0.join("containerd.sock")
    }

    pub(super) fn kubelet_settings(&self) -> PathBuf {
        self.0.join("kubelet.json")
    }

    pub(super) fn kubelet_kubeconfig(&self) -> PathBuf {
        self.0.join("kubelet.kubeconfig")
    }

    pub(super) fn image(&self) -> PathBuf {
        self.0.join("image.tar")
    }
}
