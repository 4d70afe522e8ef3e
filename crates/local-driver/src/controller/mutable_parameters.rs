//! Which mutable parameters a volume can have. No I/O.

use std::collections::{BTreeMap, BTreeSet};

use tonic::Status;

use crate::capabilities::{Capabilities, Capability};

/// Refuses parameters that are not mutable ones of this driver (CSI "ControllerModifyVolume Errors").
pub(super) fn check(wanted: &BTreeMap<String, String>, known: &BTreeSet<String>) -> Result<(), Status> {
    let mut unknown: Vec<_> = wanted.keys().filter(|key| !known.contains(*key)).map(String::as_str).collect();
    if unknown.is_empty() {
        return Ok(());
    }
    unknown.sort_unstable();
    let known = known.iter().map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(Status::invalid_argument(format!(
        "no volume has the mutable parameters {}: those there are, given by --mutable-parameter: {known}",
        unknown.join(", ")
    )))
}

/// The same where the capability may be missing.
pub(super) fn check_supported(
    wanted: &BTreeMap<String, String>,
    known: &BTreeSet<String>,
    capabilities: &Capabilities,
) -> Result<(), Status> {
    if !wanted.is_empty() && !capabilities.has(Capability::ModifyVolume) {
        return Err(Status::invalid_argument("mutable_parameters need the capability MODIFY_VOLUME"));
    }
    check(wanted, known)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn parameters_that_do_not_exist_are_named_with_those_that_do() {
        let known = BTreeSet::from(["iops".to_owned(), "tier".to_owned()]);
        let wanted = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect();
        check(&wanted(&[]), &known).unwrap();
        check(&wanted(&["tier", "iops"]), &known).unwrap();
        let status = check(&wanted(&["tier", "b", "a"]), &known).unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("parameters a, b: ") && status.message().ends_with("iops, tier"), "{status}");
    }

    #[test]
    fn without_the_capability_there_are_none() {
        let known = BTreeSet::from(["iops".to_owned()]);
        let wanted = BTreeMap::from([("iops".to_owned(), "1".to_owned())]);
        for (list, supported) in [("CONTROLLER_SERVICE", false), ("CONTROLLER_SERVICE,MODIFY_VOLUME", true)] {
            let capabilities = Capabilities::parse(list).unwrap();
            assert_eq!(check_supported(&wanted, &known, &capabilities).is_ok(), supported, "{list}");
            check_supported(&BTreeMap::new(), &known, &capabilities).unwrap();
        }
    }
}
