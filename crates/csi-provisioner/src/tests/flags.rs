//! The command line of the program.

use clap::Parser as _;
use sidecar::RequestLimit;
use sidecar::feature_gates::FeatureGates;

use crate::args::{Config, FEATURE_GATES, ProvisionerArgs};
use crate::capacity::budget::WriteLimit;

fn config(flags: &[&str]) -> Result<Config, sidecar::Exit> {
    config_in(flags, &[])
}

fn config_in(flags: &[&str], environment: &[(&str, &str)]) -> Result<Config, sidecar::Exit> {
    let argv = std::iter::once("csi-provisioner").chain(flags.iter().copied()).map(Into::into);
    let args: ProvisionerArgs = sidecar::parse(argv)?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    let env = |name: &str| environment.iter().find(|(set, _)| *set == name).map(|(_, value)| (*value).to_owned());
    let node = args.node(&env)?;
    args.config(&gates, node, &env)
}

fn refusal(flags: &[&str]) -> (u8, String) {
    let exit = config(flags).expect_err(&format!("{flags:?} must be refused"));
    (exit.code, exit.message)
}

#[test]
fn defaults_are_those_of_the_go_provisioner() {
    let config = config(&[]).unwrap();
    assert_eq!(config.worker_threads, 100);
    assert_eq!(config.timeout.as_secs(), 10);
    assert_eq!((config.backoff.base.as_secs(), config.backoff.max.as_secs()), (1, 300));
    assert_eq!(config.provisioning.volume_name_prefix, "pvc");
    assert_eq!(config.provisioning.default_fs_type, "");
    assert!(config.provisioning.topology_gate && config.provisioning.attributes_class_gate);
}

#[test]
fn o18_gates_that_the_go_provisioner_once_had_are_accepted() {
    config(&["--feature-gates=Topology=true,HonorPVReclaimPolicy=true,CSINodeExpandSecret=true"]).unwrap();
    assert_eq!(refusal(&["--feature-gates=HonourPVReclaimPolicy=true"]).0, 255);
}

#[test]
fn flags_that_need_the_environment_say_so() {
    let pod = ("POD_NAME", "provisioner-0");
    let namespace = ("NAMESPACE", "storage");
    let cases = [
        (&["--enable-capacity"][..], &[][..], "NAMESPACE"),
        (&["--enable-capacity"], &[pod], "NAMESPACE"),
        (&["--enable-capacity"], &[namespace], "POD_NAME"),
        (&["--enable-capacity", "--capacity-ownerref-level=0"], &[namespace], "POD_NAME"),
        (&["--node-deployment"], &[pod, namespace], "NODE_NAME"),
    ];
    assert_eq!(cases.len(), 5);
    for (flags, environment, variable) in cases {
        let exit = config_in(flags, environment).expect_err(variable);
        assert_eq!(exit.code, 255, "{flags:?}");
        assert!(exit.message.contains(variable), "{}", exit.message);
    }
    let config = config_in(&["--enable-capacity", "--capacity-ownerref-level=-1"], &[namespace]).unwrap();
    assert_eq!(config.capacity.unwrap().owner_level, None, "without an owner no pod needs to be known");
    let config = config_in(&["--node-deployment"], &[("NODE_NAME", "n1")]).unwrap();
    assert_eq!(config.node.unwrap().name.as_str(), "n1");
}

#[test]
fn capacity_flags_mean_what_they_mean_to_the_go_provisioner_if_they_are_given() {
    let environment = [("NAMESPACE", "storage"), ("POD_NAME", "provisioner-0")];
    let capacity = |flags: &[&str]| {
        let all: Vec<_> = ["--enable-capacity"].iter().chain(flags).copied().collect();
        config_in(&all, &environment).map(|config| config.capacity.unwrap())
    };
    let defaults = capacity(&[]).unwrap();
    assert_eq!((defaults.threads, defaults.write_limit), (None, WriteLimit::FollowsItems));
    assert_eq!(
        (defaults.poll_interval.as_secs(), defaults.owner_level, defaults.immediate_binding),
        (60, Some(1), false)
    );
    assert_eq!(defaults.namespace.as_str(), "storage");
    let given = capacity(&["--capacity-threads=1", "--kube-api-capacity-qps=20", "--capacity-for-immediate-binding"]);
    let given = given.unwrap();
    assert_eq!((given.threads, given.immediate_binding), (Some(1), true));
    assert_eq!(given.write_limit, WriteLimit::Fixed(Some(RequestLimit { qps: 20.0, burst: 5 })));
    for flag in ["--capacity-threads=0", "--capacity-poll-interval=0", "--kube-api-capacity-burst=-1"] {
        let exit = capacity(&[flag]).expect_err(flag);
        assert_eq!(exit.code, 1, "{flag}");
        assert!(exit.message.contains(flag.split('=').next().unwrap()), "{}", exit.message);
    }
}

