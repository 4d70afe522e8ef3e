//! A kubeconfig file as a configuration of clients: the cluster and the user of its current context.

use std::collections::HashMap;
use std::path::Path;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use kube::Config;
use kube::config::{AuthInfo, AuthProviderConfig, ExecAuthCluster, ExecConfig, ExecInteractiveMode};
use rustls::pki_types::CertificateDer;
use rustls::pki_types::pem::PemObject as _;
use secrecy::SecretString;
use serde_json::Value;

use super::yaml::{self, YamlError};

/// The extension of a cluster that an exec plugin gets (API `client.authentication.k8s.io`).
const EXEC_EXTENSION: &str = "client.authentication.k8s.io/exec";

/// Why a kubeconfig cannot be used. Says how to cure it.
#[derive(Debug, thiserror::Error)]
pub(super) enum KubeconfigError {
    /// The file cannot be read.
    #[error("{0}; check --kubeconfig and KUBECONFIG and that the file can be read; inside a cluster leave both out")]
    Unreadable(#[from] std::io::Error),
    /// It is no YAML.
    #[error("{0}; it must be the YAML or JSON of a kubectl configuration")]
    Yaml(#[from] YamlError),
    /// No context is chosen.
    #[error("it has no current-context; set one with `kubectl config use-context NAME --kubeconfig FILE`")]
    NoContext,
    /// The chosen context is not there.
    #[error("it has no context {0:?}; its current-context must be one of its contexts")]
    Context(String),
    /// The cluster of the context is not there.
    #[error("it has no cluster {0:?}; the context must name one of the clusters of the file")]
    Cluster(String),
    /// The cluster has no usable server.
    #[error("the server {url:?} of cluster {cluster:?} is no URL; correct the file")]
    Server {
        /// The cluster.
        cluster: String,
        /// What stands there.
        url: String,
    },
    /// A field is not what it should be.
    #[error("{field}: {reason}; correct the file")]
    Field {
        /// Its name in the file.
        field: &'static str,
        /// What is wrong.
        reason: String,
    },
}

/// Reads a file. `master` stands for the server of the cluster.
pub(super) fn read(path: &Path, master: Option<&str>) -> Result<Config, KubeconfigError> {
    let text = std::fs::read_to_string(path)?;
    let file = yaml::read(text.trim_start_matches('\u{feff}'))?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let chosen = text_of(&file, "current-context").ok_or(KubeconfigError::NoContext)?;
    let context = named(&file, "contexts", "context", chosen).ok_or_else(|| KubeconfigError::Context(chosen.into()))?;
    let name = text_of(context, "cluster").unwrap_or_default();
    let cluster = named(&file, "clusters", "cluster", name).ok_or_else(|| KubeconfigError::Cluster(name.into()))?;

    let url = master.or_else(|| text_of(cluster, "server")).unwrap_or_default();
    let server = url.parse::<http::Uri>().ok().filter(|url| url.host().is_some());
    let server = server.ok_or_else(|| KubeconfigError::Server { cluster: name.to_owned(), url: url.to_owned() })?;
    let mut config = Config::new(server);
    if let Some(namespace) = text_of(context, "namespace") {
        namespace.clone_into(&mut config.default_namespace);
    }
    config.accept_invalid_certs = cluster["insecure-skip-tls-verify"] == Value::Bool(true);
    config.tls_server_name = text_of(cluster, "tls-server-name").map(str::to_owned);
    let authority = authority_data(cluster)?;
    if let Some(pem) = &authority {
        config.root_cert = Some(certificates(pem)?);
    } else {
        config.root_cert_file = path_of(cluster, "certificate-authority", directory).map(Into::into);
    }
    let proxy = text_of(cluster, "proxy-url").map(str::parse).transpose();
    config.proxy_url = proxy.map_err(|error| field("proxy-url", &error))?;
    // As in client-go, a user that is not there is nobody.
    let user = text_of(context, "user").and_then(|user| named(&file, "users", "user", user));
    if let Some(user) = user {
        config.auth_info = auth_info(user, directory);
        if let Some(exec) = &mut config.auth_info.exec
            && exec.provide_cluster_info
        {
            exec.cluster =
                Some(exec_cluster(cluster, &config.cluster_url, authority, config.root_cert_file.as_deref())?);
        }
    }
    Ok(config)
}

fn auth_info(user: &Value, directory: &Path) -> AuthInfo {
    let text = |key: &str| text_of(user, key).map(str::to_owned);
    let secret = |key: &str| text_of(user, key).map(|text| SecretString::from(text.to_owned()));
    let extra = user["as-user-extra"]
        .as_object()
        .map(|all| all.iter().map(|(key, values)| (key.clone(), texts(values))).collect::<HashMap<_, _>>());
    AuthInfo {
        username: text("username"),
        password: secret("password"),
        token: secret("token"),
        token_file: path_of(user, "tokenFile", directory),
        client_certificate: path_of(user, "client-certificate", directory),
        client_certificate_data: text("client-certificate-data"),
        client_key: path_of(user, "client-key", directory),
        client_key_data: secret("client-key-data"),
        impersonate: text("as"),
        impersonate_uid: text("as-uid"),
        impersonate_groups: Some(texts(&user["as-groups"])).filter(|groups| !groups.is_empty()),
        impersonate_user_extra: extra,
        auth_provider: text_of(&user["auth-provider"], "name").map(|name| AuthProviderConfig {
            name: name.to_owned(),
            config: text_map(&user["auth-provider"]["config"]),
            ..AuthProviderConfig::default()
        }),
        exec: user["exec"].is_object().then(|| exec(&user["exec"], directory)),
        ..AuthInfo::default()
    }
}

fn exec(exec: &Value, directory: &Path) -> ExecConfig {
    let command = match text_of(exec, "command") {
        // A bare name is looked up in PATH.
        Some(name) if name.contains('/') => path_of(exec, "command", directory),
        name => name.map(str::to_owned),
    };
    ExecConfig {
        api_version: text_of(exec, "apiVersion").map(str::to_owned),
        command,
        args: Some(texts(&exec["args"])),
        env: exec["env"].as_array().map(|all| all.iter().map(text_map).collect()),
        interactive_mode: match text_of(exec, "interactiveMode") {
            Some("Always") => Some(ExecInteractiveMode::Always),
            Some("Never") => Some(ExecInteractiveMode::Never),
            _ => None,
        },
        provide_cluster_info: exec["provideClusterInfo"] == Value::Bool(true),
        ..ExecConfig::default()
    }
}

fn exec_cluster(
    cluster: &Value,
    server: &http::Uri,
    authority: Option<Vec<u8>>,
    authority_file: Option<&Path>,
) -> Result<ExecAuthCluster, KubeconfigError> {
    let authority = match (authority, authority_file) {
        (Some(data), _) => Some(data),
        (None, Some(path)) => Some(std::fs::read(path).map_err(|error| field("certificate-authority", &error))?),
        (None, None) => None,
    };
    let extensions = cluster["extensions"].as_array();
    let extension = extensions.and_then(|all| all.iter().find(|it| it["name"] == EXEC_EXTENSION));
    Ok(ExecAuthCluster {
        server: Some(server.to_string()),
        insecure_skip_tls_verify: cluster["insecure-skip-tls-verify"].as_bool(),
        certificate_authority_data: authority,
        proxy_url: text_of(cluster, "proxy-url").map(str::to_owned),
        tls_server_name: text_of(cluster, "tls-server-name").map(str::to_owned),
        config: extension.map(|it| it["extension"].clone()),
    })
}

/// The part `inner` of the item of a list that has this name.
fn named<'a>(file: &'a Value, list: &str, inner: &str, name: &str) -> Option<&'a Value> {
    file[list].as_array()?.iter().find(|item| item["name"] == name).map(|item| &item[inner])
}

