//! What is known of one volume, as it is kept on disk.

use std::collections::BTreeMap;
use std::fmt;

use serde::{Deserialize, Serialize};
use uuid::Uuid;

use crate::state::{Publication, VolumeError};

/// Version of the record format this driver writes.
pub(super) const FORMAT: u32 = 1;

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
#[serde(rename_all = "lowercase")]
pub(crate) enum Access {
    /// A directory.
    Mount,
    /// A sparse file, to be a loop device.
    Block,
}

impl fmt::Display for Access {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Access::Mount => "mount",
            Access::Block => "block",
        })
    }
}

/// CSI `capacity_range`, checked: bytes, 0 required means open, limit ≥ required.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct SizeRange {
    pub(crate) required: i64,
    pub(crate) limit: Option<i64>,
}

impl SizeRange {
    /// The size to give, with `capacity` bytes for all volumes and `free` of them left.
    pub(super) fn choose(self, access: Access, capacity: Option<i64>, free: Option<i64>) -> Result<i64, VolumeError> {
        let limit = self.limit.unwrap_or(i64::MAX);
        let size = match (self.required, access) {
            (0, Access::Mount) => DEFAULT_SIZE.min(limit).min(free.unwrap_or(i64::MAX).max(1)),
            (0, Access::Block) => DEFAULT_SIZE.min(limit).min(free.unwrap_or(i64::MAX).max(SECTOR)) / SECTOR * SECTOR,
            (required, Access::Mount) => required,
            (required, Access::Block) => whole_sectors(required),
        };
        if size > limit || size < self.required.max(1) {
            return Err(VolumeError::Size(format!(
                "block volumes are whole sectors of {SECTOR} bytes, and none fits the range"
            )));
        }
        match (capacity, free) {
            (Some(capacity), _) if size > capacity => {
                Err(VolumeError::Size(format!("{size} bytes are more than all of --capacity, {capacity}")))
            }
            (_, Some(free)) if size > free => Err(VolumeError::Full { wanted: size, free: free.max(0) }),
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

/// A volume that is wanted.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Wanted {
    pub(crate) name: String,
    pub(crate) size: SizeRange,
    pub(crate) access: Access,
    pub(crate) parameters: BTreeMap<String, String>,
}

impl Wanted {
    /// Why an existing volume of that name is not the wanted one (CSI "CreateVolume Errors", `ALREADY_EXISTS`).
    pub(super) fn conflict_with(&self, record: &Record) -> Option<String> {
        if self.access != record.access {
            Some(format!("is a {} volume", record.access))
        } else if !self.size.holds(record.capacity_bytes) {
            Some(format!("has {} bytes", record.capacity_bytes))
        } else if self.parameters != record.parameters {
            Some("was created with other parameters".to_owned())
        } else {
            None
        }
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
            published: Vec::new(),
            deleting: false,
        }
    }

    pub(crate) fn published_nodes(&self) -> Vec<String> {
        self.published.iter().map(|one| one.node_id.to_string()).collect()
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use tonic::{Code, Status};

    use super::*;

    #[test]
    fn sizes_follow_the_range_the_sectors_and_the_capacity() {
        use Access::{Block, Mount};
        const GIB: i64 = 1 << 30;
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
    fn a_repeated_request_fits_and_another_one_does_not() {
        let wanted = Wanted {
            name: "a".to_owned(),
            size: SizeRange { required: 5, limit: Some(9) },
            access: Access::Mount,
            parameters: BTreeMap::from([("tier".to_owned(), "fast".to_owned())]),
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
    }
}
