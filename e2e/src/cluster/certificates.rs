//! The keys of one cluster: an authority, a server, an administrator, and the signer of service account tokens.

use std::path::{Path, PathBuf};

use anyhow::{Context as _, Result};
use rcgen::{
    BasicConstraints, CertificateParams, CertifiedIssuer, DnType, ExtendedKeyUsagePurpose, IsCa, KeyPair,
    KeyUsagePurpose,
};

/// PEM files below one directory.
#[derive(Debug)]
pub(super) struct Certificates {
    pub(super) authority: PathBuf,
    pub(super) server: Identity,
    /// In the group `system:masters`, which may do everything.
    pub(super) admin: Identity,
    /// Key pair that signs and checks service account tokens.
    pub(super) signer: Identity,
}

/// A certificate (of the signer, a public key) and its private key.
#[derive(Debug)]
pub(super) struct Identity {
    pub(super) certificate: PathBuf,
    pub(super) key: PathBuf,
}

type Authority = CertifiedIssuer<'static, KeyPair>;

/// Makes all of them; they last as long as rcgen's default, which outlives any test.
pub(super) fn make(directory: &Path) -> Result<Certificates> {
    std::fs::create_dir_all(directory)?;
    let authority = authority()?;
    let write = |name: &str, pem: String| -> Result<PathBuf> {
        let path = directory.join(name);
        std::fs::write(&path, pem).with_context(|| format!("cannot write {}", path.display()))?;
        Ok(path)
    };
    let identity = |name: &str, params: CertificateParams| -> Result<Identity> {
        let key = KeyPair::generate()?;
        let certificate = params.signed_by(&key, &authority)?;
        Ok(Identity {
            certificate: write(&format!("{name}.crt"), certificate.pem())?,
            key: write(&format!("{name}.key"), key.serialize_pem())?,
        })
    };
    let signer = KeyPair::generate()?;
    Ok(Certificates {
        server: identity("apiserver", server()?)?,
        admin: identity("admin", admin()?)?,
        signer: Identity {
            certificate: write("service-accounts.pub", signer.public_key_pem())?,
            key: write("service-accounts.key", signer.serialize_pem())?,
        },
        authority: write("authority.crt", authority.pem())?,
    })
}

fn authority() -> Result<Authority> {
    let mut params = CertificateParams::new(Vec::new())?;
    params.distinguished_name.push(DnType::CommonName, "outrigger-e2e");
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::DigitalSignature];
    Ok(CertifiedIssuer::self_signed(params, KeyPair::generate()?)?)
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
