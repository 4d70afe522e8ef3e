//! Which mutable parameters a volume can have. No I/O.

use std::collections::BTreeMap;

use tonic::Status;

use crate::capabilities::{Capabilities, Capability};

/// Keys with the values they may have; none for any.
pub(crate) type Known = BTreeMap<String, Vec<String>>;

/// Refuses parameters that are not mutable ones of this driver (CSI "ControllerModifyVolume Errors").
pub(super) fn check(wanted: &BTreeMap<String, String>, known: &Known) -> Result<(), Status> {
    let mut unknown: Vec<_> = wanted.keys().filter(|key| !known.contains_key(*key)).map(String::as_str).collect();
    if unknown.is_empty() {
        return wanted.iter().try_for_each(|(key, value)| match known.get(key) {
            Some(values) if !values.is_empty() && !values.contains(value) => Err(Status::invalid_argument(format!(
                "the mutable parameter {key} cannot be {value:?}: --mutable-parameter allows {}",
                values.join(", ")
            ))),
            _ => Ok(()),
        });
    }
    unknown.sort_unstable();
    let known = known.keys().map(String::as_str).collect::<Vec<_>>().join(", ");
    Err(Status::invalid_argument(format!(
        "no volume has the mutable parameters {}: those there are, given by --mutable-parameter: {known}",
        unknown.join(", ")
    )))
}

/// The same where the capability may be missing.
pub(super) fn check_supported(
    wanted: &BTreeMap<String, String>,
    known: &Known,
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
        let known =
            Known::from([("iops".to_owned(), Vec::new()), ("tier".to_owned(), vec!["1".to_owned(), "2".to_owned()])]);
        let wanted = |keys: &[&str]| keys.iter().map(|key| ((*key).to_owned(), "1".to_owned())).collect();
        check(&wanted(&[]), &known).unwrap();
        check(&wanted(&["tier", "iops"]), &known).unwrap();
        let status = check(&wanted(&["tier", "b", "a"]), &known).unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("parameters a, b: ") && status.message().ends_with("iops, tier"), "{status}");
        let status = check(&BTreeMap::from([("tier".to_owned(), "3".to_owned())]), &known).unwrap_err();
        assert_eq!(status.code(), tonic::Code::InvalidArgument);
        assert!(status.message().contains("tier cannot be \"3\"") && status.message().ends_with("1, 2"), "{status}");
    }

    #[test]
    fn without_the_capability_there_are_none() {
        let known = Known::from([("iops".to_owned(), Vec::new())]);
        let wanted = BTreeMap::from([("iops".to_owned(), "1".to_owned())]);
        for (list, supported) in [("CONTROLLER_SERVICE", false), ("CONTROLLER_SERVICE,MODIFY_VOLUME", true)] {
            let capabilities = Capabilities::parse(list).unwrap();
            assert_eq!(check_supported(&wanted, &known, &capabilities).is_ok(), supported, "{list}");
            check_supported(&BTreeMap::new(), &known, &capabilities).unwrap();
        }
    }
}