#[test]
fn bad_input_has_the_exit_code_of_the_go_provisioner_and_names_the_flag() {
    let cases = [
        (&["--no-such-flag"][..], 2, "no-such-flag"),
        (&["-csi-address=/run/csi.sock"], 2, "-c"),
        (&["--timeout=10"], 2, "timeout"),
        (&["--timeout=fast"], 2, "fast"),
        (&["--worker-threads=-1"], 2, "worker-threads"),
        (&["--worker-threads=many"], 2, "many"),
        (&["--extra-create-metadata=maybe"], 2, "maybe"),
        (&["--feature-gates=Topology=maybe"], 2, "maybe"),
        (&["--feature-gates=NoSuchGate=true"], 255, "NoSuchGate"),
        (&["--worker-threads=0"], 1, "worker-threads"),
        (&["--timeout=0"], 1, "--timeout"),
        (&["--retry-interval-start=0"], 1, "--retry-interval-start"),
        (&["--retry-interval-max=-1s"], 1, "--retry-interval-max"),
        (&["--volume-name-uuid-length=0"], 1, "--volume-name-uuid-length"),
        (&["--volume-name-uuid-length=-2"], 1, "--volume-name-uuid-length"),
        (&["--provisioner=x"], 2, "provisioner"),
        (&["--connection-timeout=15s"], 2, "connection-timeout"),
        (&["--help"], 0, "volume-name-prefix"),
    ];
    assert_eq!(cases.len(), 18);
    for (flags, code, named) in cases {
        let (found, message) = refusal(flags);
        assert_eq!(found, code, "{flags:?}: {message}");
        assert!(message.contains(named), "{flags:?}: {message}");
    }
}

#[test]
fn o9_no_threads_for_the_protection_of_sources_are_one() {
    let config = config(&["--cloning-protection-threads=0"]).unwrap();
    assert_eq!(config.provisioning.cloning_protection_threads, 1);
}

#[test]
fn every_flag_of_the_go_provisioner_is_known() {
    let flags = [
        "master",
        "volume-name-prefix",
        "volume-name-uuid-length",
        "retry-interval-start",
        "retry-interval-max",
        "worker-threads",
        "cloning-protection-threads",
        "snapshot-orphan-sweep-interval",
        "capacity-threads",
        "timeout",
        "strict-topology",
        "immediate-topology",
        "extra-create-metadata",
        "enable-pprof",
        "default-fstype",
        "kube-api-capacity-qps",
        "kube-api-capacity-burst",
        "enable-capacity",
        "capacity-for-immediate-binding",
        "capacity-poll-interval",
        "capacity-ownerref-level",
        "node-deployment",
        "node-deployment-immediate-binding",
        "node-deployment-base-delay",
        "node-deployment-max-delay",
        "controller-publish-readonly",
        "prevent-volume-mode-conversion",
        "feature-gates",
        "version",
        "kubeconfig",
        "csi-address",
        "leader-election",
        "leader-election-namespace",
        "leader-election-lease-duration",
        "leader-election-renew-deadline",
        "leader-election-retry-period",
        "leader-election-labels",
        "kube-api-qps",
        "kube-api-burst",
        "http-endpoint",
        "metrics-address",
        "metrics-path",
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
    assert_eq!(flags.len(), 51, "28 of its own, 14 of the library, 9 of logging and the runtime");
    let (_, help) = refusal(&["--help"]);
    for flag in flags {
        assert!(help.contains(&format!("--{flag}")), "--{flag} is not in --help");
    }
    assert!(ProvisionerArgs::try_parse_from(["csi-provisioner"]).is_ok());
}
