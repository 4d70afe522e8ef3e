//! The RPCs of snapshots.

use csi_proto::csi::v1 as csi;
use prost_types::Timestamp;
use tonic::Status;

use crate::capabilities::Capability;
use crate::controller::page::{self, Page};
use crate::controller::{ControllerService, create_volume, volume_id};
use crate::state::{Snapshot, SnapshotId, StateError, VolumeId};

impl ControllerService {
    pub(super) async fn create_snapshot(
        &self,
        request: &csi::CreateSnapshotRequest,
    ) -> Result<csi::CreateSnapshotResponse, Status> {
        self.require(Capability::CreateDeleteSnapshot)?;
        create_volume::check_name(&request.name)?;
        let volume = volume_id("source_volume_id", &request.source_volume_id)?;
        if request.accessibility_requirements.is_some() {
            return Err(Status::invalid_argument("accessibility_requirements of snapshots are not supported"));
        }
        let snapshot = self.snapshots.create(&request.name, &volume, &self.volumes).await?;
        Ok(csi::CreateSnapshotResponse { snapshot: Some(described(&snapshot)) })
    }

    pub(super) async fn delete_snapshot(
        &self,
        request: &csi::DeleteSnapshotRequest,
    ) -> Result<csi::DeleteSnapshotResponse, Status> {
        self.require(Capability::CreateDeleteSnapshot)?;
        self.snapshots.delete(&snapshot_id(&request.snapshot_id)?).await?;
        Ok(csi::DeleteSnapshotResponse {})
    }

    /// An id of a snapshot or a volume that does not exist is no error: nothing is listed.
    pub(super) fn list_snapshots(
        &self,
        request: &csi::ListSnapshotsRequest,
    ) -> Result<csi::ListSnapshotsResponse, Status> {
        self.require(Capability::ListSnapshots)?;
        let page = Page::of(request.max_entries, &request.starting_token)?;
        let volume = given(&request.source_volume_id).map(VolumeId::from);
        let (snapshots, next) = match given(&request.snapshot_id) {
            Some(id) => {
                let found = self.snapshots.get(&SnapshotId::from(id));
                let found = found.filter(|found| volume.as_ref().is_none_or(|volume| found.volume == *volume));
                (found.into_iter().collect(), None)
            }
            None => self.snapshots.list(page.after, page.limit, volume.as_ref())?,
        };
        let entry = |snapshot| csi::list_snapshots_response::Entry { snapshot: Some(snapshot) };
        Ok(csi::ListSnapshotsResponse {
            entries: snapshots.iter().map(|snapshot| entry(described(snapshot))).collect(),
            next_token: next.map(page::token).unwrap_or_default(),
        })
    }

    pub(super) fn get_snapshot(&self, request: &csi::GetSnapshotRequest) -> Result<csi::GetSnapshotResponse, Status> {
        self.require(Capability::GetSnapshot)?;
        let id = snapshot_id(&request.snapshot_id)?;
        let missing = || StateError::NotFound { kind: "snapshot", id: id.to_string() };
        let snapshot = self.snapshots.get(&id).ok_or_else(missing)?;
        Ok(csi::GetSnapshotResponse { snapshot: Some(described(&snapshot)) })
    }
}

fn described(snapshot: &Snapshot) -> csi::Snapshot {
    const SECOND: i64 = 1_000_000_000;
    let nanos = snapshot.taken_unix_nanos;
    let created = Timestamp {
        seconds: nanos.div_euclid(SECOND),
        nanos: i32::try_from(nanos.rem_euclid(SECOND)).unwrap_or_default(),
    };
    csi::Snapshot {
        size_bytes: snapshot.size_bytes,
        snapshot_id: snapshot.id.to_string(),
        source_volume_id: snapshot.volume.to_string(),
        creation_time: Some(created),
        ready_to_use: true,
        ..csi::Snapshot::default()
    }
}

fn snapshot_id(id: &str) -> Result<SnapshotId, Status> {
    given(id).map(SnapshotId::from).ok_or_else(|| Status::invalid_argument("snapshot_id is required"))
}

fn given(id: &str) -> Option<&str> {
    (!id.is_empty()).then_some(id)
}
