//! The keys of one cluster: an authority, a server, an administrator, and the signer of service account tokens.

use std::{
    fmt,
    net::Ipv4Addr,
    path::{Path, PathBuf},
};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// PEM files below one directory.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: Authority,
    pub(super) server: Identity,
    /// In the group `system:masters`, which may do everything.
    pub(super) admin: Identity,
    /// Key pair that signs and checks service account tokens.
    pub(super) signer: Identity,
}

/// A certificate (of the signer, a public key) and its private key.
#[derive(Debug)]
pub(crate) struct Identity {
    pub(crate) certificate: PathBuf,
    pub(crate) key: PathBuf,
}

/// Signs everything of one cluster.
pub(super) struct Authority {
    issuer: CertifiedIssuer<'static, KeyPair>,
    /// Its certificate.
    pub(super) file: PathBuf,
}

impl fmt::Debug for Authority {
    fn fmt(&self, formatter: &mut fmt::Formatter<'_>) -> fmt::Result {
        formatter.debug_struct("Authority").field("file", &self.file).finish_non_exhaustive()
    }
}

impl Authority {
    fn make(directory: &Path) -> Result<Self> {
        let mut params = CertificateParams::new(Vec::new())?;
        params.distinguished_name.push(DnType::CommonName, "outrigger-e2e");
        params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
        params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
        let issuer = CertifiedIssuer::self_signed(params, KeyPair::generate()?)?;
        let file = write(directory, "authority.crt", &issuer.pem())?;
        Ok(Self { issuer, file })
    }

    fn identity(&self, directory: &Path, name: &str, params: &CertificateParams) -> Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &self.issuer)?;
        Ok(Identity {
            certificate: write(directory, &format!("{name}.crt"), &certificate.pem())?,
            key: write(directory, &format!("{name}.key"), &key.serialize_pem())?,
        })
    }

    /// What a kubelet shows as a client of the API server, and as a server to it.
    pub(super) fn node(&self, name: &str, address: Ipv4Addr, directory: &Path) -> Result<Identity> {
        let mut params = CertificateParams::new(vec![name.to_owned(), address.to_string()])?;
        params.distinguished_name.push(DnType::OrganizationName, "system:nodes");
        params.distinguished_name.push(DnType::CommonName, format!("system:node:{name}"));
        params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth, ExtendedKeyUsagePurpose::ClientAuth];
        self.identity(directory, "node", &params)
    }
}

/// Makes all of them; they last as long as rcgen's default, which outlives any test.
pub(super) fn make(directory: &Path) -> Result<Certificates> {
    std::fs::create_dir_all(directory)?;
    let authority = Authority::make(directory)?;
    let signer = KeyPair::generate()?;
    Ok(Certificates {
        server: authority.identity(directory, "apiserver", &server()?)?,
        admin: authority.identity(directory, "admin", &admin()?)?,
        signer: Identity {
            certificate: write(directory, "service-accounts.pub", &signer.public_key_pem())?,
            key: write(directory, "service-accounts.key", &signer.serialize_pem())?,
        },
        authority,
    })
}

fn write(directory: &Path, name: &str, pem: &str) -> Result<PathBuf> {
    let path = directory.join(name);
    std::fs::write(&path, pem).with_context(|| format!("cannot write {}", path.display()))?;
    Ok(path)
}

fn server() -> Result<CertificateParams> {
    let names = ["127.0.0.1", "10.0.0.1", "localhost", "kubernetes", "kubernetes.default", "kubernetes.default.svc"];
    let mut params = CertificateParams::new(names.map(str::to_owned).to_vec())?;
    params.distinguished_name.push(DnType::CommonName, "kube-apiserver");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ServerAuth];
    Ok(params)
}

fn admin() -> Result<CertificateParams> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::OrganizationName, "system:masters");
    params.distinguished_name.push(DnType::CommonName, "admin");
    params.extended_key_usages = vec![ExtendedKeyUsagePurpose::ClientAuth];
    Ok(params)
}
