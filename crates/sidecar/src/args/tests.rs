#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
use std::ffi::OsString;

use super::*;

#[derive(Debug, clap::Parser)]
struct Probe {
    #[command(flatten)]
    standard: StandardArgs,
}

fn argv(words: &[&str]) -> Vec<OsString> {
    ["probe"].iter().chain(words).map(OsString::from).collect()
}

fn args(words: &[&str]) -> Result<StandardArgs, Exit> {
    crate::parse::<Probe>(argv(words)).map(|probe| probe.standard)
}

fn go_args(words: &[&str]) -> Result<StandardArgs, Exit> {
    crate::parse_go_flags::<Probe>(argv(words)).map(|probe| probe.standard)
}

fn no_env(_: &str) -> Option<String> {
    None
}

fn validate(words: &[&str]) -> Result<Standard, Exit> {
    args(words)?.validate(&no_env)
}

#[test]
fn every_flag_has_upstreams_default() {
    let a = args(&[]).unwrap();
    assert!(!a.version);
    assert_eq!(a.kubeconfig, "");
    assert_eq!(a.csi_address, "/run/csi/socket");
    assert!(!a.leader_election);
    assert_eq!(a.leader_election_namespace, "");
    assert_eq!(a.leader_election_lease_duration.to_string(), "15s");
    assert_eq!(a.leader_election_renew_deadline.to_string(), "10s");
    assert_eq!(a.leader_election_retry_period.to_string(), "5s");
    assert!(a.leader_election_labels.is_empty());
    assert_eq!(a.kube_api_qps, None);
    assert_eq!(a.kube_api_burst, None);
    assert_eq!(a.http_endpoint, "");
    assert_eq!(a.metrics_address, "");
    assert_eq!(a.metrics_path, "/metrics");
    assert_eq!(a.logging.automaxprocs, None);
    assert_eq!(a.logging.verbosity, 0);
    assert_eq!(a.logging.logging_format, "text");

    let standard = a.validate(&no_env).unwrap();
    assert!(standard.kubeconfig.is_none());
    assert!(standard.request_limit.is_none());
    assert!(standard.http.is_none());
    assert!(standard.leader_election.is_none());
    assert!(standard.without_effect.is_empty());
}

#[test]
fn flags_that_upstream_does_not_register_are_unknown() {
    for flag in [
        "--logtostderr",
        "--alsologtostderr",
        "--stderrthreshold=INFO",
        "--log_dir=/tmp",
        "--skip_headers",
        "--connection-timeout=5s",
        "--leader-election-type=leases",
        "--enable-leader-election",
    ] {
        assert_eq!(args(&[flag]).unwrap_err().code, 2, "{flag}");
    }
}

/// What manifests of the attacher and the resizer write, with one dash as with two.
#[test]
fn both_dialects_read_the_flags_all_sidecars_share() {
    let words = [
        "csi-address=/csi/csi.sock",
        "kubeconfig=/etc/kube",
        "leader-election",
        "leader-election-namespace=storage",
        "leader-election-lease-duration=137s",
        "leader-election-renew-deadline=107s",
        "leader-election-retry-period=26s",
        "leader-election-labels=a:1,b:2",
        "kube-api-qps=20.5",
        "kube-api-burst=100",
        "http-endpoint=:8080",
        "metrics-address=",
        "metrics-path=/m",
        "automaxprocs=false",
        "version=false",
        "v=5",
        "vmodule=run=9",
        "logging-format=text",
        "log-flush-frequency=1s",
        "log-text-split-stream=false",
        "log-text-info-buffer-size=0",
        "log-json-split-stream=false",
        "log-json-info-buffer-size=0",
    ];
    assert_eq!(words.len(), 23);
    let dashed = |dashes: &str| words.iter().map(|word| format!("{dashes}{word}")).collect::<Vec<_>>();
    let (one, two) = (dashed("-"), dashed("--"));
    let one: Vec<_> = one.iter().map(String::as_str).collect();
    let two: Vec<_> = two.iter().map(String::as_str).collect();
    let pflag = args(&two).unwrap();
    assert_eq!(pflag.leader_election_lease_duration.to_string(), "137s");
    assert_eq!((pflag.kube_api_qps, pflag.kube_api_burst, pflag.logging.verbosity), (Some(20.5), Some(100), 5));
    for words in [&one, &two] {
        assert_eq!(format!("{:?}", go_args(words).unwrap()), format!("{pflag:?}"));
    }
    assert_eq!(args(&one).unwrap_err().code, 2, "pflag wants two dashes");
    assert_eq!(go_args(&[]).unwrap().csi_address, "/run/csi/socket");
}

