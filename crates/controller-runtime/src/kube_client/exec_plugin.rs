//! A program that says who we are: `users[].user.exec` of a kubeconfig, API `client.authentication.k8s.io`.

use std::process::Stdio;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};

use jiff::{SignedDuration, Timestamp};
use kube::config::{ExecConfig, ExecInteractiveMode};
use secrecy::SecretString;
use serde_json::{Value, json};
use tokio::process::Command;
use tokio::sync::Mutex;

use super::ClientError;
use super::credentials::secret;

/// How long before its end a credential is no longer used.
const MARGIN: SignedDuration = SignedDuration::from_secs(60);

/// Client certificate and key, as PEM.
pub(super) struct Identity {
    pub(super) certificate: String,
    pub(super) key: SecretString,
}

/// What the plugin said.
#[derive(Clone)]
pub(super) struct Credential {
    pub(super) token: Option<SecretString>,
    pub(super) identity: Option<Arc<Identity>>,
    /// Without one it is good until it is refused.
    expires: Option<Timestamp>,
}

/// A plugin and its last answer.
pub(super) struct ExecPlugin {
    config: ExecConfig,
    held: Mutex<Option<Credential>>,
    refused: AtomicBool,
}

impl ExecPlugin {
    pub(super) fn new(config: ExecConfig) -> Self {
        Self { config, held: Mutex::new(None), refused: AtomicBool::new(false) }
    }

    /// The answer of before while it is good, or a new one. Dropping the future ends the program.
    pub(super) async fn credential(&self) -> Result<Credential, ClientError> {
        let mut held = self.held.lock().await;
        let refused = self.refused.swap(false, Ordering::Relaxed);
        let good = |held: &&Credential| !refused && held.expires.is_none_or(|end| Timestamp::now() + MARGIN < end);
        if let Some(credential) = held.as_ref().filter(good) {
            return Ok(credential.clone());
        }
        // A failure leaves nothing behind that was refused or has expired.
        *held = None;
        let fresh = self.ask().await?;
        *held = Some(fresh.clone());
        Ok(fresh)
    }

    pub(super) fn was_refused(&self) {
        self.refused.store(true, Ordering::Relaxed);
    }

    async fn ask(&self) -> Result<Credential, ClientError> {
        let program = self.config.command.as_deref().unwrap_or_default();
        let failed = |reason: String| ClientError::ExecPlugin { command: program.to_owned(), reason };
        if program.is_empty() {
            return Err(failed("no command is given".to_owned()));
        }
        if self.config.interactive_mode == Some(ExecInteractiveMode::Always) {
            return Err(failed("it wants a terminal (interactiveMode Always), and there is none".to_owned()));
        }
        let mut command = Command::new(program);
        command.args(self.config.args.iter().flatten());
        for variable in self.config.env.iter().flatten() {
            if let (Some(name), Some(value)) = (variable.get("name"), variable.get("value")) {
                command.env(name, value);
            }
        }
        command.env("KUBERNETES_EXEC_INFO", self.question().to_string());
        command.stdin(Stdio::null()).stderr(Stdio::inherit()).kill_on_drop(true);
        let output = command.output().await.map_err(|error| failed(format!("it cannot be run: {error}")))?;
        if !output.status.success() {
            return Err(failed(format!("it ended with {}", output.status)));
        }
        answer(&output.stdout, self.config.api_version.as_deref()).map_err(failed)
    }

    fn question(&self) -> Value {
        let mut spec = json!({ "interactive": false });
        if let Some(cluster) = &self.config.cluster {
            spec["cluster"] = json!(cluster);
        }
        json!({ "kind": "ExecCredential", "apiVersion": self.config.api_version, "spec": spec })
    }
}

/// Reads an `ExecCredential`; errors are for the plugin's author.
fn answer(output: &[u8], version: Option<&str>) -> Result<Credential, String> {
    let answer: Value =
        serde_json::from_slice(output).map_err(|error| format!("its answer is no ExecCredential in JSON: {error}"))?;
    let said = answer["apiVersion"].as_str();
    if version.is_some() && said != version {
        return Err(format!("its answer is of {}, not of {}", said.unwrap_or("no version"), version.unwrap_or("")));
    }
    let status = &answer["status"];
    let text = |key: &str| status[key].as_str().filter(|text| !text.is_empty());
    let expires = text("expirationTimestamp")
        .map(str::parse)
        .transpose()
        .map_err(|error| format!("its expirationTimestamp is no RFC 3339 time: {error}"))?;
    let identity = match (text("clientCertificateData"), text("clientKeyData")) {
        (Some(certificate), Some(key)) => {
            Some(Arc::new(Identity { certificate: certificate.to_owned(), key: secret(key) }))
        }
        (None, None) => None,
        _ => return Err("its answer has only one of clientCertificateData and clientKeyData".to_owned()),
    };
    let token = text("token").map(secret);
    if token.is_none() && identity.is_none() {
        return Err("its answer has neither token nor client certificate".to_owned());
    }
    Ok(Credential { token, identity, expires })
}

#[cfg(test)]
mod tests;
