//! The Go sidecars as processes, started and watched like ours.

use std::path::Path;

use anyhow::Result;

use crate::{
    programs::{self, GO_CSI_ATTACHER, GO_CSI_PROVISIONER, GO_CSI_RESIZER},
    sidecar::{Role, Settings},
};

/// A Go sidecar for a driver's socket. Without these limits it would be the slow part of every test: by default it sends
/// 5 requests a second.
///
/// # Errors
/// When it cannot be built.
pub async fn settings(role: Role, kubeconfig: &Path, csi_address: &str) -> Result<Settings> {
    let settings = settings_with_defaults(role, kubeconfig, csi_address).await?;
    Ok(settings.flag("--kube-api-qps=1000").flag("--kube-api-burst=1000"))
}

/// The same with the request limits it has by default.
///
/// # Errors
/// When it cannot be built.
pub async fn settings_with_defaults(role: Role, kubeconfig: &Path, csi_address: &str) -> Result<Settings> {
    let program = match role {
        Role::Provisioner => &GO_CSI_PROVISIONER,
        Role::Attacher => &GO_CSI_ATTACHER,
        Role::Resizer => &GO_CSI_RESIZER,
    };
    let executable = programs::ensured(program).await?;
    Settings::of(program.name, executable, kubeconfig, csi_address)?.called(role.program())
}
