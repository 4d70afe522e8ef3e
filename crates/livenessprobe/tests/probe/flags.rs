//! The command line of the program.

use std::time::Duration;

use livenessprobe::MetricsPlace;

use crate::scene::config;

#[test]
fn defaults_are_those_of_the_go_livenessprobe() {
    let config = config(&[]).unwrap();
    assert_eq!(config.csi_address.to_string(), "unix:///run/csi/socket");
    assert_eq!(config.probe_timeout, Duration::from_secs(3));
    assert_eq!(config.health_address, "0.0.0.0:9808");
    assert_eq!(config.metrics, None);
}

#[test]
fn every_flag_of_the_go_livenessprobe_is_known() {
    let flags = [
        "csi-address",
        "probe-timeout",
        "health-port",
        "http-endpoint",
        "metrics-address",
        "metrics-path",
        "automaxprocs",
        "v",
        "vmodule",
        "logging-format",
        "log-flush-frequency",
        "log-text-split-stream",
        "log-text-info-buffer-size",
        "log-json-split-stream",
        "log-json-info-buffer-size",
    ];
    assert_eq!(flags.len(), 15, "6 of its own, 9 of logging and the runtime");
    let help = config(&["-help"]).unwrap_err();
    assert_eq!(help.code, 0);
    for flag in flags {
        assert!(help.message.contains(&format!("--{flag}")), "--{flag} is not in the help:\n{}", help.message);
    }
    let listed = help.message.lines().filter(|line| line.trim_start().starts_with('-')).count();
    assert_eq!(listed, flags.len(), "{}", help.message);
}

#[test]
fn bad_input_has_the_exit_code_of_the_go_livenessprobe_and_names_the_flag() {
    let cases: [(&[&str], u8, &str); 21] = [
        (&["--version"], 2, "version"),
        (&["--kubeconfig=x"], 2, "kubeconfig"),
        (&["--timeout=1s"], 2, "timeout"),
        (&["--enable-pprof"], 2, "enable-pprof"),
        (&["--connection-timeout=1s"], 2, "connection-timeout"),
        (&["--logtostderr"], 2, "logtostderr"),
        (&["--probe-timeout=3"], 2, "probe-timeout"),
        (&["--probe-timeout=fast"], 2, "fast"),
        (&["-v5"], 2, "-v5"),
        (&["--automaxprocs=x"], 2, "automaxprocs"),
        (&["--csi-address"], 2, "csi-address"),
        (&["--csi-address=dns:driver:9000"], 1, "--csi-address"),
        (&["--csi-address="], 1, "--csi-address"),
        (&["--probe-timeout=0"], 1, "--probe-timeout"),
        (&["--probe-timeout=-1s"], 1, "--probe-timeout"),
        (&["--health-port=9809", "--http-endpoint=:80"], 1, "--health-port"),
        (&["--metrics-address=:81", "--http-endpoint=:80"], 1, "--metrics-address"),
        (&["--http-endpoint=:80", "--metrics-path=metrics"], 2, "--metrics-path"),
        (&["--metrics-address=:80", "--metrics-path="], 2, "--metrics-path"),
        (&["--http-endpoint=:80", "--metrics-path=/healthz"], 2, "--metrics-path"),
        (&["--health-port=9809", "--metrics-address=:81", "--http-endpoint=:80"], 1, "--health-port"),
    ];
    assert_eq!(cases.len(), 21);
    for (flags, code, named) in cases {
        let exit = config(flags).expect_err(&format!("{flags:?} must be refused"));
        assert_eq!(exit.code, code, "{flags:?}: {exit}");
        assert!(exit.message.contains(named), "{flags:?}: {exit}");
    }
}

#[test]
fn addresses_and_metrics_are_where_the_flags_say() {
    let with_health = |path: &str| Some(MetricsPlace::WithHealth { path: path.to_owned() });
    let alone =
        |address: &str, path: &str| Some(MetricsPlace::Alone { address: address.to_owned(), path: path.to_owned() });
    let cases: [(&[&str], &str, Option<MetricsPlace>); 8] = [
        (&["--health-port=9809"], "0.0.0.0:9809", None),
        (&["-health-port", "9809", "-v", "5"], "0.0.0.0:9809", None),
        (&["--http-endpoint=:8080"], ":8080", with_health("/metrics")),
        (&["--http-endpoint=:8080", "--health-port=9808"], ":8080", with_health("/metrics")),
        (&["--http-endpoint=[::1]:1", "--metrics-path=/m/"], "[::1]:1", with_health("/m/")),
        (&["--metrics-address=:8081"], "0.0.0.0:9808", alone(":8081", "/metrics")),
        (&["--metrics-address=:8081", "--metrics-path=/healthz"], "0.0.0.0:9808", alone(":8081", "/healthz")),
        // Not served, so not looked at; and what follows the first word that is no flag is ignored.
        (&["--metrics-path=nonsense", "word", "--no-such-flag"], "0.0.0.0:9808", None),
    ];
    assert_eq!(cases.len(), 8);
    for (flags, address, metrics) in cases {
        let config = config(flags).unwrap_or_else(|exit| panic!("{flags:?}: {exit}"));
        assert_eq!((config.health_address.as_str(), config.metrics), (address, metrics), "{flags:?}");
    }
    for form in ["/csi/csi.sock", "unix:///csi/csi.sock", "unix:/csi/csi.sock"] {
        let config = config(&[&format!("--csi-address={form}")]).unwrap();
        assert_eq!(config.csi_address.to_string(), "unix:///csi/csi.sock");
    }
}
