//! A snapshot as the source of a claim: it is restored.

use csi_proto::csi::v1::VolumeContentSource;
use csi_proto::csi::v1::volume_content_source::{SnapshotSource, Type};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use sidecar::flag_value::go_bool;
use storage_kube::names::{Namespace, SnapshotName};
use storage_kube::uid::Uid;
use storage_kube::volume_mode::VolumeMode;
use storage_kube::wire::{VolumeSnapshot, VolumeSnapshotContent};
use storage_kube::{annotations, finalizers, quantity};
use thiserror::Error;
use tracing::warn;

use super::{ContentSourceError, Found, Wanted, read};
use crate::data_source::SourceKey;

/// What keeps a snapshot from being restored.
#[derive(Debug, Error)]
pub(crate) enum SnapshotProblem {
    #[error("there is no such snapshot: create it, or name another")]
    Missing,
    #[error("it is being deleted: name another snapshot")]
    Deleting,
    #[error("it is not bound to a VolumeSnapshotContent yet: wait, and see its events if this stays so")]
    NotBound,
    #[error("its VolumeSnapshotContent {content} is not there: the snapshot is lost, name another")]
    ContentMissing { content: String },
    #[error(
        "its VolumeSnapshotContent {content} belongs to another snapshot: see what spec.volumeSnapshotRef of the content says"
    )]
    ContentOfAnother { content: String },
    #[error(
        "it is of CSI driver {driver}, and the StorageClass of the claim of {provisioner}: use a class of the same driver"
    )]
    OtherDriver { driver: String, provisioner: String },
    #[error("it is not ready to use: wait, and see its events if this stays so")]
    NotReady,
    #[error(
        "its VolumeSnapshotContent {content} has no snapshotHandle: wait, and see the events of the snapshot if this stays so"
    )]
    NoHandle { content: String },
    #[error("its restoreSize cannot be read: {0}")]
    Size(#[from] quantity::Error),
    #[error("the claim asks for no storage, and the snapshot needs {restore_bytes} bytes: ask for as much")]
    NoRequest { restore_bytes: i64 },
    #[error("the claim asks for {requested} bytes, and the snapshot needs {restore_bytes}: ask for as much")]
    TooSmall { requested: i64, restore_bytes: i64 },
    // The second half is what Kubernetes' own tests look for.
    #[error(
        "it was taken of a volume with mode {source_mode}, and the claim has {mode}: requested volume {claim} modifies the mode of the source \
         volume but does not have permission to do so. {annotation} annotation is not present on snapshotcontent {content}, or is not true"
    )]
    ModeConversion {
        source_mode: VolumeMode,
        mode: VolumeMode,
        claim: String,
        content: String,
        annotation: &'static str,
    },
}

