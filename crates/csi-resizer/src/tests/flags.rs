//! Contract §1: the command line.

use std::ffi::OsString;
use std::time::Duration;

use sidecar::Exit;
use sidecar::feature_gates::FeatureGates;

use crate::args::{Config, FEATURE_GATES, ResizerArgs};
use crate::run::{as_error, lock_name};

fn parsed(flags: &[&str]) -> Result<Config, Exit> {
    let argv = ["csi-resizer"].iter().chain(flags).map(OsString::from);
    let args: ResizerArgs = sidecar::parse_go_flags(argv)?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    args.config(&gates)
}

fn config(flags: &[&str]) -> Config {
    parsed(flags).unwrap_or_else(|exit| panic!("{flags:?}: {exit:?}"))
}

#[test]
fn defaults_are_those_of_the_go_resizer() {
    let config = config(&[]);
    assert_eq!(config.resync, Some(Duration::from_mins(10)));
    assert_eq!(config.workers, 10);
    assert_eq!(config.timeout, Duration::from_secs(10));
    assert_eq!((config.backoff.base, config.backoff.max), (Duration::from_secs(1), Duration::from_mins(5)));
    assert!(config.handle_in_use && config.recovers && config.attributes_class && config.discover_attributes_class);
    assert!(!config.annotates && !config.extra_modify_metadata);
}

#[test]
fn every_flag_has_its_effect_with_one_dash_or_two() {
    for dashes in ["-", "--"] {
        let flags = [
            "resync-period=0",
            "workers=3",
            "extra-modify-metadata",
            "timeout=2s",
            "retry-interval-start=20s",
            "retry-interval-max=7s",
            "handle-volume-inuse-error=false",
            "feature-gates=AnnotateFsResize=true,RecoverVolumeExpansionFailure=false,VolumeAttributesClass=true",
        ]
        .map(|flag| format!("{dashes}{flag}"));
        let config = config(&flags.each_ref().map(String::as_str));
        assert_eq!((config.resync, config.workers, config.timeout), (None, 3, Duration::from_secs(2)));
        let seven = Duration::from_secs(7);
        assert_eq!(
            (config.backoff.base, config.backoff.max),
            (seven, seven),
            "the first delay is no longer than the longest"
        );
        assert!(config.extra_modify_metadata && !config.handle_in_use);
        assert!(config.annotates && !config.recovers && config.attributes_class && !config.discover_attributes_class);
    }
}

#[test]
fn bad_values_end_the_start_and_name_the_flag() {
    let rows = [
        ("--workers=0", 1),
        ("--workers=-1", 1),
        ("--workers=many", 2),
        ("--timeout=0", 1),
        ("--timeout=soon", 2),
        ("--retry-interval-start=0s", 1),
        ("--retry-interval-max=-1s", 1),
        ("--resync-period=-1s", 1),
        ("--no-such-flag", 2),
        ("--handle-volume-inuse-error=perhaps", 2),
    ];
    for (flag, code) in rows {
        let exit = parsed(&[flag]).unwrap_err();
        assert_eq!(exit.code, code, "{flag}: {exit:?}");
        let name = flag.trim_start_matches('-').split('=').next().unwrap();
        assert!(format!("{exit:?}").contains(name), "{flag}: {exit:?}");
    }
    let exit = parsed(&["--feature-gates=NoSuchGate=true"]).unwrap_err();
    assert_eq!(as_error(exit).code, 1);
}

/// Contract §3, before the rule for names of Leases.
#[test]
fn the_lease_is_named_after_the_driver() {
    let name = controller_runtime::lease_name(&lock_name("ebs.csi.aws.com"));
    assert_eq!(name, "external-resizer-ebs-csi-aws-com");
    assert_eq!(controller_runtime::lease_name(&lock_name("driver.")), "external-resizer-driver-X");
}
