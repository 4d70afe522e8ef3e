//! Volume plugins that were built into Kubernetes and the CSI drivers that replace them (KEP-625): objects may still
//! carry the plugin's name, or its kind of volume source.

/// A plugin that a CSI driver replaces.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum InTreePlugin {
    /// `awsElasticBlockStore`
    AwsEbs,
    /// `gcePersistentDisk`
    GcePd,
    /// `cinder`
    Cinder,
    /// `azureDisk`
    AzureDisk,
    /// `azureFile`
    AzureFile,
    /// `vsphereVolume`
    Vsphere,
    /// `portworxVolume`
    Portworx,
}

impl InTreePlugin {
    /// All of them.
    pub const ALL: [Self; 7] =
        [Self::AwsEbs, Self::GcePd, Self::Cinder, Self::AzureDisk, Self::AzureFile, Self::Vsphere, Self::Portworx];

    /// The plugin that `driver` replaces, if any.
    pub fn replaced_by(driver: &str) -> Option<Self> {
        Self::ALL.into_iter().find(|plugin| plugin.driver() == driver)
    }

    /// Name of the driver that replaces it.
    pub fn driver(self) -> &'static str {
        match self {
            Self::AwsEbs => "ebs.csi.aws.com",
            Self::GcePd => "pd.csi.storage.gke.io",
            Self::Cinder => "cinder.csi.openstack.org",
            Self::AzureDisk => "disk.csi.azure.com",
            Self::AzureFile => "file.csi.azure.com",
            Self::Vsphere => "csi.vsphere.vmware.com",
            Self::Portworx => "pxd.portworx.com",
        }
    }

    /// Its own name, as classes and annotations have it.
    pub fn as_str(self) -> &'static str {
        match self {
            Self::AwsEbs => "kubernetes.io/aws-ebs",
            Self::GcePd => "kubernetes.io/gce-pd",
            Self::Cinder => "kubernetes.io/cinder",
            Self::AzureDisk => "kubernetes.io/azure-disk",
            Self::AzureFile => "kubernetes.io/azure-file",
            Self::Vsphere => "kubernetes.io/vsphere-volume",
            Self::Portworx => "kubernetes.io/portworx-volume",
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_driver_has_its_plugin() {
        let rows = [
            ("ebs.csi.aws.com", "kubernetes.io/aws-ebs"),
            ("pd.csi.storage.gke.io", "kubernetes.io/gce-pd"),
            ("cinder.csi.openstack.org", "kubernetes.io/cinder"),
            ("disk.csi.azure.com", "kubernetes.io/azure-disk"),
            ("file.csi.azure.com", "kubernetes.io/azure-file"),
            ("csi.vsphere.vmware.com", "kubernetes.io/vsphere-volume"),
            ("pxd.portworx.com", "kubernetes.io/portworx-volume"),
        ];
        assert_eq!(rows.len(), InTreePlugin::ALL.len());
        for (driver, plugin) in rows {
            assert_eq!(InTreePlugin::replaced_by(driver).map(InTreePlugin::as_str), Some(plugin), "{driver}");
        }
        assert_eq!(InTreePlugin::replaced_by("hostpath.csi.k8s.io"), None);
    }
}
