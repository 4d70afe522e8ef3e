//! Kubeconfig files for the programs of a cluster, and clients for the tests.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use kube::config::{KubeConfigOptions, Kubeconfig};
use serde_json::{Value, json};

/// How a program shows who it is.
#[derive(Clone, Debug)]
pub enum Credentials {
    /// A client certificate and its key, in files.
    Certificate {
        /// PEM file.
        certificate: PathBuf,
        /// PEM file.
        key: PathBuf,
    },
    /// A service account's token.
    Token(String),
}

/// Writes a kubeconfig (JSON is YAML) for a server at `address` whose certificate `authority` signed.
///
/// # Errors
/// When the file cannot be written.
pub fn write(path: &Path, address: &str, authority: &Path, credentials: &Credentials) -> Result<()> {
    let user: Value = match credentials {
        Credentials::Certificate { certificate, key } => {
            json!({ "client-certificate": certificate, "client-key": key })
        }
        Credentials::Token(token) => json!({ "token": token }),
    };
    let cluster = json!({ "server": format!("https://{address}"), "certificate-authority": authority });
    let kubeconfig = json!({
        "apiVersion": "v1", "kind": "Config", "current-context": "local",
        "clusters": [{ "name": "local", "cluster": cluster }],
        "users": [{ "name": "local", "user": user }],
        "contexts": [{ "name": "local", "context": { "cluster": "local", "user": "local" } }],
    });
    std::fs::write(path, kubeconfig.to_string()).with_context(|| format!("cannot write {}", path.display()))
}

/// A client made of a kubeconfig file, without retries.
///
/// # Errors
/// When the file is not a kubeconfig, or a certificate in it cannot be read.
pub async fn client(path: &Path) -> Result<kube::Client> {
    let kubeconfig = Kubeconfig::read_from(path)?;
    let mut config = kube::Config::from_custom_kubeconfig(kubeconfig, &KubeConfigOptions::default()).await?;
    config.default_retry = false;
    Ok(kube::Client::try_from(config)?)
}
