//! Which nodes a volume is published to, and whether one more may be (CSI "`ControllerPublishVolume` Errors"). No I/O.

use std::fmt;

use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use serde::{Deserialize, Serialize};

use crate::state::{Record, StateError};

/// CSI `node_id`.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct NodeId(String);

impl From<&str> for NodeId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for NodeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// A volume at a node, as ControllerPublishVolume asked for it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Publication {
    pub(crate) node_id: NodeId,
    #[serde(with = "mode_name")]
    pub(crate) access_mode: Mode,
    pub(crate) readonly: bool,
}

/// Access modes by their names in the CSI specification.
mod mode_name {
    use csi_proto::csi::v1::volume_capability::access_mode::Mode;
    use serde::de::Error;
    use serde::{Deserialize, Deserializer, Serializer};

    #[expect(clippy::trivially_copy_pass_by_ref, reason = "the signature serde asks for")]
    pub(super) fn serialize<S: Serializer>(mode: &Mode, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(mode.as_str_name())
    }

    pub(super) fn deserialize<'de, D: Deserializer<'de>>(deserializer: D) -> Result<Mode, D::Error> {
        let name = String::deserialize(deserializer)?;
        Mode::from_str_name(&name).ok_or_else(|| D::Error::custom(format!("{name:?} is not an access mode")))
    }
}

impl Publication {
    fn reads_only(&self) -> bool {
        self.readonly || matches!(self.access_mode, Mode::SingleNodeReaderOnly | Mode::MultiNodeReaderOnly)
    }

    const fn of_many_nodes(&self) -> bool {
        matches!(self.access_mode, Mode::MultiNodeReaderOnly | Mode::MultiNodeSingleWriter | Mode::MultiNodeMultiWriter)
    }
}

impl fmt::Display for Publication {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let readonly = if self.readonly { ", readonly" } else { "" };
        write!(f, "{}{readonly}", self.access_mode.as_str_name())
    }
}

/// What is to be done for a publication that is wanted.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Admission {
    /// It is there.
    Published,
    /// It can be added.
    New,
}

/// Whether the volume may be published so. The capability is known to fit the volume.
pub(super) fn admit(record: &Record, wanted: &Publication) -> Result<Admission, StateError> {
    if let Some(same_node) = record.published.iter().find(|one| one.node_id == wanted.node_id) {
        if same_node == wanted {
            return Ok(Admission::Published);
        }
        return Err(StateError::PublishedOtherwise {
            id: record.id.clone(),
            node_id: wanted.node_id.clone(),
            existing: same_node.to_string(),
            wanted: wanted.to_string(),
        });
    }
    let taken = |volume_is: &'static str| StateError::PublishedElsewhere {
        id: record.id.clone(),
        nodes: record.published_nodes().join(", "),
        volume_is,
    };
    if !record.published.is_empty() && !wanted.of_many_nodes() {
        return Err(taken("wanted for a single node"));
    }
    if record.published.iter().any(|other| !other.of_many_nodes()) {
        return Err(taken("in use for a single node"));
    }
    let all = || record.published.iter().chain([wanted]);
    let one_writer = all().any(|one| one.access_mode == Mode::MultiNodeSingleWriter);
    if one_writer && !wanted.reads_only() && record.published.iter().any(|other| !other.reads_only()) {
        return Err(taken("for one writer at a time"));
    }
    Ok(Admission::New)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use tonic::{Code, Status};

    use super::*;
    use crate::state::{SizeRange, Wanted};

    fn at(node: &str, access_mode: Mode, readonly: bool) -> Publication {
        Publication { node_id: NodeId::from(node), access_mode, readonly }
    }

    fn volume(published: &[Publication]) -> Record {
        let wanted = Wanted { name: "a".to_owned(), size: SizeRange { required: 5, limit: None }, ..Wanted::default() };
        Record { published: published.to_vec(), ..Record::new(wanted, 0, 5) }
    }

    #[test]
    fn a_volume_is_published_to_as_many_nodes_as_its_modes_allow() {
        use Mode::{
            MultiNodeMultiWriter as Rwx, MultiNodeReaderOnly as Rox, MultiNodeSingleWriter as OneWriter,
            SingleNodeReaderOnly as OneReader, SingleNodeSingleWriter as Rwop, SingleNodeWriter as Rwo,
        };
        let cases = [
            // published to, wanted at, outcome
            (None, at("a", Rwo, false), Ok(Admission::New)),
            (Some(at("a", Rwo, false)), at("a", Rwo, false), Ok(Admission::Published)),
            (Some(at("a", Rwo, false)), at("a", Rwo, true), Err(Code::AlreadyExists)),
            (Some(at("a", Rwo, true)), at("a", Rwo, false), Err(Code::AlreadyExists)),
            (Some(at("a", Rwo, false)), at("a", Rwop, false), Err(Code::AlreadyExists)),
            (Some(at("a", Rwx, false)), at("a", Rwo, false), Err(Code::AlreadyExists)),
            (Some(at("a", Rwo, false)), at("b", Rwo, false), Err(Code::FailedPrecondition)),
            (Some(at("a", Rwop, false)), at("b", Rwop, false), Err(Code::FailedPrecondition)),
            (Some(at("a", OneReader, true)), at("b", OneReader, true), Err(Code::FailedPrecondition)),
            (Some(at("a", Rwx, false)), at("b", Rwo, false), Err(Code::FailedPrecondition)),
            (Some(at("a", Rwo, false)), at("b", Rwx, false), Err(Code::FailedPrecondition)),
            (Some(at("a", Rwx, false)), at("b", Rwx, false), Ok(Admission::New)),
            (Some(at("a", Rox, false)), at("b", Rox, true), Ok(Admission::New)),
            (Some(at("a", OneWriter, false)), at("b", OneWriter, true), Ok(Admission::New)),
            (Some(at("a", OneWriter, true)), at("b", OneWriter, false), Ok(Admission::New)),
            (Some(at("a", OneWriter, false)), at("b", OneWriter, false), Err(Code::FailedPrecondition)),
            (Some(at("a", OneWriter, false)), at("b", Rwx, false), Err(Code::FailedPrecondition)),
            (Some(at("a", Rwx, false)), at("b", OneWriter, false), Err(Code::FailedPrecondition)),
            (Some(at("a", OneWriter, false)), at("b", Rox, false), Ok(Admission::New)),
        ];
        assert_eq!(cases.len(), 19);
        for (published, wanted, expected) in cases {
            let record = volume(published.as_slice());
            let result = admit(&record, &wanted).map_err(|error| Status::from(error).code());
            assert_eq!(result, expected, "{published:?} and {wanted:?}");
        }
    }

    #[test]
    fn a_refusal_names_the_nodes_that_have_the_volume() {
        let record = volume(&[at("node-7", Mode::SingleNodeWriter, false)]);
        let message = admit(&record, &at("b", Mode::SingleNodeWriter, false)).unwrap_err().to_string();
        assert!(message.contains("node-7"), "{message}");
    }
}
