//! The `Authorization` header: a token, a token file that is read again, a name with a password, or what an exec plugin
//! says. Client certificates are in `tls.rs`.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use http::HeaderValue;
use kube::config::AuthInfo;
use parking_lot::Mutex;
use secrecy::{ExposeSecret, SecretString};
use tokio::time::Instant;

use super::ClientError;
use super::exec_plugin::{ExecPlugin, Identity};

/// How long a token file is believed. The kubelet exchanges a token well before it expires.
const BELIEVED: Duration = Duration::from_mins(1);

/// How the process says who it is.
pub(super) enum Credentials {
    /// Not in a header.
    None,
    Fixed(HeaderValue),
    File(TokenFile),
    Exec(Box<ExecPlugin>),
}

impl Credentials {
    /// Of a user of a kubeconfig, or of a service account.
    pub(super) fn of(user: &AuthInfo) -> Result<Self, ClientError> {
        if let Some(provider) = &user.auth_provider {
            // The one provider client-go still has; its token is used as it stands.
            return match (provider.name.as_str(), provider.config.get("id-token")) {
                ("oidc", Some(token)) => bearer(token).map(Self::Fixed),
                _ => Err(ClientError::AuthProvider(provider.name.clone())),
            };
        }
        if let (Some(name), Some(password)) = (&user.username, &user.password) {
            let pair = BASE64_STANDARD.encode(format!("{name}:{}", password.expose_secret()));
            return header(&format!("Basic {pair}")).map(Self::Fixed);
        }
        let token = user.token.as_ref().map(ExposeSecret::expose_secret).filter(|token| !token.is_empty());
        match (&user.token_file, token) {
            (Some(path), token) => TokenFile::open(path.into(), token).map(Self::File),
            (None, Some(token)) => bearer(token).map(Self::Fixed),
            (None, None) => {
                Ok(user.exec.as_ref().map_or(Self::None, |exec| Self::Exec(Box::new(ExecPlugin::new(exec.clone())))))
            }
        }
    }

    /// The header to send with a request that begins at this moment.
    pub(super) async fn header(&self) -> Result<Option<HeaderValue>, ClientError> {
        match self {
            Self::None => Ok(None),
            Self::Fixed(value) => Ok(Some(value.clone())),
            Self::File(file) => Ok(Some(file.header())),
            Self::Exec(plugin) => {
                plugin.credential().await?.token.as_ref().map(|token| bearer(token.expose_secret())).transpose()
            }
        }
    }

    /// The client certificate that comes from an exec plugin.
    pub(super) async fn identity(&self) -> Result<Option<Arc<Identity>>, ClientError> {
        match self {
            Self::Exec(plugin) => Ok(plugin.credential().await?.identity),
            Self::None | Self::Fixed(_) | Self::File(_) => Ok(None),
        }
    }

    /// The server does not accept them: the next request looks for new ones.
    pub(super) fn were_refused(&self) {
        match self {
            Self::None | Self::Fixed(_) => {}
            Self::File(file) => file.held.lock().1 = None,
            Self::Exec(plugin) => plugin.was_refused(),
        }
    }
}

/// A file with a token, read again once a minute.
pub(super) struct TokenFile {
    path: PathBuf,
    /// The header, and when it was read; not at all if it is to be read anew.
    held: Mutex<(HeaderValue, Option<Instant>)>,
}

impl TokenFile {
    /// Reads it, or does with `instead` what the file is for.
    fn open(path: PathBuf, instead: Option<&str>) -> Result<Self, ClientError> {
        let value = match (read(&path), instead) {
            (Ok(value), _) => value,
            (Err(_), Some(token)) => bearer(token)?,
            (Err(error), None) => return Err(error),
        };
        Ok(Self { path, held: Mutex::new((value, Some(Instant::now()))) })
    }

    /// A file that cannot be read any more is no reason to forget what it said: some are there for the start alone.
    fn header(&self) -> HeaderValue {
        let mut held = self.held.lock();
        if held.1.is_none_or(|at| at.elapsed() >= BELIEVED) {
            match read(&self.path) {
                Ok(value) => held.0 = value,
                Err(error) => tracing::warn!("{error}; the token of before is used on"),
            }
            held.1 = Some(Instant::now());
        }
        held.0.clone()
    }
}

fn read(path: &PathBuf) -> Result<HeaderValue, ClientError> {
    let token =
        std::fs::read_to_string(path).map_err(|source| ClientError::Unreadable { path: path.clone(), source })?;
    bearer(token.trim())
}

fn bearer(token: &str) -> Result<HeaderValue, ClientError> {
    header(&format!("Bearer {token}"))
}

fn header(text: &str) -> Result<HeaderValue, ClientError> {
    let mut value = HeaderValue::from_str(text).map_err(|_| ClientError::Token)?;
    value.set_sensitive(true);
    Ok(value)
}

/// A secret of a plugin's answer.
pub(super) fn secret(text: &str) -> SecretString {
    SecretString::from(text.to_owned())
}

#[cfg(test)]
mod tests;
