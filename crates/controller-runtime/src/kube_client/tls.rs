//! TLS as the configuration asks for it: whom to trust, and with which certificate to show who we are.
//!
//! Certificate authorities and client certificates that are files are read again once a minute, when a connection is
//! made: both are exchanged while processes run.

use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use hyper_rustls::{DefaultServerNameResolver, FixedServerNameResolver, ResolveServerName};
use parking_lot::Mutex;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::sign::{CertifiedKey, SingleCertAndKey};
use rustls::{ClientConfig, DigitallySignedStruct, InconsistentKeys, RootCertStore, SignatureScheme};
use secrecy::ExposeSecret;
use tokio::time::Instant;

use super::ClientError;
use super::credentials::Credentials;

/// How long files are believed.
const BELIEVED: Duration = Duration::from_mins(1);

/// What the server may choose from (ALPN), the better first. A proxy in between may know HTTP/1.1 alone.
const PROTOCOLS: [&[u8]; 2] = [b"h2", b"http/1.1"];

/// Where the certificate authorities come from.
enum Authorities {
    /// Of the configuration; as DER.
    Given(Vec<CertificateDer<'static>>),
    /// A file of PEM.
    File(PathBuf),
    /// Of the operating system.
    System,
    /// Any server is believed.
    None,
}

/// A part of the client's identity, as PEM.
enum Part {
    Given(Vec<u8>),
    File(PathBuf),
}

/// What a configuration of rustls is made of. Compared to see whether there is anything new.
#[derive(PartialEq)]
struct Material {
    authorities: Vec<CertificateDer<'static>>,
    identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
}

struct Held {
    read: Instant,
    material: Material,
    config: Arc<ClientConfig>,
}

/// Makes the configuration of each connection.
pub(super) struct Tls {
    authorities: Authorities,
    identity: Option<(Part, Part)>,
    credentials: Arc<Credentials>,
    server_name: Option<ServerName<'static>>,
    held: Mutex<Option<Held>>,
}

impl Tls {
    /// Of a configuration; what is wrong with it shows here, except for what an exec plugin says.
    pub(super) fn of(config: &kube::Config, credentials: Arc<Credentials>) -> Result<Self, ClientError> {
        let authorities = match (&config.root_cert_file, &config.root_cert) {
            _ if config.accept_invalid_certs => Authorities::None,
            (Some(path), _) => Authorities::File(path.clone()),
            (None, Some(given)) => Authorities::Given(given.iter().cloned().map(CertificateDer::from).collect()),
            (None, None) => Authorities::System,
        };
        let user = &config.auth_info;
        let certificate = part(user.client_certificate_data.as_deref(), user.client_certificate.as_deref())?;
        let key_data = user.client_key_data.as_ref().map(ExposeSecret::expose_secret);
        let identity = match (certificate, part(key_data, user.client_key.as_deref())?) {
            (Some(certificate), Some(key)) => Some((certificate, key)),
            (None, None) => None,
            _ => {
                return Err(ClientError::Certificate(
                    "a client certificate needs its key and the key its certificate".to_owned(),
                ));
            }
        };
        let server_name = config
            .tls_server_name
            .as_ref()
            .map(|name| ServerName::try_from(name.clone()))
            .transpose()
            .map_err(|error| ClientError::Certificate(format!("tls-server-name is no name: {error}")))?;
        let tls = Self { authorities, identity, credentials, server_name, held: Mutex::new(None) };
        if config.cluster_url.scheme() == Some(&http::uri::Scheme::HTTPS) {
            let identity = tls.identity()?;
            tls.renew(identity)?;
        }
        Ok(tls)
    }

    /// How the server is called in its certificate.
    pub(super) fn server_name(&self) -> Arc<dyn ResolveServerName + Send + Sync> {
        match &self.server_name {
            Some(name) => Arc::new(FixedServerNameResolver::new(name.clone())),
            None => Arc::new(DefaultServerNameResolver::default()),
        }
    }

    /// For a connection that is made at this moment.
    pub(super) async fn config(&self) -> Result<Arc<ClientConfig>, ClientError> {
        let exec = self.credentials.identity().await?;
        if exec.is_none()
            && let Some(held) = self.held.lock().as_ref().filter(|held| held.read.elapsed() < BELIEVED)
        {
            return Ok(held.config.clone());
        }
        let identity = match exec {
            Some(identity) => Some(pair(identity.certificate.as_bytes(), identity.key.expose_secret().as_bytes())),
            None => self.identity().transpose(),
        };
        match (identity.transpose().and_then(|identity| self.renew(identity)), self.held.lock().as_mut()) {
            (Err(error), Some(held)) => {
                tracing::warn!("{error}; the certificates of before are used on");
                held.read = Instant::now();
                Ok(held.config.clone())
            }
            (result, _) => result,
        }
    }

    fn identity(&self) -> Result<Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>, ClientError> {
        let Some((certificate, key)) = &self.identity else { return Ok(None) };
        pair(&certificate.read()?, &key.read()?).map(Some)
    }