#[test]
fn what_the_attacher_refuses_is_refused_in_its_words() {
    let table = [
        ("-logtostderr", "flag provided but not defined: -logtostderr"),
        ("-alsologtostderr", "flag provided but not defined: -alsologtostderr"),
        ("-master=x", "flag provided but not defined: -master"),
        ("-enable-pprof", "flag provided but not defined: -enable-pprof"),
        ("-v5", "flag provided but not defined: -v5"),
        (
            "-leader-election-labels=a",
            r#"invalid value "a" for flag -leader-election-labels: malformed item in list of labels: a;"#,
        ),
        (
            "-leader-election-labels=",
            r#"invalid value "" for flag -leader-election-labels: malformed item in list of labels: ;"#,
        ),
        ("-automaxprocs=x", r#"invalid boolean value "x" for -automaxprocs: parse error"#),
        ("-kube-api-qps=fast", r#"invalid value "fast" for flag -kube-api-qps: parse error"#),
        ("-leader-election-retry-period=5", r#"invalid value "5" for flag -leader-election-retry-period: parse error"#),
    ];
    assert_eq!(table.len(), 10);
    for (word, want) in table {
        let exit = go_args(&[word]).unwrap_err();
        assert_eq!(exit.code, 2, "{word}");
        assert!(exit.message.starts_with(want), "{word}: {exit}");
    }
}

#[test]
fn labels_merge_and_a_malformed_item_ends_with_code_2() {
    let standard =
        validate(&["--leader-election", "--leader-election-labels=a:1,b:2", "--leader-election-labels", "b:3,c:"])
            .unwrap();
    let labels = standard.leader_election.unwrap().labels;
    let want = [("a", "1"), ("b", "3"), ("c", "")];
    assert!(labels.iter().map(|(k, v)| (k.as_str(), v.as_str())).eq(want));
    for (value, item) in [("a", "a"), ("", ""), ("a:b,c=d", "c=d")] {
        let exit = args(&[&format!("--leader-election-labels={value}")]).unwrap_err();
        assert_eq!(exit.code, 2);
        let want = format!("malformed item in list of labels: {item};");
        assert!(exit.message.contains(&want), "{exit}");
    }
}

#[test]
fn automaxprocs_takes_nothing_or_a_boolean_and_has_no_effect() {
    let rows = [
        ("--automaxprocs", true),
        ("--automaxprocs=true", true),
        ("--automaxprocs=false", false),
        ("--automaxprocs=", true),
    ];
    assert_eq!(rows.len(), 4);
    for (word, want) in rows {
        let parsed = args(&[word]).unwrap();
        assert_eq!(parsed.logging.automaxprocs, Some(want), "{word}");
        let standard = parsed.validate(&no_env).unwrap();
        assert_eq!(standard.without_effect[0].0, "--automaxprocs");
    }
    assert_eq!(args(&["--automaxprocs=x"]).unwrap_err().code, 2);
}

#[test]
fn the_two_addresses_exclude_each_other() {
    let exit = validate(&["--http-endpoint=:1", "--metrics-address=:2"]).unwrap_err();
    assert_eq!(exit.code, 1);
    assert!(exit.message.contains("only one of"), "{exit}");
}

#[test]
fn the_health_path_needs_leader_election_and_the_http_endpoint() {
    for (words, want) in [
        (vec!["--http-endpoint=:1"], false),
        (vec!["--http-endpoint=:1", "--leader-election"], true),
        (vec!["--metrics-address=:1", "--leader-election"], false),
    ] {
        let http = validate(&words).unwrap().http.unwrap();
        assert_eq!(http.leader_election_health, want, "{words:?}");
        assert_eq!(http.address, ":1");
        assert!(!http.pprof_asked);
    }
}

#[test]
fn a_metrics_path_without_slash_matters_only_when_it_is_served() {
    for path in ["--metrics-path=", "--metrics-path=metrics"] {
        assert!(validate(&[path]).is_ok());
        let exit = validate(&[path, "--http-endpoint=:1"]).unwrap_err();
        assert_eq!(exit.code, 2);
        assert!(exit.message.starts_with("--metrics-path"), "{exit}");
    }
}

#[test]
fn an_address_that_is_no_socket_path_ends_with_code_1() {
    for address in ["csi.sock", "unix:/csi.sock", "dns:driver:1"] {
        let exit = validate(&[&format!("--csi-address={address}")]).unwrap_err();
        assert_eq!(exit.code, 1, "{address}");
        assert!(exit.message.contains(address), "{exit}");
    }
}

#[test]
fn leader_election_times_are_checked_only_when_used() {
    let bad = "--leader-election-retry-period=0";
    assert!(validate(&[bad]).is_ok());
    for (words, named) in [
        (vec![bad], "--leader-election-retry-period"),
        (vec!["--leader-election-lease-duration=-1s"], "--leader-election-lease-duration"),
        (vec!["--leader-election-renew-deadline=20s"], "--leader-election-lease-duration"),
        (vec!["--leader-election-retry-period=9s"], "--leader-election-renew-deadline"),
    ] {
        let mut words = words.clone();
        words.push("--leader-election");
        let exit = validate(&words).unwrap_err();
        assert_eq!(exit.code, 2, "{words:?}");
        assert!(exit.message.contains(named), "{exit}");
    }
}

#[test]
fn the_lease_namespace_comes_from_the_flag_or_the_environment() {
    let env = |name: &str| (name == "POD_NAMESPACE").then(|| "pods".to_owned());
    let namespace = |words: &[&str]| {
        let standard = args(words).unwrap().validate(&env).unwrap();
        standard.leader_election.unwrap().namespace
    };
    assert_eq!(namespace(&["--leader-election"]), "pods");
    assert_eq!(namespace(&["--leader-election", "--leader-election-namespace=flag"]), "flag");
}

#[test]
fn logging_flags_give_a_configuration() {
    let config = args(&["-v5", "--logging-format=json"]).unwrap().logging().unwrap();
    assert_eq!(config.verbosity, 5);
    assert_eq!(config.format, logging::Format::Json);
    let parsed = args(&["--vmodule=http=5,kube*=9", "--log-flush-frequency=1s"]).unwrap();
    assert!(parsed.logging().is_ok());
    let standard = parsed.validate(&no_env).unwrap();
    assert_eq!(standard.without_effect[0].0, "--log-flush-frequency");
}

#[test]
fn logging_flags_that_contradict_end_with_code_1() {
    for (words, named) in [
        (vec!["--logging-format=xml"], "--logging-format=xml"),
        (vec!["--log-flush-frequency=0"], "--log-flush-frequency"),
        (vec!["--logging-format=json", "--vmodule=a=1"], "--vmodule"),
        (vec!["--log-text-split-stream"], "--log-text-split-stream"),
        (vec!["--log-text-info-buffer-size=64Ki"], "--log-text-info-buffer-size"),
        (vec!["--log-json-split-stream"], "--log-json-split-stream"),
        (vec!["--log-json-info-buffer-size=1"], "--log-json-info-buffer-size"),
    ] {
        let exit = args(&words).unwrap().logging().unwrap_err();
        assert_eq!(exit.code, 1, "{words:?}");
        let want = format!("LoggingConfiguration is invalid: {named}");
        assert!(exit.message.starts_with(&want), "{exit}");
    }
    for harmless in ["--log-text-split-stream=false", "--log-json-info-buffer-size=0"] {
        assert!(args(&[harmless]).unwrap().logging().is_ok());
    }
}

#[test]
fn logging_values_that_are_no_values_end_with_code_2() {
    for word in
        ["-vx", "--v=4294967296", "--vmodule=nonsense", "--log-flush-frequency=x", "--log-json-info-buffer-size=x"]
    {
        assert_eq!(args(&[word]).unwrap_err().code, 2, "{word}");
    }
}
