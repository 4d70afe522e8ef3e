//! The content of one Secret as a driver gets it, kept out of every log.

use std::{collections::BTreeMap, fmt};

use k8s_openapi::{ByteString, api::core::v1::Secret};
use kube::{Resource, api::GetParams};
use serde::Deserialize;

use crate::{dns_1123, secret_ref::SecretRef};

/// Key and value pairs for the `secrets` field of a CSI request. Formatting it for debugging shows nothing.
#[derive(Clone, Default, PartialEq, Eq)]
pub struct Credentials(BTreeMap<String, String>);

impl Credentials {
    /// Whether there is nothing in it.
    pub fn is_empty(&self) -> bool {
        self.0.is_empty()
    }

    /// The pairs, for the one place that puts them into a request.
    pub fn expose<M: FromIterator<(String, String)>>(&self) -> M {
        self.0.iter().map(|(key, value)| (key.clone(), value.clone())).collect()
    }
}

impl fmt::Debug for Credentials {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("Credentials(hidden)")
    }
}

/// Why a Secret could not be used. No variant holds anything of its content.
#[derive(Debug, thiserror::Error)]
pub enum Error {
    /// The reference cannot be one; asked of nobody.
    #[error("{0:?} is not a possible namespace/name of a Secret: correct the reference")]
    Impossible(String),
    /// There is no such Secret.
    #[error("secret {0} does not exist: create it, or correct the StorageClass parameters that name it")]
    Missing(SecretRef),
    /// This process may not read it.
    #[error("secret {secret} may not be read: allow get on secrets in the RBAC rules of this sidecar ({reason})")]
    Forbidden {
        /// Which Secret.
        secret: SecretRef,
        /// The API server's answer.
        reason: String,
    },
    /// A value is binary, and CSI carries text only.
    #[error(
        "secret {secret}: the value of key {key:?} is not UTF-8 text, which CSI requires: encode it, for example as base64"
    )]
    NotUtf8 {
        /// Which Secret.
        secret: SecretRef,
        /// The key of the value.
        key: String,
    },
    /// The answer was not a Secret. The cause is left out because it may quote the content.
    #[error("secret {0} could not be decoded from the API server's answer: look at the object with kubectl")]
    Malformed(SecretRef),
    /// Any other failure; trying again may help.
    #[error("secret {secret} could not be read: {reason}; this may pass, else see whether the API server is well")]
    Unavailable {
        /// Which Secret.
        secret: SecretRef,
        /// The API server's answer, or what kept it from coming.
        reason: String,
        /// The cause.
        source: Box<kube::Error>,
    },
}

/// Only what is read, and without `Debug`: `kube::Api` would demand one, and it logs answers it cannot decode.
#[derive(Deserialize)]
struct SecretData {
    data: Option<BTreeMap<String, ByteString>>,
}

/// Reads one Secret: a single GET, not cached, so that a rotated Secret is used at the next call.
pub async fn fetch(client: &kube::Client, secret: &SecretRef) -> Result<Credentials, Error> {
    // References also come from annotations, which nobody validated; the names become a URL path.
    if !dns_1123::is_label(&secret.namespace) || !dns_1123::is_subdomain(&secret.name) {
        return Err(Error::Impossible(secret.to_string()));
    }
    let answer = get(client, secret).await.map_err(|error| match error {
        kube::Error::Api(status) if status.code == 404 => Error::Missing(secret.clone()),
        kube::Error::Api(status) if status.code == 403 => {
            Error::Forbidden { secret: secret.clone(), reason: status.message.clone() }
        }
        // The cause quotes the bytes around the fault.
        kube::Error::FromUtf8(_) => Error::Malformed(secret.clone()),
        error => Error::Unavailable {
            secret: secret.clone(),
            reason: match &error {
                kube::Error::Api(status) => status.message.clone(),
                other => other.to_string(),
            },
            source: Box::new(error),
        },
    })?;
    let SecretData { data } = serde_json::from_str(&answer).map_err(|_| Error::Malformed(secret.clone()))?;
    let decode = |(key, ByteString(bytes))| match String::from_utf8(bytes) {
        Ok(value) => Ok((key, value)),
        Err(_) => Err(Error::NotUtf8 { secret: secret.clone(), key }),
    };
    data.unwrap_or_default().into_iter().map(decode).collect::<Result<_, _>>().map(Credentials)
}

async fn get(client: &kube::Client, secret: &SecretRef) -> Result<String, kube::Error> {
    let path = Secret::url_path(&(), Some(&secret.namespace));
    let request =
        kube::core::Request::new(path).get(&secret.name, &GetParams::default()).map_err(kube::Error::BuildRequest)?;
    client.request_text(request).await
}

#[cfg(test)]
mod tests;
