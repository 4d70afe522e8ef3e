#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::io::{Read as _, Write as _};
use std::net::TcpListener;
use std::path::Path;

use rcgen::{BasicConstraints, CertificateParams, CertifiedIssuer, IsCa, KeyPair};
use rustls::server::WebPkiClientVerifier;
use rustls::{ServerConfig, ServerConnection, StreamOwned};
use serde_json::json;

use super::super::client;
use super::*;

pub(in crate::kube_client) type Authority = CertifiedIssuer<'static, KeyPair>;

pub(in crate::kube_client) fn authority() -> Authority {
    let mut params = CertificateParams::default();
    params.is_ca = IsCa::Ca(BasicConstraints::Unconstrained);
    CertifiedIssuer::self_signed(params, KeyPair::generate().unwrap()).unwrap()
}

/// Certificate and key for a name, as PEM.
pub(in crate::kube_client) fn issue(authority: &Authority, name: &str) -> (String, String) {
    let key = KeyPair::generate().unwrap();
    let certificate = CertificateParams::new(vec![name.to_owned()]).unwrap().signed_by(&key, authority).unwrap();
    (certificate.pem(), key.serialize_pem())
}

pub(in crate::kube_client) fn provider() {
    let _ = rustls::crypto::ring::default_provider().install_default();
}

/// A server under this name that answers requests, one on each connection, and says how its client is called. Gives its
/// URL.
fn serve(authority: &Authority, name: &str) -> http::Uri {
    provider();
    let (certificate, key) = issue(authority, name);
    let mut clients = RootCertStore::empty();
    clients.add(authority.der().clone()).unwrap();
    let verifier = WebPkiClientVerifier::builder(Arc::new(clients)).allow_unauthenticated().build().unwrap();
    let (chain, key) = pair(certificate.as_bytes(), key.as_bytes()).unwrap();
    let config = ServerConfig::builder().with_client_cert_verifier(verifier).with_single_cert(chain, key).unwrap();
    let config = Arc::new(config);
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("https://{}", listener.local_addr().unwrap());
    std::thread::spawn(move || {
        for connection in listener.incoming() {
            let tls = ServerConnection::new(config.clone()).unwrap();
            let mut stream = StreamOwned::new(tls, connection.unwrap());
            // A client that does not believe us goes away.
            if !stream.read(&mut [0; 4096]).is_ok_and(|read| read > 0) {
                continue;
            }
            let known = stream.conn.peer_certificates().is_some();
            let body = json!({ "known": known }).to_string();
            let length = body.len();
            let answer = format!("HTTP/1.1 200 OK\r\nconnection: close\r\ncontent-length: {length}\r\n\r\n{body}");
            let _ = stream.write_all(answer.as_bytes()).and_then(|()| stream.flush());
        }
    });
    url.parse().unwrap()
}

pub(in crate::kube_client) fn trusting(url: &http::Uri, authority: &Authority) -> kube::Config {
    let mut config = kube::Config::new(url.clone());
    config.root_cert = Some(vec![authority.der().to_vec()]);
    config
}

/// Whether the server knows who asks.
async fn ask(config: &kube::Config) -> Result<bool, String> {
    let client = client(config, Duration::from_secs(10)).map_err(|error| error.to_string())?;
    let request = http::Request::get("/").body(Vec::new()).unwrap();
    let answer: serde_json::Value = client.request(request).await.map_err(|error| format!("{error:?}"))?;
    Ok(answer["known"] == true)
}

#[tokio::test]
async fn only_a_server_of_a_known_authority_is_believed() {
    let (ours, theirs) = (authority(), authority());
    let url = serve(&ours, "127.0.0.1");
    assert_eq!(ask(&trusting(&url, &ours)).await, Ok(false));
    let error = ask(&trusting(&url, &theirs)).await.unwrap_err();
    assert!(error.contains("UnknownIssuer") || error.contains("BadSignature"), "{error}");
    let mut blind = kube::Config::new(url);
    blind.accept_invalid_certs = true;
    assert_eq!(ask(&blind).await, Ok(false));
}

#[tokio::test]
async fn the_server_may_be_known_under_another_name() {
    let ours = authority();
    let url = serve(&ours, "kubernetes.example.com");
    let mut config = trusting(&url, &ours);
    let error = ask(&config).await.unwrap_err();
    assert!(error.contains("NotValidForName"), "{error}");
    config.tls_server_name = Some("kubernetes.example.com".to_owned());
    assert_eq!(ask(&config).await, Ok(false));
}

#[tokio::test]
async fn a_client_certificate_is_shown_whether_it_stands_in_the_file_or_beside_it() {
    let ours = authority();
    let url = serve(&ours, "127.0.0.1");
    let (certificate, key) = issue(&ours, "me");
    let directory = tempfile::tempdir().unwrap();
    let write = |name: &str, text: &str| {
        let path = directory.path().join(name);
        fs::write(&path, text).unwrap();
        path.to_str().unwrap().to_owned()
    };
    let data = |text: &str| BASE64_STANDARD.encode(text);
    for user in [
        json!({ "client-certificate": write("crt", &certificate), "client-key": write("key", &key) }),
        json!({ "client-certificate-data": data(&certificate), "client-key-data": data(&key) }),
    ] {
        let mut config = trusting(&url, &ours);
        config.auth_info = serde_json::from_value(user).unwrap();
        assert_eq!(ask(&config).await, Ok(true));
    }
}

