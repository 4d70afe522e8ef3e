//! How the API server is reached: a kubeconfig file, a server address, or the pod's service account.

mod file;
mod proxy;
mod yaml;

use std::path::{Path, PathBuf};

use kube::Config;

use crate::EnvLookup;
use crate::exit::Exit;

/// What the command line says about the API server. Neither given: the pod's service account.
#[derive(Debug, Clone, Copy, Default)]
pub struct Source<'a> {
    /// `--kubeconfig`.
    pub kubeconfig: Option<&'a Path>,
    /// `--master`, the server's URL; wins over the one in the kubeconfig.
    pub master: Option<&'a str>,
}

/// The kubeconfig of the provisioner, for which a `KUBECONFIG` that is not empty wins over the flag.
pub fn kubeconfig_from_env(flag: Option<PathBuf>, env: EnvLookup<'_>) -> Option<PathBuf> {
    env("KUBECONFIG").map(PathBuf::from).or(flag)
}

/// The configuration of all clients of the process. Every failure ends the process with code 255.
///
/// Without a proxy in the kubeconfig the one of the environment counts, wherever the configuration comes from. Also decides the
/// cryptography of TLS, once for the process.
pub fn load(source: &Source<'_>, env: EnvLookup<'_>) -> Result<Config, Exit> {
    // An error means that one is installed already, which is as good.
    let _ = rustls::crypto::ring::default_provider().install_default();
    let mut config = match (source.kubeconfig, source.master) {
        (Some(path), master) => from_file(path, master)?,
        (None, Some(master)) => Config::new(server_url(master)?),
        (None, None) => in_cluster(env)?,
    };
    if config.proxy_url.is_none() {
        config.proxy_url = proxy::from_environment(&config.cluster_url, env)?;
    }
    Ok(config)
}

fn from_file(path: &Path, master: Option<&str>) -> Result<Config, Exit> {
    let master = master.map(server_url).transpose()?.map(|url| url.to_string());
    file::read(path, master.as_deref())
        .map_err(|error| Exit::fatal(format!("cannot use kubeconfig {}: {error}", path.display())))
}

/// A server's URL; without a scheme it is plain HTTP, as client-go has it.
fn server_url(master: &str) -> Result<http::Uri, Exit> {
    let full = if master.contains("://") { master.to_owned() } else { format!("http://{master}") };
    full.parse().map_err(|error| {
        Exit::fatal(format!("--master {master:?} is no URL: {error}; expected one such as https://10.0.0.1:6443"))
    })
}

