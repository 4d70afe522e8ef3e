//! The way to the API server through an HTTP proxy.

use http::uri::Scheme;
use http::{HeaderValue, Uri};
use hyper_util::client::legacy::connect::proxy::Tunnel;
use hyper_util::client::proxy::matcher::Matcher;

use super::ClientError;
use super::socket::Sockets;

/// A proxy that is asked for a tunnel (`CONNECT`) to the server, so that TLS is between the server and us.
pub(super) struct Proxy {
    /// Without a user.
    uri: Uri,
    credentials: Option<HeaderValue>,
}

impl Proxy {
    /// The `proxy_url` of a configuration, which may have a user and a password.
    pub(super) fn of(config: &kube::Config) -> Result<Option<Self>, ClientError> {
        let Some(url) = &config.proxy_url else { return Ok(None) };
        let unsupported = |uri: &Uri| ClientError::Proxy(uri.host().unwrap_or("without a host").to_owned());
        let found = Matcher::builder().all(url.to_string()).build().intercept(&config.cluster_url);
        let found = found.ok_or_else(|| unsupported(url))?;
        let over_tls = config.cluster_url.scheme() == Some(&Scheme::HTTPS);
        if !over_tls || found.uri().scheme() != Some(&Scheme::HTTP) {
            return Err(unsupported(found.uri()));
        }
        Ok(Some(Self { uri: found.uri().clone(), credentials: found.basic_auth().cloned() }))
    }

    /// Makes connections to servers through the proxy.
    pub(super) fn tunnel(&self) -> Tunnel<Sockets> {
        let tunnel = Tunnel::new(self.uri.clone(), Sockets::new());
        match &self.credentials {
            Some(credentials) => tunnel.with_auth(credentials.clone()),
            None => tunnel,
        }
    }
}
