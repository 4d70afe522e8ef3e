#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use secrecy::ExposeSecret as _;

use super::*;

/// A kubeconfig in a directory of its own, with these fields of cluster and user.
fn read_with(cluster: &str, user: &str) -> Result<(tempfile::TempDir, Config), KubeconfigError> {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("config");
    let text = format!(
        "apiVersion: v1\nkind: Config\ncurrent-context: c\n\
         contexts:\n- name: c\n  context: {{cluster: k, user: u}}\n\
         clusters:\n- name: k\n  cluster: {{server: 'https://10.0.0.1:6443'{cluster}}}\n\
         users:\n- name: u\n  user: {{{user}}}\n"
    );
    std::fs::write(&path, text).unwrap();
    read(&path, None).map(|config| (directory, config))
}

#[test]
fn tokens_and_passwords_are_taken_as_they_stand() {
    let (_, config) = read_with("", "token: 0123, username: true-name, password: 'null'").unwrap();
    let user = config.auth_info;
    assert_eq!(user.token.unwrap().expose_secret(), "0123");
    assert_eq!(user.username.as_deref(), Some("true-name"));
    assert_eq!(user.password.unwrap().expose_secret(), "null");
}

#[test]
fn relative_paths_begin_where_the_file_is() {
    let user = "client-certificate: pki/me.crt, client-key: /abs/me.key, tokenFile: token, \
                exec: {command: ./login, args: [a, 1]}";
    let (directory, config) = read_with(", certificate-authority: ca.crt", user).unwrap();
    let at = |name: &str| Some(directory.path().join(name).to_str().unwrap().to_owned());
    let user = config.auth_info;
    assert_eq!(config.root_cert_file.map(|path| path.to_str().unwrap().to_owned()), at("ca.crt"));
    assert_eq!(user.client_certificate, at("pki/me.crt"));
    assert_eq!(user.client_key.as_deref(), Some("/abs/me.key"));
    assert_eq!(user.token_file, at("token"));
    let exec = user.exec.unwrap();
    assert_eq!(exec.command, at("./login"));
    assert_eq!(exec.args.unwrap(), ["a", "1"]);
}

#[test]
fn a_plugin_without_a_slash_is_looked_up_in_path() {
    let exec = "exec: {command: login, apiVersion: client.authentication.k8s.io/v1, interactiveMode: Never, \
                env: [{name: REGION, value: north}]}";
    let (_, config) = read_with("", exec).unwrap();
    let exec = config.auth_info.exec.unwrap();
    assert_eq!(exec.command.as_deref(), Some("login"));
    assert_eq!(exec.interactive_mode, Some(ExecInteractiveMode::Never));
    assert_eq!(exec.env.unwrap()[0]["name"], "REGION");
    assert!(exec.cluster.is_none());
}

#[test]
fn a_plugin_that_wants_it_gets_the_cluster() {
    let data = BASE64_STANDARD.encode(AUTHORITY);
    let cluster = format!(
        ", certificate-authority-data: {data}, tls-server-name: name, \
         extensions: [{{name: client.authentication.k8s.io/exec, extension: {{a: b}}}}]"
    );
    let (_, config) = read_with(&cluster, "exec: {command: login, provideClusterInfo: true}").unwrap();
    assert_eq!(config.root_cert.unwrap().len(), 1);
    assert_eq!(config.tls_server_name.as_deref(), Some("name"));
    let given = config.auth_info.exec.unwrap().cluster.unwrap();
    assert_eq!(given.certificate_authority_data.as_deref(), Some(AUTHORITY.as_bytes()));
    assert_eq!(given.config.unwrap(), serde_json::json!({ "a": "b" }));
}

#[test]
fn impersonation_is_kept() {
    let (_, config) =
        read_with("", "as: someone, as-groups: [g, h], as-user-extra: {scope: [x]}, as-uid: '7'").unwrap();
    let user = config.auth_info;
    assert_eq!(user.impersonate.as_deref(), Some("someone"));
    assert_eq!(user.impersonate_groups.unwrap(), ["g", "h"]);
    assert_eq!(user.impersonate_user_extra.unwrap()["scope"], ["x"]);
    assert_eq!(user.impersonate_uid.as_deref(), Some("7"));
}

#[test]
fn fields_that_cannot_be_used_are_named() {
    for (cluster, want) in
        [(", certificate-authority-data: '%'", "certificate-authority-data: "), (", proxy-url: 'a b'", "proxy-url: ")]
    {
        let error = read_with(cluster, "").map(|_| ()).unwrap_err().to_string();
        assert!(error.starts_with(want) && error.contains("correct the file"), "{error}");
    }
}

#[test]
fn skipping_the_verification_has_to_be_said_as_true() {
    let (_, config) = read_with(", insecure-skip-tls-verify: true", "").unwrap();
    assert!(config.accept_invalid_certs);
    let (_, config) = read_with(", insecure-skip-tls-verify: false", "").unwrap();
    assert!(!config.accept_invalid_certs);
}

/// What PEM looks like; nobody looks inside here.
const AUTHORITY: &str = "-----BEGIN CERTIFICATE-----\nMAA=\n-----END CERTIFICATE-----\n";
