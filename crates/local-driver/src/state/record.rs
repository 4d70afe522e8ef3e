//! What is known of one volume, as it is kept on disk.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::kept::{FORMAT, Kept};
use crate::state::{Publication, SnapshotId, StateError};
use crate::topology::Topology;

/// Size of a volume whose request leaves it open: 1 GiB.
const DEFAULT_SIZE: i64 = 1 << 30;

/// Loop devices have whole sectors: a block volume of another size would lose its last bytes.
const SECTOR: i64 = 512;

/// CSI `volume_id`. Ids of callers are looked up and never become part of a path.
#[derive(Clone, Debug, PartialEq, Eq, Hash, Serialize, Deserialize)]
pub(crate) struct VolumeId(String);

impl From<&str> for VolumeId {
    fn from(id: &str) -> Self {
        Self(id.to_owned())
    }
}

impl fmt::Display for VolumeId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(&self.0)
    }
}

/// How a volume is used.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[cfg_attr(test, derive(Default))]
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// A directory.
    #[cfg_attr(test, default)]
    Mount,
    /// A sparse file, to be a loop device.
    Block,
    /// A file system of its own in a sparse file, mounted as a directory is.
    Image,
}

impl Access {
    /// How its user has it: `Mount` or `Block`.
    pub(crate) const fn as_used(self) -> Self {
        match self {
            Access::Mount | Access::Image => Access::Mount,
            Access::Block => Access::Block,
        }
    }
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Mount => "mount",
            Access::Block => "block",
            Access::Image => "mount (backing: image)",
        })
    }
}

/// XFS is not made smaller: 300 MiB.
const SMALLEST_IMAGE: i64 = 300 << 20;

/// CSI `capacity_range`, checked: bytes, 0 required means open, limit ≥ required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct SizeRange {
    pub(crate) required: i64,
    pub(crate) limit: Option<i64>,
}

impl SizeRange {
    /// The same range without the sizes that cannot hold `bytes`. A source larger than required makes the volume
    /// larger (CSI "CreateVolumeRequest.capacity_range" with a content source), up to the limit.
    pub(super) fn of_at_least(self, bytes: i64) -> Result<Self, StateError> {
        match self.limit {
            Some(limit) if limit < bytes => {
                Err(StateError::Size(format!("the content source has {bytes} bytes, the limit is {limit}")))
            }
            _ => Ok(Self { required: self.required.max(bytes), ..self }),
        }
    }

    /// The size to give, with `capacity` bytes for all volumes and `free` of them left.
    pub(super) fn choose(self, access: Access, capacity: Option<i64>, free: Option<i64>) -> Result<i64, StateError> {
        let limit = self.limit.unwrap_or(i64::MAX);
        let size = match (self.required, access) {
            (0, Access::Mount) => DEFAULT_SIZE.min(limit).min(free.unwrap_or(i64::MAX).max(1)),
            (0, Access::Image) => {
                DEFAULT_SIZE.min(limit).min(free.unwrap_or(i64::MAX)).max(SMALLEST_IMAGE) / SECTOR * SECTOR
            }
            (0, Access::Block) => DEFAULT_SIZE.min(limit).min(free.unwrap_or(i64::MAX).max(SECTOR)) / SECTOR * SECTOR,
            (required, Access::Mount) => required,
            (required, Access::Block) => whole_sectors(required),
            (required, Access::Image) => whole_sectors(required.max(SMALLEST_IMAGE)),
        };
        if size > limit || size < self.required.max(1) {
            return Err(StateError::Size(format!(
                "block volumes and images are whole sectors of {SECTOR} bytes, an image has {SMALLEST_IMAGE} bytes at least, \
                 and no such size fits the range"
            )));
        }
        match (capacity, free) {
            (Some(capacity), _) if size > capacity => {
                Err(StateError::Size(format!("{size} bytes are more than all of --capacity, {capacity}")))
            }
            (_, Some(free)) if size > free => Err(StateError::Full { wanted: size, free: free.max(0) }),
            _ => Ok(size),
        }
    }

    fn holds(self, size: i64) -> bool {
        size >= self.required && self.limit.is_none_or(|limit| size <= limit)
    }
}

/// Saturates at the largest size there is.
const fn whole_sectors(bytes: i64) -> i64 {
    bytes.saturating_add(SECTOR - 1) / SECTOR * SECTOR
}

/// CSI `VolumeContentSource`.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum ContentSource {
    Snapshot(SnapshotId),
    /// Another volume of this driver.
    Volume(VolumeId),
}

impl fmt::Display for ContentSource {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            ContentSource::Snapshot(id) => write!(f, "snapshot {id}"),
            ContentSource::Volume(id) => write!(f, "volume {id}"),
        }
    }
}

