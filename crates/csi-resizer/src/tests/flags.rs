//! Contract §1: the command line.

use std::time::Duration;

use sidecar::feature_gates::FeatureGates;

use crate::args::{Config, FEATURE_GATES, ResizerArgs};

fn config(flags: &[&str]) -> Config {
    let argv = ["csi-resizer"].iter().chain(flags).map(std::ffi::OsString::from);
    let args: ResizerArgs = sidecar::parse_go_flags(argv).unwrap();
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates).unwrap();
    args.config(&gates).unwrap()
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
