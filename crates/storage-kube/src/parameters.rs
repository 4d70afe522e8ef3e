//! `parameters` of a storage class: keys reserved for the sidecars, and what the driver gets.

use std::collections::BTreeMap;

use crate::secret_ref::parameter_keys;

/// Keys that start with this are addressed to the sidecars; the driver does not get them.
pub const RESERVED_PREFIX: &str = "csi.storage.k8s.io/";

/// The file system type.
pub const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

/// Given to the driver with `--extra-create-metadata`: name of the claim.
pub const CLAIM_NAME: &str = "csi.storage.k8s.io/pvc/name";

/// Given to the driver with `--extra-create-metadata`: namespace of the claim.
pub const CLAIM_NAMESPACE: &str = "csi.storage.k8s.io/pvc/namespace";

/// Given to the driver with `--extra-create-metadata`: name of the volume object.
pub const VOLUME_NAME: &str = "csi.storage.k8s.io/pv/name";

/// A reserved key nobody knows, most likely a misspelt one.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error(
    "StorageClass parameter {key:?} starts with the reserved prefix {RESERVED_PREFIX} but is not known: correct its spelling or remove it"
)]
pub struct Error {
    /// The key.
    pub key: String,
}

/// What is left of a class's parameters for the driver. Deprecated unprefixed secret and file system keys stay,
/// drivers have always seen them; only the key counts, never the value.
pub fn strip_reserved(parameters: &BTreeMap<String, String>) -> Result<BTreeMap<String, String>, Error> {
    let mut stripped = BTreeMap::new();
    for (key, value) in parameters {
        if !key.starts_with(RESERVED_PREFIX) {
            stripped.insert(key.clone(), value.clone());
        } else if key != FS_TYPE && !parameter_keys().any(|known| known == key) {
            return Err(Error { key: key.clone() });
        }
    }
    Ok(stripped)
}

/// Adds the identity of claim and volume, as `--extra-create-metadata` asks for.
pub fn add_claim_metadata(
    parameters: &mut BTreeMap<String, String>,
    claim_namespace: &str,
    claim_name: &str,
    volume_name: &str,
) {
    for (key, value) in [(CLAIM_NAMESPACE, claim_namespace), (CLAIM_NAME, claim_name), (VOLUME_NAME, volume_name)] {
        parameters.insert(key.to_owned(), value.to_owned());
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ALL_KNOWN: [&str; 17] = [
        "csi.storage.k8s.io/fstype",
        "csi.storage.k8s.io/secret-name",
        "csi.storage.k8s.io/secret-namespace",
        "csi.storage.k8s.io/provisioner-secret-name",
        "csi.storage.k8s.io/provisioner-secret-namespace",
        "csi.storage.k8s.io/controller-publish-secret-name",
        "csi.storage.k8s.io/controller-publish-secret-namespace",
        "csi.storage.k8s.io/node-stage-secret-name",
        "csi.storage.k8s.io/node-stage-secret-namespace",
        "csi.storage.k8s.io/node-publish-secret-name",
        "csi.storage.k8s.io/node-publish-secret-namespace",
        "csi.storage.k8s.io/controller-expand-secret-name",
        "csi.storage.k8s.io/controller-expand-secret-namespace",
        "csi.storage.k8s.io/node-expand-secret-name",
        "csi.storage.k8s.io/node-expand-secret-namespace",
        "csi.storage.k8s.io/controller-modify-secret-name",
        "csi.storage.k8s.io/controller-modify-secret-namespace",
    ];

    const DEPRECATED: [&str; 9] = [
        "fstype",
        "csiProvisionerSecretName",
        "csiProvisionerSecretNamespace",
        "csiControllerPublishSecretName",
        "csiControllerPublishSecretNamespace",
        "csiNodeStageSecretName",
        "csiNodeStageSecretNamespace",
        "csiNodePublishSecretName",
        "csiNodePublishSecretNamespace",
    ];

    fn map(keys: &[&str]) -> BTreeMap<String, String> {
        keys.iter().map(|&key| (key.to_owned(), "csi.storage.k8s.io/fstype".to_owned())).collect()
    }

    #[test]
    fn reserved_keys_are_stripped_and_unknown_ones_refused() {
        type Row = (&'static str, &'static [&'static str], Result<&'static [&'static str], Error>);
        let unknown = |key: &str| Err(Error { key: key.to_owned() });
        let rows: [Row; 9] = [
            ("none prefixed", &["csiFoo", "bim"], Ok(&["csiFoo", "bim"])),
            ("one prefixed", &["csi.storage.k8s.io/controller-publish-secret-name", "bim"], Ok(&["bim"])),
            ("prefix in value", &["foo"], Ok(&["foo"])),
            ("all known", &ALL_KNOWN, Ok(&[])),
            ("all deprecated", &DEPRECATED, Ok(&DEPRECATED)),
            ("unknown", &["csi.storage.k8s.io/bim"], unknown("csi.storage.k8s.io/bim")),
            ("empty", &[], Ok(&[])),
            ("only the prefix", &[RESERVED_PREFIX], unknown(RESERVED_PREFIX)),
            ("metadata keys are ours to set", &[CLAIM_NAME], unknown(CLAIM_NAME)),
        ];
        assert_eq!(rows.len(), 9);
        for (case, input, expected) in rows {
            assert_eq!(strip_reserved(&map(input)), expected.map(map), "{case}");
        }
    }

    #[test]
    fn claim_metadata_is_three_keys() {
        let mut parameters = map(&["fstype"]);
        add_claim_metadata(&mut parameters, "fake-ns", "fake-pvc", "test-testi");
        let got: Vec<(&str, &str)> = parameters.iter().map(|(k, v)| (k.as_str(), v.as_str())).collect();
        assert_eq!(
            got,
            [
                ("csi.storage.k8s.io/pv/name", "test-testi"),
                ("csi.storage.k8s.io/pvc/name", "fake-pvc"),
                ("csi.storage.k8s.io/pvc/namespace", "fake-ns"),
                ("fstype", "csi.storage.k8s.io/fstype"),
            ]
        );
    }
}
