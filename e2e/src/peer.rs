//! The Go provisioner as a process, started and watched like ours.

use std::path::Path;

use anyhow::Result;

use crate::{
    programs::{self, GO_CSI_PROVISIONER},
    provisioner::Settings,
};

/// A Go provisioner for a driver's socket. Without these limits it would be the slow part of every test: by default it
/// sends 5 requests a second.
///
/// # Errors
/// When it cannot be built.
pub async fn provisioner(kubeconfig: &Path, csi_address: &str) -> Result<Settings> {
    let settings = provisioner_with_defaults(kubeconfig, csi_address).await?;
    Ok(settings.flag("--kube-api-qps=1000").flag("--kube-api-burst=1000"))
}

/// The same with the request limits it has by default.
///
/// # Errors
/// When it cannot be built.
pub async fn provisioner_with_defaults(kubeconfig: &Path, csi_address: &str) -> Result<Settings> {
    let executable = programs::ensured(&GO_CSI_PROVISIONER).await?;
    Settings::of("go-csi-provisioner", executable, kubeconfig, csi_address)?.called("csi-provisioner")
}