    /// Reads what there is to read, and makes a new configuration if that brought anything new: with the old one, TLS
    /// sessions can be resumed.
    fn renew(
        &self,
        identity: Option<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>)>,
    ) -> Result<Arc<ClientConfig>, ClientError> {
        let authorities = match &self.authorities {
            Authorities::Given(given) => given.clone(),
            Authorities::File(path) => usable(&read(path)?),
            Authorities::System => rustls_native_certs::load_native_certs().certs,
            Authorities::None => Vec::new(),
        };
        let material = Material { authorities, identity };
        let mut held = self.held.lock();
        if let Some(held) = held.as_mut().filter(|held| held.material == material) {
            held.read = Instant::now();
            return Ok(held.config.clone());
        }
        let config = Arc::new(self.configure(&material)?);
        *held = Some(Held { read: Instant::now(), material, config: config.clone() });
        Ok(config)
    }

    fn configure(&self, material: &Material) -> Result<ClientConfig, ClientError> {
        let unusable = |error: rustls::Error| ClientError::Certificate(error.to_string());
        let builder = ClientConfig::builder();
        let builder = if matches!(self.authorities, Authorities::None) {
            let provider = builder.crypto_provider().clone();
            builder.dangerous().with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        } else {
            builder.with_root_certificates(self.roots(&material.authorities)?)
        };
        let mut config = match &material.identity {
            Some((chain, key)) => {
                let key = builder.crypto_provider().key_provider.load_private_key(key.clone_key()).map_err(unusable)?;
                builder.with_client_cert_resolver(shown(CertifiedKey::new(chain.clone(), key)).map_err(unusable)?)
            }
            None => builder.with_no_client_auth(),
        };
        config.alpn_protocols = PROTOCOLS.map(<[u8]>::to_vec).to_vec();
        Ok(config)
    }

    /// What can be used of a bundle, as client-go does; a bundle without any is one that is being written.
    fn roots(&self, authorities: &[CertificateDer<'static>]) -> Result<RootCertStore, ClientError> {
        let mut store = RootCertStore::empty();
        let of_the_system = matches!(self.authorities, Authorities::System);
        for authority in authorities {
            if let Err(error) = store.add(authority.clone())
                && !of_the_system
            {
                tracing::warn!(%error, "A certificate authority of the API server cannot be used and is left out");
            }
        }
        if store.is_empty() && !of_the_system {
            return Err(ClientError::Certificate("there is no certificate authority that can be used".to_owned()));
        }
        Ok(store)
    }
}

/// What the server is shown. A certificate that rustls cannot read, as one of X.509 version 1, is for the server to judge.
fn shown(identity: CertifiedKey) -> Result<Arc<SingleCertAndKey>, rustls::Error> {
    match identity.keys_match() {
        Err(error @ rustls::Error::InconsistentKeys(InconsistentKeys::KeyMismatch)) => Err(error),
        Ok(()) | Err(_) => Ok(Arc::new(SingleCertAndKey::from(identity))),
    }
}

/// What a kubeconfig has in base64, or as a file.
fn part(data: Option<&str>, path: Option<&str>) -> Result<Option<Part>, ClientError> {
    match (data.filter(|data| !data.is_empty()), path.filter(|path| !path.is_empty())) {
        (Some(data), _) => {
            let bytes = BASE64_STANDARD.decode(data).map_err(|error| {
                ClientError::Certificate(format!("client-certificate-data or client-key-data: {error}"))
            })?;
            Ok(Some(Part::Given(bytes)))
        }
        (None, path) => Ok(path.map(|path| Part::File(path.into()))),
    }
}

impl Part {
    fn read(&self) -> Result<Vec<u8>, ClientError> {
        match self {
            Self::Given(bytes) => Ok(bytes.clone()),
            Self::File(path) => read(path),
        }
    }
}

fn read(path: &PathBuf) -> Result<Vec<u8>, ClientError> {
    std::fs::read(path).map_err(|source| ClientError::Unreadable { path: path.clone(), source })
}

pub(super) fn pair(
    certificate: &[u8],
    key: &[u8],
) -> Result<(Vec<CertificateDer<'static>>, PrivateKeyDer<'static>), ClientError> {
    let key = PrivateKeyDer::from_pem_slice(key)
        .map_err(|error| ClientError::Certificate(format!("the client key is no key in PEM: {error}")))?;
    Ok((certificates(certificate)?, key))
}

/// The certificates of a bundle without what is none.
fn usable(pem: &[u8]) -> Vec<CertificateDer<'static>> {
    let found = CertificateDer::pem_slice_iter(pem).filter_map(|one| {
        one.inspect_err(|error| tracing::warn!(%error, "A part of the bundle of certificate authorities is left out"))
            .ok()
    });
    found.collect()
}

fn certificates(pem: &[u8]) -> Result<Vec<CertificateDer<'static>>, ClientError> {
    CertificateDer::pem_slice_iter(pem)
        .collect::<Result<_, _>>()
        .map_err(|error| ClientError::Certificate(format!("not a certificate in PEM: {error}")))
}

/// Believes any server, as `insecure-skip-tls-verify` asks. What it signs is still checked against the key it shows.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, rustls::Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls12_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, rustls::Error> {
        rustls::crypto::verify_tls13_signature(
            message,
            certificate,
            signature,
            &self.0.signature_verification_algorithms,
        )
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

#[cfg(test)]
pub(super) mod tests;
