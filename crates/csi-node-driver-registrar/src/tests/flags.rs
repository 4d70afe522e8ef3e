//! The command line.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::path::Path;
use std::time::Duration;

use crate::args::{Config, RegistrarArgs};

const PATH: &str = "--kubelet-registration-path=/var/lib/kubelet/plugins/d/csi.sock";

fn config(flags: &[&str]) -> Result<Option<Config>, (u8, String)> {
    let argv = ["csi-node-driver-registrar"].iter().chain(flags).map(Into::into);
    let read = || {
        let args: RegistrarArgs = sidecar::parse_go_flags(argv)?;
        args.logging.config()?;
        args.config()
    };
    read().map_err(|exit| (exit.code, exit.message))
}

fn accepted(flags: &[&str]) -> Config {
    config(flags).unwrap().unwrap()
}

#[test]
fn defaults_are_those_of_the_go_registrar() {
    let config = accepted(&[PATH]);
    assert_eq!(config.csi_address.path(), Path::new("/run/csi/socket"));
    assert_eq!(config.endpoint, "/var/lib/kubelet/plugins/d/csi.sock");
    assert_eq!(config.directory, Path::new("/registration"));
    assert_eq!(config.timeout, Duration::from_secs(1));
    assert_eq!(config.http_address, None);
    assert!(!config.pprof_asked);
}

#[test]
fn one_dash_or_two_and_every_form_of_the_address_are_the_same() {
    for address in ["/csi/csi.sock", "unix:///csi/csi.sock", "unix:/csi/csi.sock"] {
        let config = accepted(&["-csi-address", address, PATH, "-timeout=1m30s", "-v=5", "-enable-pprof"]);
        assert_eq!(config.csi_address.path(), Path::new("/csi/csi.sock"), "{address}");
        assert_eq!(config.timeout, Duration::from_secs(90));
        assert!(config.pprof_asked);
    }
}

#[test]
fn the_http_address_comes_from_one_flag_or_the_other() {
    let table: [(&[&str], Option<&str>); 5] = [
        (&[], None),
        (&["--http-endpoint=:8080"], Some(":8080")),
        (&["--health-port=9809"], Some(":9809")),
        (&["--health-port=-1", "--http-endpoint=:8080"], Some(":8080")),
        (&["--health-port=-1"], None),
    ];
    for (flags, want) in table {
        let flags: Vec<_> = flags.iter().copied().chain([PATH]).collect();
        assert_eq!(accepted(&flags).http_address.as_deref(), want, "{flags:?}");
    }
}

#[test]
fn the_old_probe_mode_comes_before_all_but_the_required_flag() {
    assert!(config(&[PATH, "--mode=kubelet-registration-probe"]).unwrap().is_none());
    let both = [PATH, "--mode=kubelet-registration-probe", "--health-port=1", "--http-endpoint=:2"];
    assert!(config(&both).unwrap().is_none());
    assert!(config(&[PATH, "--mode=foo"]).unwrap().is_some());
    assert_eq!(config(&["--mode=kubelet-registration-probe"]).unwrap_err().0, 1);
}

#[test]
fn bad_input_has_the_exit_code_of_the_go_registrar_and_names_the_flag() {
    let cases: [(&[&str], u8, &str); 16] = [
        (&[], 1, "--kubelet-registration-path"),
        (&[PATH, "--health-port=9809", "--http-endpoint=:8080"], 1, "--health-port"),
        (&[PATH, "--timeout=0"], 1, "--timeout"),
        (&[PATH, "--timeout=-1s"], 1, "--timeout"),
        (&[PATH, "--csi-address=dns:driver"], 1, "--csi-address"),
        (&[PATH, "--csi-address="], 1, "--csi-address"),
        (&[PATH, "--logging-format=xml"], 1, "logging-format"),
        (&[PATH, "--log-json-split-stream"], 1, "log-json-split-stream"),
        (&[PATH, "--timeout=10"], 2, "timeout"),
        (&[PATH, "--health-port=many"], 2, "many"),
        (&[PATH, "--enable-pprof=maybe"], 2, "maybe"),
        (&[PATH, "--logtostderr"], 2, "logtostderr"),
        (&[PATH, "--kubeconfig=x"], 2, "kubeconfig"),
        (&[PATH, "--leader-election"], 2, "leader-election"),
        (&[PATH, "--metrics-address=:1"], 2, "metrics-address"),
        (&["--help"], 0, "kubelet-registration-path"),
    ];
    for (flags, code, named) in cases {
        let (found, message) = config(flags).unwrap_err();
        assert_eq!(found, code, "{flags:?}: {message}");
        assert!(message.contains(named), "{flags:?}: {message}");
    }
}

#[test]
fn every_flag_of_the_go_registrar_is_known() {
    let flags = [
        "csi-address",
        "kubelet-registration-path",
        "plugin-registration-path",
        "timeout",
        "connection-timeout",
        "health-port",
        "http-endpoint",
        "mode",
        "enable-pprof",
        "version",
        "automaxprocs",
        "logging-format",
        "log-flush-frequency",
        "v",
        "vmodule",
        "log-text-split-stream",
        "log-text-info-buffer-size",
        "log-json-split-stream",
        "log-json-info-buffer-size",
    ];
    assert_eq!(flags.len(), 19, "10 of its own, 9 of logging and the runtime");
    let (_, help) = config(&["--help"]).unwrap_err();
    for flag in flags {
        assert!(help.contains(&format!("--{flag}")), "--{flag} is not in --help");
    }
    assert_eq!(help.matches("\n      --").count() + help.matches("\n  -v").count(), 19, "{help}");
}
