#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::fs;
use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};

use kube::config::ExecAuthCluster;
use secrecy::ExposeSecret as _;

use super::*;

const V1: &str = "client.authentication.k8s.io/v1";

/// A plugin that counts its runs in `runs` and prints `answer`.
fn script(directory: &Path, answer: &str) -> PathBuf {
    let path = directory.join("plugin");
    let runs = directory.join("runs").display().to_string();
    let asked = directory.join("asked").display().to_string();
    let text = format!(
        "#!/bin/sh\necho run >> {runs}\nprintf %s \"$KUBERNETES_EXEC_INFO\" > {asked}\ncat <<'END'\n{answer}\nEND\n"
    );
    fs::write(&path, text).unwrap();
    fs::set_permissions(&path, fs::Permissions::from_mode(0o755)).unwrap();
    path
}

fn plugin(command: &Path) -> ExecConfig {
    ExecConfig {
        command: Some(command.display().to_string()),
        api_version: Some(V1.to_owned()),
        ..ExecConfig::default()
    }
}

fn token(expires: Option<Timestamp>) -> String {
    json!({ "kind": "ExecCredential", "apiVersion": V1, "status": { "token": "t", "expirationTimestamp": expires.map(|end| end.to_string()) } })
        .to_string()
}

fn runs(directory: &Path) -> usize {
    fs::read_to_string(directory.join("runs")).unwrap_or_default().lines().count()
}

#[tokio::test]
async fn a_credential_is_used_until_it_expires_or_is_refused() {
    let hour = Some(Timestamp::now() + SignedDuration::from_hours(1));
    let soon = Some(Timestamp::now() + SignedDuration::from_secs(30));
    // expiry, whether the credential is refused after the first use, runs of the plugin for two uses
    for (expires, refused, want) in [(None, false, 1), (hour, false, 1), (soon, false, 2), (hour, true, 2)] {
        let directory = tempfile::tempdir().unwrap();
        let plugin = ExecPlugin::new(plugin(&script(directory.path(), &token(expires))));
        for _ in 0..2 {
            assert_eq!(plugin.credential().await.unwrap().token.unwrap().expose_secret(), "t");
            if refused && runs(directory.path()) == 1 {
                plugin.was_refused();
            }
        }
        assert_eq!(runs(directory.path()), want, "{expires:?} {refused}");
    }
}

#[tokio::test]
async fn the_plugin_is_told_what_it_may_and_which_cluster_it_is_for() {
    let directory = tempfile::tempdir().unwrap();
    let mut config = plugin(&script(directory.path(), &token(None)));
    config.cluster = Some(ExecAuthCluster { server: Some("https://k".to_owned()), ..ExecAuthCluster::default() });
    ExecPlugin::new(config).credential().await.unwrap();
    let asked: Value = serde_json::from_slice(&fs::read(directory.path().join("asked")).unwrap()).unwrap();
    assert_eq!(asked["kind"], "ExecCredential");
    assert_eq!(asked["apiVersion"], V1);
    assert_eq!(asked["spec"]["interactive"], false);
    assert_eq!(asked["spec"]["cluster"]["server"], "https://k");
}

#[tokio::test]
async fn a_plugin_that_cannot_give_credentials_is_named_with_the_reason() {
    let directory = tempfile::tempdir().unwrap();
    let failing = directory.path().join("failing");
    fs::write(&failing, "#!/bin/sh\nexit 3\n").unwrap();
    fs::set_permissions(&failing, fs::Permissions::from_mode(0o755)).unwrap();
    let always = ExecConfig { interactive_mode: Some(ExecInteractiveMode::Always), ..plugin(Path::new("/bin/true")) };
    for (config, want) in [
        (ExecConfig::default(), "no command"),
        (plugin(Path::new("/nonexistent/plugin")), "cannot be run"),
        (plugin(&failing), "exit status: 3"),
        (plugin(Path::new("/bin/true")), "no ExecCredential in JSON"),
        (always, "wants a terminal"),
    ] {
        let error = ExecPlugin::new(config).credential().await.err().unwrap().to_string();
        assert!(error.contains(want), "{error}");
    }
}

#[test]
fn answers_are_judged() {
    let answer_with =
        |status: Value| answer(json!({ "apiVersion": V1, "status": status }).to_string().as_bytes(), Some(V1));
    assert!(answer_with(json!({ "token": "t" })).unwrap().identity.is_none());
    let identity =
        answer_with(json!({ "clientCertificateData": "c", "clientKeyData": "k" })).unwrap().identity.unwrap();
    assert_eq!((identity.certificate.as_str(), identity.key.expose_secret()), ("c", "k"));
    for (status, want) in [
        (json!({}), "neither"),
        (json!({ "token": "" }), "neither"),
        (json!({ "token": "t", "clientKeyData": "k" }), "only one"),
        (json!({ "token": "t", "expirationTimestamp": "soon" }), "RFC 3339"),
    ] {
        let error = answer_with(status).err().unwrap();
        assert!(error.contains(want), "{error}");
    }
    let other = answer(br#"{"apiVersion":"other/v1","status":{"token":"t"}}"#, Some(V1)).err().unwrap();
    assert!(other.contains("of other/v1, not of"), "{other}");
}