/// A volume that is wanted.
#[derive(Clone, Debug, PartialEq)]
#[cfg_attr(test, derive(Default))]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) size: SizeRange,
    pub(crate) access: Access,
    pub(crate) parameters: BTreeMap<String, String>,
    pub(crate) mutable_parameters: BTreeMap<String, String>,
    pub(crate) source: Option<ContentSource>,
    /// Where to make it; none where volumes have no topology.
    pub(crate) place: Option<Topology>,
    /// All places where it may be; none means anywhere.
    pub(crate) requisite: Vec<Topology>,
}

impl Wanted {
    /// Why an existing volume of that name is not the wanted one (CSI "CreateVolume Errors", `ALREADY_EXISTS`). Mutable
    /// parameters may have been changed since it was made.
    pub(super) fn conflict_with(&self, record: &Record) -> Option<String> {
        if self.access != record.access {
            Some(format!("is a {} volume", record.access))
        } else if !self.size.holds(record.capacity_bytes) {
            Some(format!("has {} bytes", record.capacity_bytes))
        } else if self.parameters != record.parameters {
            Some("was created with other parameters".to_owned())
        } else if self.source != record.source {
            Some(
                record
                    .source
                    .as_ref()
                    .map_or("was created empty".to_owned(), |source| format!("is a copy of {source}")),
            )
        } else if !self.allows(record.place.as_ref()) {
            Some("is in none of the requisite topologies".to_owned())
        } else {
            None
        }
    }

    /// Whether a volume in that place is as good.
    fn allows(&self, place: Option<&Topology>) -> bool {
        self.requisite.is_empty() || place.is_none_or(|place| self.requisite.iter().any(|one| place.is_in(one)))
    }
}

/// A volume that exists. Secrets are no part of it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub(crate) struct Record {
    pub(super) format: u32,
    pub(crate) id: VolumeId,
    /// CSI `CreateVolumeRequest.name`.
    pub(crate) name: String,
    /// Counts creations; the order of `ListVolumes`.
    pub(crate) sequence: u64,
    pub(crate) capacity_bytes: i64,
    pub(crate) access: Access,
    /// As they were requested, to tell a repeated request from another one.
    pub(crate) parameters: BTreeMap<String, String>,
    /// As they are.
    #[serde(default, skip_serializing_if = "BTreeMap::is_empty")]
    pub(crate) mutable_parameters: BTreeMap<String, String>,
    /// What it was made of, which may be gone.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) source: Option<ContentSource>,
    /// Where it is; none in a record without topology.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub(crate) place: Option<Topology>,
    /// Where it is published to, in the order of the calls.
    #[serde(default, skip_serializing_if = "Vec::is_empty")]
    pub(crate) published: Vec<Publication>,
    /// Its deletion has begun; data may be gone in part.
    #[serde(default)]
    pub(crate) deleting: bool,
}

impl Record {
    pub(super) fn new(wanted: Wanted, sequence: u64, capacity_bytes: i64) -> Self {
        Self {
            format: FORMAT,
            id: VolumeId(Uuid::new_v4().to_string()),
            name: wanted.name,
            sequence,
            capacity_bytes,
            access: wanted.access,
            parameters: wanted.parameters,
            mutable_parameters: wanted.mutable_parameters,
            source: wanted.source,
            place: wanted.place,
            published: Vec::new(),
            deleting: false,
        }
    }

    pub(crate) fn published_nodes(&self) -> Vec<String> {
        self.published.iter().map(|one| one.node_id.to_string()).collect()
    }
}

impl Kept for Record {
    type Id = VolumeId;

    const KIND: &'static str = "volume";
    const RECORDS: &'static str = "volumes";
    const DATA: &'static str = "data";

    fn format(&self) -> u32 {
        self.format
    }

    fn id(&self) -> &VolumeId {
        &self.id
    }

    fn name(&self) -> &str {
        &self.name
    }

    fn sequence(&self) -> u64 {
        self.sequence
    }

    fn bytes(&self) -> i64 {
        self.capacity_bytes
    }

    fn access(&self) -> Access {
        self.access
    }

    fn is_deleting(&self) -> bool {
        self.deleting
    }

