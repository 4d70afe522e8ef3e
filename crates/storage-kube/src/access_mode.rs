//! Kubernetes access modes and what they are called in CSI.
//!
//! CSI has two vocabularies for "one node": drivers without the `SINGLE_NODE_MULTI_WRITER` capability know only
//! `SINGLE_NODE_WRITER`, the others tell one pod ([`AccessMode::ReadWriteOncePod`]) from many.

use std::fmt;

use csi_proto::csi::v1::volume_capability::access_mode::Mode;

/// One entry of `spec.accessModes` of a claim or volume.
#[derive(Clone, Debug, PartialEq, Eq, Hash)]
pub enum AccessMode {
    /// Read and write from one node.
    ReadWriteOnce,
    /// Read from many nodes.
    ReadOnlyMany,
    /// Read and write from many nodes.
    ReadWriteMany,
    /// Read and write from one pod.
    ReadWriteOncePod,
    /// A mode this version does not know; kept for the message that says so.
    Unknown(Box<str>),
}

/// Which CSI vocabulary the driver speaks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Mapping {
    /// The driver lacks controller capability `SINGLE_NODE_MULTI_WRITER`.
    Basic,
    /// The driver has it.
    SingleNodeMultiWriter,
}

/// Why access modes have no CSI counterpart.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
pub enum Error {
    /// A mode this version does not know.
    #[error("unsupported access mode {0:?}: use ReadWriteOnce, ReadOnlyMany, ReadWriteMany or ReadWriteOncePod")]
    Unsupported(String),
    /// No mode at all.
    #[error("no access mode given: name at least one, for example ReadWriteOnce")]
    Empty,
    /// A combination CSI has no single mode for.
    #[error("access modes {0} and {1} cannot be combined on one volume: give one of them")]
    Contradiction(AccessMode, AccessMode),
}

impl AccessMode {
    /// The API's spelling.
    pub fn as_str(&self) -> &str {
        match self {
            Self::ReadWriteOnce => "ReadWriteOnce",
            Self::ReadOnlyMany => "ReadOnlyMany",
            Self::ReadWriteMany => "ReadWriteMany",
            Self::ReadWriteOncePod => "ReadWriteOncePod",
            Self::Unknown(text) => text,
        }
    }
}

impl From<&str> for AccessMode {
    fn from(text: &str) -> Self {
        match text {
            "ReadWriteOnce" => Self::ReadWriteOnce,
            "ReadOnlyMany" => Self::ReadOnlyMany,
            "ReadWriteMany" => Self::ReadWriteMany,
            "ReadWriteOncePod" => Self::ReadWriteOncePod,
            other => Self::Unknown(other.into()),
        }
    }
}

impl fmt::Display for AccessMode {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl<'de> serde::Deserialize<'de> for AccessMode {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        struct Visitor;
        impl serde::de::Visitor<'_> for Visitor {
            type Value = AccessMode;

            fn expecting(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
                f.write_str("an access mode")
            }

            fn visit_str<E>(self, text: &str) -> Result<AccessMode, E> {
                Ok(AccessMode::from(text))
            }
        }
        deserializer.deserialize_str(Visitor)
    }
}

/// One Kubernetes mode by itself, as `CreateVolume` sends one capability per mode of the claim.
pub fn to_csi(mode: &AccessMode, mapping: Mapping) -> Result<Mode, Error> {
    match (mode, mapping) {
        (AccessMode::ReadWriteMany, _) => Ok(Mode::MultiNodeMultiWriter),
        (AccessMode::ReadOnlyMany, _) => Ok(Mode::MultiNodeReaderOnly),
        (AccessMode::ReadWriteOnce | AccessMode::ReadWriteOncePod, Mapping::Basic) => Ok(Mode::SingleNodeWriter),
        (AccessMode::ReadWriteOnce, Mapping::SingleNodeMultiWriter) => Ok(Mode::SingleNodeMultiWriter),
        (AccessMode::ReadWriteOncePod, Mapping::SingleNodeMultiWriter) => Ok(Mode::SingleNodeSingleWriter),
        (AccessMode::Unknown(text), _) => Err(Error::Unsupported(text.to_string())),
    }
}

