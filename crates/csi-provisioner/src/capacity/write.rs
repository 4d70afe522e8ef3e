//! The requests about CSIStorageCapacity objects, and their bodies.
//!
//! An object is changed by a patch that carries its UID and only what is to change: labels, annotations and owners of
//! others stay as they are, and an object made anew under the name is not touched.

use controller_runtime::Projection as _;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Error, api::GetParams};
use serde_json::{Map, Value, json};
use storage_kube::names::CapacityName;
use storage_kube::quantity;
use storage_kube::wire::CsiStorageCapacity;

use super::item::{Amounts, Item};
use super::managed_by::ManagedBy;
use super::owner::Owner;
use super::place::Place;
use crate::records::{CapacityProjection, CapacityRecord};

/// Writes objects of this provisioner, within its budget and while the term's gate is open.
#[derive(Clone)]
pub(crate) struct Writer {
    pub(crate) api: Client,
    pub(crate) place: Place,
    pub(crate) owner: Option<Owner>,
    /// How answers are read.
    pub(crate) projection: CapacityProjection,
}

impl Writer {
    /// The new object; `None` when somebody has taken its labels away on the way.
    pub(crate) async fn create(&self, item: &Item, amounts: Amounts) -> Result<Option<CapacityRecord>, Error> {
        let body = new_object(&self.place, &self.projection.managed_by, self.owner.as_ref(), item, amounts);
        let body = serde_json::to_vec(&body).map_err(Error::SerdeError)?;
        let request = self.request().create(&PostParams::default(), body).map_err(Error::BuildRequest)?;
        Ok(self.projection.project(self.api.request::<CsiStorageCapacity>(request).await?))
    }

    /// The changed object; `None` when it is not ours any more.
    pub(crate) async fn update(
        &self,
        object: &CapacityRecord,
        amounts: Amounts,
    ) -> Result<Option<CapacityRecord>, Error> {
        let patch = Patch::Strategic(change(object, self.owner.as_ref(), amounts));
        let request = self.request().patch(object.name.as_str(), &PatchParams::default(), &patch);
        let request = request.map_err(Error::BuildRequest)?;
        Ok(self.projection.project(self.api.request::<CsiStorageCapacity>(request).await?))
    }

    /// Deletes exactly this object; one that is gone, or that was made anew under the name, is no error.
    pub(crate) async fn delete(&self, object: &CapacityRecord) -> Result<(), Error> {
        let preconditions = Preconditions { uid: Some(object.uid.to_string()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = self.request().delete(object.name.as_str(), &parameters).map_err(Error::BuildRequest)?;
        match self.api.request_text(request).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            // Another UID, or the refusal of an admission webhook.
            Err(Error::Api(status)) if status.code == 409 => match self.get(&object.name).await? {
                Some(live) if live.uid == object.uid => Err(Error::Api(status)),
                Some(_) | None => Ok(()),
            },
            Err(error) => Err(error),
        }
    }

    /// The object as it is now; `None` when it is gone or not ours any more.
    pub(crate) async fn get(&self, name: &CapacityName) -> Result<Option<CapacityRecord>, Error> {
        let request = self.request().get(name.as_str(), &GetParams::default()).map_err(Error::BuildRequest)?;
        match self.api.request::<CsiStorageCapacity>(request).await {
            Ok(object) => Ok(self.projection.project(object)),
            Err(Error::Api(status)) if status.code == 404 => Ok(None),
            Err(error) => Err(error),
        }
    }

    fn request(&self) -> Request {
        Request::new(self.place.path())
    }
}

fn new_object(place: &Place, managed_by: &ManagedBy, owner: Option<&Owner>, item: &Item, amounts: Amounts) -> Value {
    let labels: Map<String, Value> =
        managed_by.labels().into_iter().map(|(key, value)| (key.to_owned(), json!(value))).collect();
    let mut metadata = json!({ "generateName": "csisc-", "namespace": place.namespace.as_str(), "labels": labels });
    if let Some(owner) = owner {
        metadata["ownerReferences"] = json!([owner.reference()]);
    }
    let match_labels: Map<String, Value> = item
        .segment
        .iter()
        .flat_map(|segment| segment.iter())
        .map(|(key, value)| (key.to_owned(), json!(value)))
        .collect();
    let topology = if match_labels.is_empty() { json!({}) } else { json!({ "matchLabels": match_labels }) };
    let mut object = json!({
        "apiVersion": place.api_version(),
        "kind": "CSIStorageCapacity",
        "metadata": metadata,
        "storageClassName": item.class.as_str(),
        "nodeTopology": topology,
        "capacity": quantity::from_bytes_binary_si(amounts.capacity),
    });
    if let Some(maximum) = amounts.maximum {
        object["maximumVolumeSize"] = json!(quantity::from_bytes_binary_si(maximum));
    }
    object
}

/// A strategic merge patch: an owner is added to those there are.
fn change(object: &CapacityRecord, owner: Option<&Owner>, amounts: Amounts) -> Value {
    let mut patch = json!({ "metadata": { "uid": object.uid.to_string() } });
    if object.amounts != Some(amounts) {
        patch["capacity"] = json!(quantity::from_bytes_binary_si(amounts.capacity));
        patch["maximumVolumeSize"] = json!(amounts.maximum.map(quantity::from_bytes_binary_si));
    }
    if let Some(owner) = owner
        && !object.owned
    {
        patch["metadata"]["ownerReferences"] = json!([owner.reference()]);
    }
    patch
}