#[test]
fn what_is_wrong_with_the_certificates_shows_when_the_client_is_made() {
    provider();
    let made = |config: &kube::Config| Tls::of(config, Arc::new(Credentials::None)).err().unwrap().to_string();
    let url: http::Uri = "https://k:1".parse().unwrap();
    let mut config = kube::Config::new(url.clone());
    config.root_cert_file = Some("/nonexistent/ca.crt".into());
    assert!(made(&config).contains("cannot read /nonexistent/ca.crt"), "{}", made(&config));
    for (user, want) in [
        (json!({ "client-certificate-data": "MAA=" }), "needs its key"),
        (json!({ "client-certificate-data": "%", "client-key-data": "MAA=" }), "client-certificate-data"),
        (json!({ "client-certificate-data": "MAA=", "client-key-data": "MAA=" }), "no key in PEM"),
    ] {
        let mut config = trusting(&url, &authority());
        config.auth_info = serde_json::from_value(user).unwrap();
        assert!(made(&config).contains(want), "{}", made(&config));
    }
}

#[tokio::test(start_paused = true)]
async fn an_authority_file_is_read_again_each_minute() {
    provider();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    let write = |path: &Path, text: &str| fs::write(path, text).unwrap();
    write(&path, &authority().pem());
    let mut config = kube::Config::new("https://k:1".parse().unwrap());
    config.root_cert_file = Some(path.clone());
    let tls = Tls::of(&config, Arc::new(Credentials::None)).unwrap();
    let first = tls.config().await.unwrap();
    let minute = || tokio::time::advance(BELIEVED);

    minute().await;
    assert!(Arc::ptr_eq(&first, &tls.config().await.unwrap()), "nothing new");
    write(&path, &authority().pem());
    assert!(Arc::ptr_eq(&first, &tls.config().await.unwrap()), "not looked at yet");
    minute().await;
    let second = tls.config().await.unwrap();
    assert!(!Arc::ptr_eq(&first, &second));
    fs::remove_file(&path).unwrap();
    minute().await;
    assert!(Arc::ptr_eq(&second, &tls.config().await.unwrap()), "the last good one");
}

/// A file that is being written is empty for a moment.
#[tokio::test(start_paused = true)]
async fn o4_an_empty_authority_file_is_an_error_and_replaces_nothing() {
    provider();
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    let mut config = kube::Config::new("https://k:1".parse().unwrap());
    config.root_cert_file = Some(path.clone());
    for nothing in ["", "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n", "no PEM\n"] {
        fs::write(&path, nothing).unwrap();
        let error = Tls::of(&config, Arc::new(Credentials::None)).err().unwrap().to_string();
        assert!(error.contains("no certificate authority"), "{error}");
        fs::write(&path, authority().pem()).unwrap();
        let tls = Tls::of(&config, Arc::new(Credentials::None)).unwrap();
        let good = tls.config().await.unwrap();
        fs::write(&path, nothing).unwrap();
        tokio::time::advance(BELIEVED).await;
        assert!(Arc::ptr_eq(&good, &tls.config().await.unwrap()));
    }
}

#[tokio::test]
async fn o4_what_cannot_be_used_of_a_bundle_is_left_out() {
    provider();
    let good = authority();
    let url = serve(&good, "127.0.0.1");
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("ca.crt");
    let bad = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
    fs::write(&path, format!("{bad}{}{bad}", good.pem())).unwrap();
    let mut config = kube::Config::new(url);
    config.root_cert_file = Some(path);
    ask(&config).await.unwrap();
}

/// As `openssl x509 -req` makes it without extensions.
const VERSION_1: &str = "\
-----BEGIN CERTIFICATE-----\n\
MIIBIDCBxwIURVmi96htUXqZvvNtucYlFmXQUnQwCgYIKoZIzj0EAwIwEjEQMA4G\n\
A1UEAwwHc29tZW9uZTAgFw0yNjEyMDExMjM2NDBaGA8yMTI2MTEwNzEyMzY0MFow\n\
EjEQMA4GA1UEAwwHc29tZW9uZTBZMBMGByqGSM49AgEGCCqGSM49AwEHA0IABDqA\n\
671dajY/aqn/SN8rEHjaV4iUtqcNOOjRU94BcPO7ZQFdw4D5SYV+B4sxgLi2Ar8S\n\
mLaX+zWKZuj9N7bYdXkwCgYIKoZIzj0EAwIDSAAwRQIhALYfj/XpdbnoaRnIb2OE\n\
ZuGJgJZclHwBMye6tCPNKHCfAiBY0Q1Mqo4SnfQKCXbNym0z7fpxlGOrrPLenBdx\n\
1LK15w==\n\
-----END CERTIFICATE-----\n";

#[test]
fn o5_a_client_certificate_of_x509_version_1_is_shown_and_one_of_another_key_refused() {
    provider();
    let authority = authority();
    let (certificate, key) = issue(&authority, "someone");
    let (another, _) = issue(&authority, "someone");
    let made = |certificate: &str| {
        let mut config = trusting(&"https://k:1".parse().unwrap(), &authority);
        let data = |pem: &str| BASE64_STANDARD.encode(pem);
        let user = json!({ "client-certificate-data": data(certificate), "client-key-data": data(&key) });
        config.auth_info = serde_json::from_value(user).unwrap();
        Tls::of(&config, Arc::new(Credentials::None)).map(drop)
    };
    made(&certificate).unwrap();
    made(VERSION_1).unwrap();
    assert!(made(&another).unwrap_err().to_string().contains("KeyMismatch"));
}
