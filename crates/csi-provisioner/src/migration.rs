//! Drivers that replace an in-tree volume plugin (KEP-625): claims and volumes may still carry the plugin's name.
//!
//! Translating those objects is not built yet; knowing the names is what keeps such a claim from being taken for one
//! of ours, or being dropped in silence.

/// The in-tree plugin that `driver` replaces, if any.
pub(crate) fn in_tree_plugin(driver: &str) -> Option<&'static str> {
    Some(match driver {
        "ebs.csi.aws.com" => "kubernetes.io/aws-ebs",
        "pd.csi.storage.gke.io" => "kubernetes.io/gce-pd",
        "cinder.csi.openstack.org" => "kubernetes.io/cinder",
        "disk.csi.azure.com" => "kubernetes.io/azure-disk",
        "file.csi.azure.com" => "kubernetes.io/azure-file",
        "csi.vsphere.vmware.com" => "kubernetes.io/vsphere-volume",
        "pxd.portworx.com" => "kubernetes.io/portworx-volume",
        _ => return None,
    })
}

/// The names under which objects belong to this provisioner: the driver's, and the in-tree plugin's that it replaces.
#[derive(Debug, Clone)]
pub(crate) struct ProvisionerNames {
    /// Name the driver gave in `GetPluginInfo`.
    pub(crate) driver: String,
    /// See [`in_tree_plugin`].
    pub(crate) in_tree: Option<&'static str>,
}

impl ProvisionerNames {
    pub(crate) fn of(driver: &str) -> Self {
        Self { driver: driver.to_owned(), in_tree: in_tree_plugin(driver) }
    }

    pub(crate) fn is_driver(&self, name: &str) -> bool {
        self.driver == name
    }

    pub(crate) fn is_in_tree(&self, name: &str) -> bool {
        self.in_tree == Some(name)
    }

    pub(crate) fn contains(&self, name: &str) -> bool {
        self.is_driver(name) || self.is_in_tree(name)
    }
}