    fn deleting(&self) -> Self {
        Self { deleting: true, ..self.clone() }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn sizes_follow_the_range_the_sectors_and_the_capacity() {
        use Access::{Block, Image, Mount};
        const GIB: i64 = 1 << 30;
        const MIB: i64 = 1 << 20;
        let cases = [
            // required, limit, access, capacity, free → size or code
            (0, None, Mount, None, None, Ok(GIB)),
            (0, Some(10), Mount, None, None, Ok(10)),
            (0, Some(2 * GIB), Mount, None, None, Ok(GIB)),
            (7, None, Mount, None, None, Ok(7)),
            (7, Some(7), Mount, None, None, Ok(7)),
            (7, None, Block, None, None, Ok(512)),
            (512, Some(512), Block, None, None, Ok(512)),
            (513, Some(600), Block, None, None, Err(Code::OutOfRange)),
            (0, Some(600), Block, None, None, Ok(512)),
            (0, None, Block, Some(100), Some(100), Err(Code::OutOfRange)),
            (0, None, Block, Some(1024), Some(100), Err(Code::ResourceExhausted)),
            (0, Some(100), Block, None, None, Err(Code::OutOfRange)),
            (i64::MAX - 600, None, Block, None, None, Ok(i64::MAX - 511)),
            (i64::MAX, None, Block, None, None, Err(Code::OutOfRange)),
            (0, None, Image, None, None, Ok(GIB)),
            (0, Some(400 * MIB), Image, None, None, Ok(400 * MIB)),
            (1, None, Image, None, None, Ok(300 * MIB)),
            (400 * MIB + 1, None, Image, None, None, Ok(400 * MIB + 512)),
            (1, Some(MIB), Image, None, None, Err(Code::OutOfRange)),
            (0, Some(MIB), Image, None, None, Err(Code::OutOfRange)),
            (0, None, Image, Some(GIB), Some(MIB), Err(Code::ResourceExhausted)),
            (10, None, Mount, Some(10), Some(10), Ok(10)),
            (11, None, Mount, Some(10), Some(10), Err(Code::OutOfRange)),
            (10, None, Mount, Some(10), Some(9), Err(Code::ResourceExhausted)),
            (0, None, Mount, Some(10), Some(4), Ok(4)),
            (0, None, Mount, Some(10), Some(0), Err(Code::ResourceExhausted)),
        ];
        for (required, limit, access, capacity, free, expected) in cases {
            let size = SizeRange { required, limit }.choose(access, capacity, free);
            let size = size.map_err(|error| Status::from(error).code());
            assert_eq!(size, expected, "{required} {limit:?} {access} of {capacity:?}, {free:?} free");
        }
    }

    #[test]
    fn a_volume_is_as_large_as_its_source() {
        let cases = [
            // required, limit, source → size or code
            (0, None, 7, Ok(7)),
            (5, None, 7, Ok(7)),
            (9, None, 7, Ok(9)),
            (5, Some(7), 7, Ok(7)),
            (5, Some(6), 7, Err(Code::OutOfRange)),
        ];
        for (required, limit, source, expected) in cases {
            let size = SizeRange { required, limit }.of_at_least(source);
            let size = size.and_then(|size| size.choose(Access::Mount, None, None));
            assert_eq!(size.map_err(|error| Status::from(error).code()), expected, "{required} {limit:?} {source}");
        }
    }

    #[test]
    fn a_repeated_request_fits_and_another_one_does_not() {
        let here = Topology::parse(&["zone=a".to_owned()]).unwrap();
        let wanted = Wanted {
            name: "a".to_owned(),
            size: SizeRange { required: 5, limit: Some(9) },
            parameters: BTreeMap::from([("tier".to_owned(), "fast".to_owned())]),
            mutable_parameters: BTreeMap::from([("iops".to_owned(), "5".to_owned())]),
            source: Some(ContentSource::Volume(VolumeId::from("v"))),
            place: Some(here.clone()),
            requisite: vec![here],
            ..Wanted::default()
        };
        let record = Record::new(wanted.clone(), 0, 5);
        let fits = |change: fn(&mut Wanted)| {
            let mut wanted = wanted.clone();
            change(&mut wanted);
            wanted.conflict_with(&record).is_none()
        };
        assert!(fits(|_| {}));
        assert!(fits(|wanted| wanted.size = SizeRange { required: 0, limit: None }));
        assert!(fits(|wanted| wanted.size = SizeRange { required: 1, limit: Some(5) }));
        assert!(!fits(|wanted| wanted.size = SizeRange { required: 6, limit: None }));
        assert!(!fits(|wanted| wanted.size = SizeRange { required: 0, limit: Some(4) }));
        assert!(!fits(|wanted| wanted.access = Access::Block));
        assert!(!fits(|wanted| wanted.parameters.clear()));
        assert!(!fits(|wanted| wanted.source = None));
        assert!(!fits(|wanted| wanted.source = Some(ContentSource::Snapshot(SnapshotId::from("v")))));
        assert!(!fits(|wanted| wanted.requisite = vec![Topology::parse(&["zone=b".to_owned()]).unwrap()]));
        assert!(fits(|wanted| wanted.requisite.clear()));
        assert!(fits(|wanted| wanted.mutable_parameters.clear()));
    }
}
