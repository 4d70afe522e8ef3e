//! `Pod`, as far as the claims it uses go.

use k8s_openapi::{api::core::v1 as full, apimachinery::pkg::apis::meta::v1::ObjectMeta};
use kube::Resource;
use serde::Deserialize;

use super::{metadata::slim, presence::null_as_default};

/// A pod and the claims of its volumes, read-only.
#[derive(Clone, Debug, Deserialize, Resource)]
#[resource(inherit = full::Pod)]
pub struct PodClaims {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// What it is.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: PodClaimsSpec,
    /// How it is.
    #[serde(default, deserialize_with = "null_as_default")]
    status: PodStatus,
}

/// `spec` of a pod.
#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
pub struct PodClaimsSpec {
    #[serde(deserialize_with = "null_as_default")]
    volumes: Vec<PodVolume>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct PodVolume {
    persistent_volume_claim: Option<ClaimSource>,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default, rename_all = "camelCase")]
struct ClaimSource {
    claim_name: String,
}

#[derive(Clone, Debug, Default, Deserialize)]
#[serde(default)]
struct PodStatus {
    #[serde(deserialize_with = "null_as_default")]
    phase: String,
}

impl PodClaims {
    /// Names of the claims in `spec.volumes`, without those that are made for the pod.
    pub fn claims(&self) -> impl Iterator<Item = &str> {
        self.spec.volumes.iter().filter_map(|volume| Some(volume.persistent_volume_claim.as_ref()?.claim_name.as_str()))
    }

    /// Whether it has ended for good (`status.phase`).
    pub fn has_ended(&self) -> bool {
        matches!(self.status.phase.as_str(), "Succeeded" | "Failed")
    }
}
