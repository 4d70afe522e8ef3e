//! `ReferenceGrant` (gateway.networking.k8s.io/v1beta1).

use k8s_openapi::apimachinery::pkg::apis::meta::v1::ObjectMeta;
use serde::Deserialize;

use super::{
    custom::{Namespaced, custom_resource},
    metadata::slim,
    presence::null_as_default,
};

/// Permission to name objects of this namespace from others, read-only.
#[derive(Clone, Debug, Deserialize)]
pub struct ReferenceGrant {
    /// Only the fields rules read, see the module.
    #[serde(deserialize_with = "slim")]
    pub metadata: ObjectMeta,
    /// Who may name what.
    #[serde(default, deserialize_with = "null_as_default")]
    pub spec: ReferenceGrantSpec,
}
custom_resource!(ReferenceGrant, "gateway.networking.k8s.io", "v1beta1", "referencegrants", Namespaced);

/// `spec` of a grant: each of `from` may name each of `to`.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct ReferenceGrantSpec {
    /// Who.
    #[serde(deserialize_with = "null_as_default")]
    pub from: Vec<GrantedFrom>,
    /// What.
    #[serde(deserialize_with = "null_as_default")]
    pub to: Vec<GrantedTo>,
}

/// Objects of one kind in one namespace, which may refer.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrantedFrom {
    /// API group; empty is core.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// Their namespace.
    pub namespace: String,
}

/// Objects of one kind, which may be referred to.
#[derive(Clone, Debug, Default, PartialEq, Eq, Deserialize)]
#[serde(default)]
pub struct GrantedTo {
    /// API group; empty is core.
    pub group: String,
    /// Their kind.
    pub kind: String,
    /// One of them; absent or empty means all.
    pub name: Option<String>,
}