/// Reads the snapshot and its content, and checks both.
pub(super) async fn lookup(
    client: &Client,
    namespace: &Namespace,
    name: &SnapshotName,
    wanted: Wanted<'_>,
) -> Result<Found, ContentSourceError> {
    let key = SourceKey::Snapshot(namespace.clone(), name.clone());
    let refused = |problem| ContentSourceError::Snapshot { key: key.clone(), problem: Box::new(problem) };
    let snapshots: Api<VolumeSnapshot> = Api::namespaced(client.clone(), namespace.as_str());
    let snapshot = read(snapshots, name.as_str(), || key.to_string()).await?;
    let snapshot = snapshot.ok_or_else(|| refused(SnapshotProblem::Missing))?;
    let content_name = check_snapshot(&snapshot).map_err(refused)?;
    let contents: Api<VolumeSnapshotContent> = Api::all(client.clone());
    let content = read(contents, content_name, || format!("VolumeSnapshotContent {content_name}")).await?;
    let snapshot_id = check_content(wanted, &snapshot, content_name, content.as_ref()).map_err(refused)?;
    Ok(Found {
        content: VolumeContentSource { r#type: Some(Type::Snapshot(SnapshotSource { snapshot_id })) },
        uid: Uid::from(snapshot.metadata.uid.as_deref().unwrap_or_default()),
        protected: is_protected(&snapshot.metadata),
        deleting: snapshot.metadata.deletion_timestamp.is_some(),
    })
}

/// What the snapshot alone says; the name of its content.
///
/// One that is being deleted can still be restored while it carries our finalizer: it waits for a restore.
pub(crate) fn check_snapshot(snapshot: &VolumeSnapshot) -> Result<&str, SnapshotProblem> {
    if snapshot.metadata.deletion_timestamp.is_some() && !is_protected(&snapshot.metadata) {
        return Err(SnapshotProblem::Deleting);
    }
    let status = snapshot.status.as_ref().ok_or(SnapshotProblem::NotBound)?;
    status.bound_volume_snapshot_content_name.as_deref().ok_or(SnapshotProblem::NotBound)
}

/// What snapshot and content say together, in the order of the Go provisioner; the driver's id of the snapshot.
pub(crate) fn check_content(
    wanted: Wanted<'_>,
    snapshot: &VolumeSnapshot,
    name: &str,
    content: Option<&VolumeSnapshotContent>,
) -> Result<String, SnapshotProblem> {
    let name = || name.to_owned();
    let Some(content) = content else { return Err(SnapshotProblem::ContentMissing { content: name() }) };
    let reference = &content.spec.volume_snapshot_ref;
    if reference.uid.is_none()
        || reference.uid != snapshot.metadata.uid
        || Some(&reference.namespace) != snapshot.metadata.namespace.as_ref()
        || Some(&reference.name) != snapshot.metadata.name.as_ref()
    {
        return Err(SnapshotProblem::ContentOfAnother { content: name() });
    }
    if content.spec.driver != wanted.provisioner {
        return Err(SnapshotProblem::OtherDriver {
            driver: content.spec.driver.clone(),
            provisioner: wanted.provisioner.to_owned(),
        });
    }
    let status = snapshot.status.as_ref().ok_or(SnapshotProblem::NotReady)?;
    if status.ready_to_use != Some(true) {
        return Err(SnapshotProblem::NotReady);
    }
    let handle = content.status.as_ref().and_then(|status| status.snapshot_handle.clone());
    let handle = handle.ok_or_else(|| SnapshotProblem::NoHandle { content: name() })?;
    if let Some(size) = status.restore_size.as_deref() {
        check_size(wanted, quantity::bytes(size)?)?;
    }
    if wanted.prevent_mode_conversion {
        check_mode(wanted, name(), content)?;
    }
    Ok(handle)
}

fn check_size(wanted: Wanted<'_>, restore_bytes: i64) -> Result<(), SnapshotProblem> {
    let requested = wanted.requested_bytes;
    if wanted.claim.requested.is_none() {
        return Err(SnapshotProblem::NoRequest { restore_bytes });
    }
    if requested < restore_bytes {
        return Err(SnapshotProblem::TooSmall { requested, restore_bytes });
    }
    if requested > restore_bytes {
        warn!(
            claim = wanted.claim.full_name(),
            requested, restore_bytes, "the volume is to be larger than the snapshot it is restored from"
        );
    }
    Ok(())
}

/// KEP-3141: who may write VolumeSnapshotContents may allow it. Where a mode is not known there is nothing to compare.
fn check_mode(wanted: Wanted<'_>, name: String, content: &VolumeSnapshotContent) -> Result<(), SnapshotProblem> {
    let (Some(source_mode), Some(mode)) = (content.spec.source_volume_mode, wanted.claim.volume_mode) else {
        return Ok(());
    };
    let annotation = annotations::ALLOW_VOLUME_MODE_CHANGE;
    let allowed = content.metadata.annotations.as_ref().and_then(|all| all.get(annotation));
    if source_mode == mode || allowed.is_some_and(|value| matches!(go_bool(value), Ok(true))) {
        return Ok(());
    }
    Err(SnapshotProblem::ModeConversion {
        source_mode,
        mode,
        claim: wanted.claim.full_name(),
        content: name,
        annotation,
    })
}

fn is_protected(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.as_deref().is_some_and(|all| finalizers::contains(all, finalizers::SNAPSHOT_SOURCE_PROTECTION))
}