/// A text that is not empty.
fn text_of<'a>(value: &'a Value, key: &str) -> Option<&'a str> {
    value[key].as_str().filter(|text| !text.is_empty())
}

/// A path; a relative one begins where the file is.
fn path_of(value: &Value, key: &str, directory: &Path) -> Option<String> {
    text_of(value, key).map(|path| directory.join(path).to_string_lossy().into_owned())
}

fn texts(list: &Value) -> Vec<String> {
    list.as_array().into_iter().flatten().filter_map(Value::as_str).map(str::to_owned).collect()
}

fn text_map(map: &Value) -> HashMap<String, String> {
    let fields = map.as_object().into_iter().flatten();
    fields.filter_map(|(key, value)| Some((key.clone(), value.as_str()?.to_owned()))).collect()
}

fn authority_data(cluster: &Value) -> Result<Option<Vec<u8>>, KubeconfigError> {
    text_of(cluster, "certificate-authority-data")
        .map(|data| BASE64_STANDARD.decode(data).map_err(|error| field("certificate-authority-data", &error)))
        .transpose()
}

fn certificates(pem: &[u8]) -> Result<Vec<Vec<u8>>, KubeconfigError> {
    let all = CertificateDer::pem_slice_iter(pem).map(|one| one.map(|der| der.to_vec()));
    all.collect::<Result<_, _>>().map_err(|error| field("certificate-authority-data", &format!("{error:?}")))
}

fn field(field: &'static str, reason: &dyn std::fmt::Display) -> KubeconfigError {
    KubeconfigError::Field { field, reason: reason.to_string() }
}

#[cfg(test)]
mod tests;
