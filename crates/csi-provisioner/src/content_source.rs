//! The claim or snapshot that a volume is filled from: read live, checked, and told to the driver as CSI
//! `volume_content_source`.
//!
//! Looked up before the first `CreateVolume` alone. Once a call has gone out, its request is repeated whatever becomes of
//! the source.

pub(crate) mod clone;
pub(crate) mod reference_grant;
pub(crate) mod snapshot;

use std::fmt::Debug;

use csi_proto::csi::v1::VolumeContentSource;
use kube::{Api, Client, Error};
use serde::de::DeserializeOwned;
use storage_kube::uid::Uid;
use thiserror::Error as ThisError;

use crate::data_source::SourceKey;
use crate::records::ClaimRecord;
use crate::settings::Settings;

/// Why the source of a claim cannot be used (now). The claim is tried again: sources become ready, bound, permitted.
#[derive(Debug, ThisError)]
pub(crate) enum ContentSourceError {
    #[error("{key} cannot be cloned: {problem}")]
    Clone { key: SourceKey, problem: clone::CloneProblem },
    #[error("{key} cannot be restored: {problem}")]
    Snapshot { key: SourceKey, problem: Box<snapshot::SnapshotProblem> },
    #[error("{object} may not be read: allow get on {resource} in the RBAC rules of csi-provisioner ({reason})")]
    Forbidden { object: String, resource: String, reason: String },
    #[error("{object} could not be read: {source}; this may pass, else see whether the API server is well")]
    Unavailable { object: String, source: Box<Error> },
}

/// What the volume is to be, as far as its source has a say in it.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Wanted<'a> {
    pub(crate) claim: &'a ClaimRecord,
    /// `provisioner` of the claim's class as it is written there. Sources must be of the same: a class that still names an
    /// in-tree plugin can neither clone nor restore, as in the Go provisioner.
    pub(crate) provisioner: &'a str,
    /// Bytes; 0 when the claim asks for no size.
    pub(crate) requested_bytes: i64,
    /// `--prevent-volume-mode-conversion`.
    pub(crate) prevent_mode_conversion: bool,
}

impl<'a> Wanted<'a> {
    pub(crate) fn new(settings: &Settings, claim: &'a ClaimRecord, provisioner: &'a str, requested_bytes: i64) -> Self {
        Self { claim, provisioner, requested_bytes, prevent_mode_conversion: settings.flags.prevent_mode_conversion }
    }
}

/// A source that may be used.
#[derive(Debug)]
pub(crate) struct Found {
    /// For the driver.
    pub(crate) content: VolumeContentSource,
    /// Of the claim or snapshot that was looked at.
    pub(crate) uid: Uid,
    /// It carried our finalizer.
    pub(crate) protected: bool,
    /// It is being deleted, and kept by our finalizer.
    pub(crate) deleting: bool,
}

/// Reads the source and checks it.
pub(crate) async fn lookup(client: &Client, key: &SourceKey, wanted: Wanted<'_>) -> Result<Found, ContentSourceError> {
    match key {
        SourceKey::Claim(namespace, name) => clone::lookup(client, namespace, name, wanted).await,
        SourceKey::Snapshot(namespace, name) => snapshot::lookup(client, namespace, name, wanted).await,
    }
}

/// One GET; `None` when there is no such object. `object` is for messages.
async fn read<K>(api: Api<K>, name: &str, object: impl FnOnce() -> String) -> Result<Option<K>, ContentSourceError>
where
    K: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned,
{
    match api.get_opt(name).await {
        Ok(found) => Ok(found),
        Err(Error::Api(status)) if status.code == 403 => Err(ContentSourceError::Forbidden {
            object: object(),
            resource: K::plural(&()).into_owned(),
            reason: status.message.clone(),
        }),
        Err(source) => Err(ContentSourceError::Unavailable { object: object(), source: Box::new(source) }),
    }
}