/// The one mode that stands for all modes of a volume, as publishing and resizing send it.
///
/// `ReadWriteOncePod` tolerates no other mode, `ReadWriteMany` covers all others, `ReadOnlyMany` beside
/// `ReadWriteOnce` has no CSI mode; repeats do not matter.
pub fn list_to_csi(modes: &[AccessMode], mapping: Mapping) -> Result<Mode, Error> {
    let single_pod = AccessMode::ReadWriteOncePod;
    if modes.contains(&single_pod) {
        if let Some(other) = modes.iter().find(|mode| **mode != single_pod) {
            return Err(Error::Contradiction(single_pod, other.clone()));
        }
        return to_csi(&single_pod, mapping);
    }
    if modes.contains(&AccessMode::ReadWriteMany) {
        return to_csi(&AccessMode::ReadWriteMany, mapping);
    }
    let read_only = modes.contains(&AccessMode::ReadOnlyMany);
    let read_write = modes.contains(&AccessMode::ReadWriteOnce);
    match (read_only, read_write, modes.first()) {
        (true, true, _) => Err(Error::Contradiction(AccessMode::ReadOnlyMany, AccessMode::ReadWriteOnce)),
        (true, false, _) => to_csi(&AccessMode::ReadOnlyMany, mapping),
        (false, true, _) => to_csi(&AccessMode::ReadWriteOnce, mapping),
        (false, false, Some(unknown)) => to_csi(unknown, mapping),
        (false, false, None) => Err(Error::Empty),
    }
}

#[cfg(test)]
mod tests {
    use super::{
        AccessMode::{ReadOnlyMany as Rox, ReadWriteMany as Rwx, ReadWriteOnce as Rwo, ReadWriteOncePod as Rwop},
        *,
    };

    fn unknown() -> AccessMode {
        AccessMode::from("ReadWriteSometimes")
    }

    #[test]
    fn each_mode_by_itself() {
        let rows = [
            (Rwx, Ok((Mode::MultiNodeMultiWriter, Mode::MultiNodeMultiWriter))),
            (Rox, Ok((Mode::MultiNodeReaderOnly, Mode::MultiNodeReaderOnly))),
            (Rwo, Ok((Mode::SingleNodeWriter, Mode::SingleNodeMultiWriter))),
            (Rwop, Ok((Mode::SingleNodeWriter, Mode::SingleNodeSingleWriter))),
            (unknown(), Err(Error::Unsupported("ReadWriteSometimes".into()))),
        ];
        assert_eq!(rows.len(), 5);
        for (mode, expected) in rows {
            let got = to_csi(&mode, Mapping::Basic)
                .and_then(|basic| Ok((basic, to_csi(&mode, Mapping::SingleNodeMultiWriter)?)));
            assert_eq!(got, expected, "{mode}");
            assert_eq!(AccessMode::from(mode.as_str()), mode);
        }
    }

    #[test]
    fn a_list_as_one_mode() {
        let no = |a: &AccessMode, b: &AccessMode| Err(Error::Contradiction(a.clone(), b.clone()));
        // modes, without and with SINGLE_NODE_MULTI_WRITER
        let rows = [
            (vec![Rwx], Ok(Mode::MultiNodeMultiWriter), Ok(Mode::MultiNodeMultiWriter)),
            (vec![Rox, Rwx], Ok(Mode::MultiNodeMultiWriter), Ok(Mode::MultiNodeMultiWriter)),
            (vec![Rwo, Rox, Rwx], Ok(Mode::MultiNodeMultiWriter), Ok(Mode::MultiNodeMultiWriter)),
            (vec![Rwx, unknown()], Ok(Mode::MultiNodeMultiWriter), Ok(Mode::MultiNodeMultiWriter)),
            (vec![Rox], Ok(Mode::MultiNodeReaderOnly), Ok(Mode::MultiNodeReaderOnly)),
            (vec![Rox, Rox], Ok(Mode::MultiNodeReaderOnly), Ok(Mode::MultiNodeReaderOnly)),
            (vec![Rwo], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeMultiWriter)),
            (vec![Rwo, Rwo], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeMultiWriter)),
            (vec![unknown(), Rwo], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeMultiWriter)),
            (vec![Rwop], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeSingleWriter)),
            (vec![Rwop, Rwop], Ok(Mode::SingleNodeWriter), Ok(Mode::SingleNodeSingleWriter)),
            (vec![Rox, Rwo], no(&Rox, &Rwo), no(&Rox, &Rwo)),
            (vec![Rox, Rwop], no(&Rwop, &Rox), no(&Rwop, &Rox)),
            (vec![Rwo, Rwop], no(&Rwop, &Rwo), no(&Rwop, &Rwo)),
            (vec![Rwx, Rwop], no(&Rwop, &Rwx), no(&Rwop, &Rwx)),
            (
                vec![unknown()],
                Err(Error::Unsupported("ReadWriteSometimes".into())),
                Err(Error::Unsupported("ReadWriteSometimes".into())),
            ),
            (vec![], Err(Error::Empty), Err(Error::Empty)),
        ];
        assert_eq!(rows.len(), 17);
        for (modes, basic, multi_writer) in rows {
            assert_eq!(list_to_csi(&modes, Mapping::Basic), basic, "{modes:?}");
            assert_eq!(list_to_csi(&modes, Mapping::SingleNodeMultiWriter), multi_writer, "{modes:?}");
        }
    }
}
