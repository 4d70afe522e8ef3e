//! Service accounts as processes outside a pod use them: a token in a kubeconfig.

use std::path::PathBuf;

use anyhow::{Context as _, Result};
use k8s_openapi::api::{
    authentication::v1::{TokenRequest, TokenRequestSpec},
    core::v1::ServiceAccount,
};
use kube::{Api, api::PostParams};

use super::Cluster;
use crate::kubeconfig::{self, Credentials};

/// Longer than any test.
const TOKEN_SECONDS: i64 = 6 * 60 * 60;

/// A service account and a kubeconfig that authenticates as it.
#[derive(Clone, Debug)]
pub struct Account {
    /// Its namespace.
    pub namespace: String,
    /// Its name.
    pub name: String,
    /// File in the cluster's directory.
    pub kubeconfig: PathBuf,
}

impl Account {
    /// A client with the rights of this account.
    ///
    /// # Errors
    /// When the kubeconfig has gone.
    pub async fn client(&self) -> Result<kube::Client> {
        kubeconfig::client(&self.kubeconfig).await
    }
}

pub(super) async fn with_token(cluster: &Cluster, namespace: &str, name: &str) -> Result<Account> {
    let accounts: Api<ServiceAccount> = Api::namespaced(cluster.client().await?, namespace);
    let spec = TokenRequestSpec { expiration_seconds: Some(TOKEN_SECONDS), ..TokenRequestSpec::default() };
    let request = TokenRequest { spec: Some(spec), ..TokenRequest::default() };
    let answer = accounts.create_token_request(name, &PostParams::default(), &request).await;
    let answer = answer.with_context(|| format!("no token for the ServiceAccount {namespace}/{name}"))?;
    let token = answer.status.and_then(|status| status.token).context("the answer has no token")?;
    let kubeconfig = cluster.directory().join(format!("{namespace}-{name}.kubeconfig"));
    kubeconfig::write(&kubeconfig, cluster.address(), cluster.authority(), &Credentials::Token(token))?;
    Ok(Account { namespace: namespace.to_owned(), name: name.to_owned(), kubeconfig })
}
