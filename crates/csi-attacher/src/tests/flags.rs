//! The command line of the program.

use sidecar::feature_gates::FeatureGates;

use crate::args::{AttacherArgs, Config, FEATURE_GATES};
use crate::run::{as_error, lock_name};

fn config(flags: &[&str]) -> Result<Config, sidecar::Exit> {
    let argv = std::iter::once("csi-attacher").chain(flags.iter().copied()).map(Into::into);
    let args: AttacherArgs = sidecar::parse_go_flags(argv)?;
    args.standard.logging()?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    args.standard.validate(&|_| None)?;
    args.config(&gates)
}

fn refusal(flags: &[&str]) -> (u8, String) {
    let exit = as_error(config(flags).expect_err(&format!("{flags:?} must be refused")));
    (exit.code, exit.message)
}

#[test]
fn defaults_are_those_of_the_go_attacher() {
    let config = config(&[]).unwrap();
    assert_eq!(config.resync.unwrap().as_secs(), 600);
    assert_eq!(config.timeout.as_secs(), 15);
    assert_eq!((config.backoff.base.as_secs(), config.backoff.max.as_secs()), (1, 300));
    assert_eq!(config.worker_threads, 10);
    assert_eq!((config.max_entries, config.default_fs_type.as_str()), (0, ""));
    assert_eq!(config.reconcile_sync.as_secs(), 60);
    assert_eq!(config.max_grpc_log_length, None);
    assert!(config.error_codes);
}

#[test]
fn flags_are_read_as_go_reads_them() {
    let flags = ["-timeout=1m30s", "--worker-threads", "100", "-v=5", "-leader-election", "-max-entries", "500"];
    let config = config(&flags).unwrap();
    assert_eq!((config.timeout.as_secs(), config.worker_threads, config.max_entries), (90, 100, 500));
    let config = super::flags::config(&["--resync=0", "--max-grpc-log-length=80", "--default-fstype=xfs"]).unwrap();
    assert_eq!((config.resync, config.max_grpc_log_length, config.default_fs_type.as_str()), (None, Some(80), "xfs"));
    let config = super::flags::config(&["--feature-gates=MutableCSINodeAllocatableCount=false"]).unwrap();
    assert!(!config.error_codes);
    let config = super::flags::config(&["--max-grpc-log-length=0", "word", "--timeout=bad"]).unwrap();
    assert_eq!(config.max_grpc_log_length, None, "and what follows the first word is not read");
}

#[test]
fn bad_input_has_the_exit_code_of_the_go_attacher_and_names_the_flag() {
    let cases = [
        (&["--no-such-flag"][..], 2, "no-such-flag"),
        (&["--master=x"], 2, "master"),
        (&["--enable-pprof"], 2, "enable-pprof"),
        (&["--timeout=10"], 2, "timeout"),
        (&["--worker-threads=-1"], 2, "worker-threads"),
        (&["--worker-threads=many"], 2, "worker-threads"),
        (&["-v5"], 2, "v5"),
        (&["--feature-gates=MutableCSINodeAllocatableCount=maybe"], 2, "maybe"),
        (&["--leader-election-labels=x"], 2, "leader-election-labels"),
        (&["--leader-election", "--leader-election-lease-duration=1s"], 2, "lease-duration"),
        (&["--feature-gates=NoSuchGate=true"], 1, "NoSuchGate"),
        (&["--feature-gates=Topology=true"], 1, "Topology"),
        (&["--worker-threads=0"], 1, "--worker-threads"),
        (&["--timeout=0"], 1, "--timeout"),
        (&["--timeout=-1s"], 1, "--timeout"),
        (&["--retry-interval-start=0"], 1, "--retry-interval-start"),
        (&["--retry-interval-max=-1s"], 1, "--retry-interval-max"),
        (&["--reconcile-sync=0"], 1, "--reconcile-sync"),
        (&["--resync=-1s"], 1, "--resync"),
        (&["--max-entries=-1"], 1, "--max-entries"),
        (&["--max-entries=3000000000"], 1, "--max-entries"),
        (&["--http-endpoint=:1", "--metrics-address=:2"], 1, "--metrics-address"),
        (&["--logging-format=xml"], 1, "--logging-format"),
        (&["--log-text-split-stream"], 1, "--log-text-split-stream"),
        (&["--csi-address=tcp://x"], 1, "--csi-address"),
        (&["-h"], 0, "reconcile-sync"),
        (&["--help"], 0, "reconcile-sync"),
    ];
    assert_eq!(cases.len(), 27);
    for (flags, code, named) in cases {
        let (found, message) = refusal(flags);
        assert_eq!(found, code, "{flags:?}: {message}");
        assert!(message.contains(named), "{flags:?}: {message}");
    }
}

#[test]
fn every_flag_of_the_go_attacher_is_known() {
    let flags = [
        "resync",
        "timeout",
        "retry-interval-start",
        "retry-interval-max",
        "worker-threads",
        "max-entries",
        "default-fstype",
        "reconcile-sync",
        "max-grpc-log-length",
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
    assert_eq!(flags.len(), 33, "10 of its own, 14 of the library, 9 of logging and the runtime");
    let (_, help) = refusal(&["--help"]);
    for flag in flags {
        assert!(help.contains(&format!("--{flag}")), "--{flag} is not in --help");
    }
    let found = help.lines().filter(|line| line.trim_start().starts_with('-')).count();
    assert_eq!(found, flags.len(), "no other flag: {help}");
}

#[test]
fn the_lease_is_the_one_the_go_attacher_takes() {
    let table = [
        ("hostpath.csi.k8s.io", "external-attacher-leader-hostpath-csi-k8s-io"),
        ("csi/test", "external-attacher-leader-csi-test"),
    ];
    for (driver, lease) in table {
        assert_eq!(controller_runtime::lease_name(&lock_name(driver)), lease);
    }
}
