//! The file system a class asks for.

use std::collections::BTreeMap;

use crate::parameters::FS_TYPE;

/// The answer of [`resolve`].
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct FsType {
    /// The file system; `""` leaves it to the driver.
    pub fs_type: String,
    /// The unprefixed key that named it, which the caller warns about: it is deprecated, and the driver sees it
    /// among the parameters.
    pub deprecated_key: Option<String>,
}

/// Two keys name a file system.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("StorageClass parameters {first} and {second} both name a file system type: keep only {FS_TYPE}")]
pub struct Error {
    /// One key.
    pub first: String,
    /// Another.
    pub second: String,
}

/// The file system type of a class: the value of `csi.storage.k8s.io/fstype` or, in any case of letters, of
/// `fstype`; `default_fs_type` (`--default-fstype`) when neither is there or the value is empty.
pub fn resolve(parameters: &BTreeMap<String, String>, default_fs_type: &str) -> Result<FsType, Error> {
    let mut matches = parameters.iter().filter(|(key, _)| *key == FS_TYPE || key.eq_ignore_ascii_case("fstype"));
    let first = matches.next();
    if let (Some((first, _)), Some((second, _))) = (first, matches.next()) {
        return Err(Error { first: first.clone(), second: second.clone() });
    }
    let fs_type = first.map_or("", |(_, value)| value);
    Ok(FsType {
        fs_type: if fs_type.is_empty() { default_fs_type } else { fs_type }.to_owned(),
        deprecated_key: first.map(|(key, _)| key).filter(|key| *key != FS_TYPE).cloned(),
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn file_system_types() {
        type Expected = Option<(&'static str, Option<&'static str>)>; // None: error
        type Row = (&'static [(&'static str, &'static str)], &'static str, Expected);
        let rows: &[Row] = &[
            (&[], "ext4", Some(("ext4", None))),
            (&[("fstype", "xfs")], "ext4", Some(("xfs", Some("fstype")))),
            (&[], "", Some(("", None))),
            (&[("fstype", "xfs")], "", Some(("xfs", Some("fstype")))),
            (&[("fstype", "ext3")], "ext4", Some(("ext3", Some("fstype")))),
            (&[("FsType", "ext3")], "ext4", Some(("ext3", Some("FsType")))),
            (&[(FS_TYPE, "ext3")], "ext4", Some(("ext3", None))),
            (&[(FS_TYPE, "")], "ext4", Some(("ext4", None))),
            (&[("fstype", "")], "ext4", Some(("ext4", Some("fstype")))),
            (&[("fstype", "ext3"), (FS_TYPE, "ext3")], "ext4", None),
            (&[("fstype", "ext3"), ("FSTYPE", "ext3")], "ext4", None),
            (&[("fstype", ""), (FS_TYPE, "xfs")], "ext4", None),
            (&[("csi.storage.k8s.io/FSTYPE", "xfs")], "ext4", Some(("ext4", None))),
            (&[("myfstype", "xfs"), ("foo", "fstype")], "ext4", Some(("ext4", None))),
        ];
        assert_eq!(rows.len(), 14);
        for (parameters, default, expected) in rows {
            let parameters = parameters.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
            let got = resolve(&parameters, default).ok();
            let got = got.as_ref().map(|got| (got.fs_type.as_str(), got.deprecated_key.as_deref()));
            assert_eq!(got, *expected, "{parameters:?} {default:?}");
        }
    }

    #[test]
    fn the_error_names_both_keys() {
        let parameters = ["fstype", FS_TYPE].map(|key| (key.to_owned(), "xfs".to_owned())).into();
        assert_eq!(
            resolve(&parameters, "").map_err(|error| error.to_string()),
            Err("StorageClass parameters csi.storage.k8s.io/fstype and fstype both name a file system type: keep only csi.storage.k8s.io/fstype".to_owned())
        );
    }
}
