//! A claim as the source of another: its volume is cloned.

use csi_proto::csi::v1::VolumeContentSource;
use csi_proto::csi::v1::volume_content_source::{Type, VolumeSource};
use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use kube::{Api, Client};
use storage_kube::names::{ClaimName, Namespace};
use storage_kube::uid::Uid;
use storage_kube::volume_mode::VolumeMode;
use storage_kube::wire::{ClaimPhase, PersistentVolume, PersistentVolumeClaim, VolumePhase};
use storage_kube::{finalizers, quantity};
use thiserror::Error;

use super::{ContentSourceError, Found, Wanted, read};
use crate::data_source::SourceKey;

/// What keeps a claim from being cloned.
#[derive(Debug, Error)]
pub(crate) enum CloneProblem {
    #[error("there is no such claim: create it, or name another")]
    Missing,
    #[error("its phase is {phase}, and only a Bound claim can be cloned: wait until it is, or name another")]
    NotBound { phase: String },
    #[error("it is being deleted: name another claim")]
    Deleting,
    #[error("it has no storageClassName: name a claim that has")]
    SourceWithoutClass,
    #[error("the claim that is to be filled has no storageClassName: give it one")]
    ClaimWithoutClass,
    #[error("its size cannot be read: {0}")]
    Size(#[from] quantity::Error),
    #[error("it asks for {source_bytes} bytes, and the new claim for {requested} only: ask for at least as much")]
    TooSmall { requested: i64, source_bytes: i64 },
    #[error("it names no volume yet: wait until it is bound")]
    NoVolume,
    #[error("its volume {volume} is not there: name another claim")]
    VolumeMissing { volume: String },
    #[error("its volume {volume} is not a CSI volume: name another claim")]
    NotCsi { volume: String },
    #[error(
        "its volume {volume} is of {driver}, and the StorageClass of the new claim of {provisioner}: use a class of the same driver"
    )]
    OtherDriver { volume: String, driver: String, provisioner: String },
    #[error("its volume {volume} is bound to another claim: see what spec.claimRef of the volume says")]
    VolumeOfAnother { volume: String },
    #[error("the phase of its volume {volume} is {phase}, and must be Bound")]
    VolumeNotBound { volume: String, phase: String },
    #[error("its volume {volume} has mode {source_mode}, and the new claim {mode}: they must be the same")]
    Mode { volume: String, source_mode: VolumeMode, mode: VolumeMode },
}

/// Reads the claim and its volume, and checks both.
pub(super) async fn lookup(
    client: &Client,
    namespace: &Namespace,
    name: &ClaimName,
    wanted: Wanted<'_>,
) -> Result<Found, ContentSourceError> {
    let key = SourceKey::Claim(namespace.clone(), name.clone());
    let refused = |problem| ContentSourceError::Clone { key: key.clone(), problem };
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), namespace.as_str());
    let claim = read(claims, name.as_str(), || key.to_string()).await?;
    let claim = claim.ok_or_else(|| refused(CloneProblem::Missing))?;
    let volume_name = check_claim(wanted, &claim).map_err(refused)?;
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = read(volumes, volume_name, || format!("PersistentVolume {volume_name}")).await?;
    let volume_id = check_volume(wanted, &claim, volume_name, volume.as_ref()).map_err(refused)?;
    Ok(Found {
        content: VolumeContentSource { r#type: Some(Type::Volume(VolumeSource { volume_id })) },
        uid: Uid::from(claim.metadata.uid.as_deref().unwrap_or_default()),
        protected: is_protected(&claim.metadata),
        deleting: claim.metadata.deletion_timestamp.is_some(),
    })
}

/// What the source claim alone says, in the order of the Go provisioner; its volume's name.
///
/// One that is being deleted can still be cloned while it carries our finalizer, as a snapshot can be restored: it waits for
/// a clone, and a clone that a restart has interrupted must be able to go on.
pub(crate) fn check_claim<'a>(wanted: Wanted<'_>, source: &'a PersistentVolumeClaim) -> Result<&'a str, CloneProblem> {
    if source.status.phase != Some(ClaimPhase::Bound) {
        let phase = source.status.phase.map_or_else(|| "not set".to_owned(), |phase| phase.to_string());
        return Err(CloneProblem::NotBound { phase });
    }
    if source.metadata.deletion_timestamp.is_some() && !is_protected(&source.metadata) {
        return Err(CloneProblem::Deleting);
    }
    if source.spec.storage_class_name.is_none() {
        return Err(CloneProblem::SourceWithoutClass);
    }
    if wanted.claim.class_label.is_empty() {
        return Err(CloneProblem::ClaimWithoutClass);
    }
    let source_bytes = source.spec.resources.requests.storage.as_deref().map_or(Ok(0), quantity::bytes)?;
    if wanted.requested_bytes < source_bytes {
        return Err(CloneProblem::TooSmall { requested: wanted.requested_bytes, source_bytes });
    }
    source.spec.volume_name.as_deref().filter(|name| !name.is_empty()).ok_or(CloneProblem::NoVolume)
}

/// What the volume of the source claim says, in the order of the Go provisioner; the driver's id of it.
pub(crate) fn check_volume(
    wanted: Wanted<'_>,
    source: &PersistentVolumeClaim,
    name: &str,
    volume: Option<&PersistentVolume>,
) -> Result<String, CloneProblem> {
    let name = || name.to_owned();
    let Some(volume) = volume else { return Err(CloneProblem::VolumeMissing { volume: name() }) };
    let Some(csi) = &volume.spec.csi else { return Err(CloneProblem::NotCsi { volume: name() }) };
    if csi.driver != wanted.provisioner {
        return Err(CloneProblem::OtherDriver {
            volume: name(),
            driver: csi.driver.clone(),
            provisioner: wanted.provisioner.to_owned(),
        });
    }
    let is_of_source = volume.spec.claim_ref.as_ref().is_some_and(|claim| {
        claim.uid.is_some()
            && claim.uid == source.metadata.uid
            && Some(&claim.namespace) == source.metadata.namespace.as_ref()
            && Some(&claim.name) == source.metadata.name.as_ref()
    });
    if !is_of_source {
        return Err(CloneProblem::VolumeOfAnother { volume: name() });
    }
    if volume.status.phase != Some(VolumePhase::Bound) {
        let phase = volume.status.phase.map_or_else(|| "not set".to_owned(), |phase| phase.to_string());
        return Err(CloneProblem::VolumeNotBound { volume: name(), phase });
    }
    // Of the volume and not of the claim: the volume is what is copied.
    let source_mode = volume.spec.volume_mode.unwrap_or(VolumeMode::Filesystem);
    let mode = wanted.claim.volume_mode.unwrap_or(VolumeMode::Filesystem);
    if source_mode != mode {
        return Err(CloneProblem::Mode { volume: name(), source_mode, mode });
    }
    Ok(csi.volume_handle.clone())
}

fn is_protected(metadata: &ObjectMeta) -> bool {
    metadata.finalizers.as_deref().is_some_and(|all| finalizers::contains(all, finalizers::CLONE_SOURCE_PROTECTION))
}