fn in_cluster(env: EnvLookup<'_>) -> Result<Config, Exit> {
    const CURE: &str = "inside a cluster the pod needs its service account mounted; outside give --kubeconfig";
    for name in ["KUBERNETES_SERVICE_HOST", "KUBERNETES_SERVICE_PORT"] {
        if env(name).is_none() {
            return Err(Exit::fatal(format!("cannot find the API server: {name} is not set; {CURE}")));
        }
    }
    if let Some(port) = env("KUBERNETES_SERVICE_PORT").filter(|port| port.parse::<u16>().is_err()) {
        return Err(Exit::fatal(format!(
            "cannot find the API server: KUBERNETES_SERVICE_PORT is {port:?} and no port; a Service named kubernetes-service \
             sets it so: rename the Service, or set enableServiceLinks of the pod to false"
        )));
    }
    Config::incluster().map_err(|error| Exit::fatal(format!("cannot use the pod's service account: {error}; {CURE}")))
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    const VALID: &str = "
apiVersion: v1
kind: Config
current-context: c
contexts: [{name: c, context: {cluster: k, user: u, namespace: ns}}]
clusters: [{name: k, cluster: {server: 'https://10.0.0.1:6443'}}]
users: [{name: u, user: {token: t}}]
";

    fn no_env(_: &str) -> Option<String> {
        None
    }

    fn load_text(text: &str, master: Option<&str>) -> Result<Config, Exit> {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("kubeconfig");
        std::fs::write(&path, text).unwrap();
        let source = Source { kubeconfig: Some(&path), master };
        let result = load(&source, &no_env);
        if let Err(exit) = &result {
            assert_eq!(exit.code, 255);
            assert!(exit.message.contains(&*path.to_string_lossy()), "{exit}");
        }
        result
    }

    #[test]
    fn a_kubeconfig_gives_server_and_namespace() {
        let config = load_text(VALID, None).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://10.0.0.1:6443/");
        assert_eq!(config.default_namespace, "ns");
    }

    #[test]
    fn the_master_flag_wins_over_the_file_and_works_alone() {
        let config = load_text(VALID, Some("https://other:1")).unwrap();
        assert_eq!(config.cluster_url.to_string(), "https://other:1/");
        for (master, want) in [("localhost:8080", "http://localhost:8080/"), ("https://h", "https://h/")] {
            let source = Source { kubeconfig: None, master: Some(master) };
            let config = load(&source, &no_env).unwrap();
            assert_eq!(config.cluster_url.to_string(), want);
        }
    }

    #[test]
    fn a_kubeconfig_that_cannot_be_used_is_named_with_a_cure() {
        let without_context = VALID.replace("current-context: c\n", "");
        let other_context = VALID.replace("current-context: c\n", "current-context: x\n");
        let other_cluster = VALID.replace("cluster: k,", "cluster: x,");
        for (text, want) in [
            ("", "kubectl config use-context"),
            ("{{ not yaml", "must be the YAML"),
            (&*without_context, "kubectl config use-context"),
            (&*other_context, "current-context must be one"),
            (&*other_cluster, "must name one of the clusters"),
        ] {
            let exit = load_text(text, None).unwrap_err();
            assert!(exit.message.contains(want), "{exit}");
        }
    }

    #[test]
    fn a_missing_kubeconfig_is_named() {
        let source = Source { kubeconfig: Some(Path::new("/nonexistent/kubeconfig")), master: None };
        let exit = load(&source, &no_env).unwrap_err();
        assert_eq!(exit.code, 255);
        assert!(exit.message.starts_with("cannot use kubeconfig /nonexistent/kubeconfig: "), "{exit}");
        assert!(exit.message.contains("--kubeconfig"), "{exit}");
    }

    #[test]
    fn outside_a_cluster_the_missing_variable_is_named() {
        let exit = load(&Source::default(), &no_env).unwrap_err();
        assert_eq!(exit.code, 255);
        assert!(exit.message.contains("KUBERNETES_SERVICE_HOST"), "{exit}");
        let host_only = |name: &str| (name == "KUBERNETES_SERVICE_HOST").then(|| "10.0.0.1".to_owned());
        let exit = load(&Source::default(), &host_only).unwrap_err();
        assert!(exit.message.contains("KUBERNETES_SERVICE_PORT"), "{exit}");
    }

    #[test]
    fn o7_a_port_that_a_service_has_set_is_named() {
        let env = |name: &str| {
            let port = "tcp://10.1.2.3:80".to_owned();
            (name == "KUBERNETES_SERVICE_PORT").then_some(port).or_else(|| Some("10.0.0.1".to_owned()))
        };
        let exit = load(&Source::default(), &env).unwrap_err();
        assert_eq!(exit.code, 255);
        assert!(exit.message.contains("KUBERNETES_SERVICE_PORT is \"tcp://10.1.2.3:80\""), "{exit}");
        assert!(exit.message.contains("enableServiceLinks"), "{exit}");
    }

    #[test]
    fn a_master_that_is_no_url_is_named() {
        let source = Source { kubeconfig: None, master: Some("http://a b") };
        let exit = load(&source, &no_env).unwrap_err();
        assert_eq!(exit.code, 255);
        assert!(exit.message.contains("--master \"http://a b\""), "{exit}");
    }

    #[test]
    fn the_environment_wins_over_the_flag() {
        let env = |name: &str| (name == "KUBECONFIG").then(|| "/env".to_owned());
        let flag = Some(PathBuf::from("/flag"));
        assert_eq!(kubeconfig_from_env(flag.clone(), &env), Some(PathBuf::from("/env")));
        assert_eq!(kubeconfig_from_env(flag.clone(), &no_env), flag);
        assert_eq!(kubeconfig_from_env(None, &no_env), None);
    }
}
