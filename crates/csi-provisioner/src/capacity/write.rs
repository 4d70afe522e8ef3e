//! The requests about CSIStorageCapacity objects.
//!
//! An object is changed by a patch that carries its UID and only what is to change: labels, annotations and owners of
//! others stay as they are, and an object made anew under the name is not touched. Where a Role grants `update` and not `patch`
//! the object is read and written whole. An owner that the API server refuses does not hold up the number.

use std::sync::atomic::{AtomicBool, Ordering};

use controller_runtime::Projection as _;
use kube::Client;
use kube::api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions};
use kube::core::Request;
use kube::{Error, api::GetParams};
use serde_json::Value;
use storage_kube::names::CapacityName;
use storage_kube::uid::Uid;
use storage_kube::wire::CsiStorageCapacity;
use tracing::warn;

use super::body::{Changes, new_object, patch, replacement};
use super::item::{Amounts, Item};
use super::owner::Owner;
use super::place::Place;
use crate::records::{CapacityProjection, CapacityRecord};

/// Writes objects of this provisioner, within its budget and while the term's gate is open.
pub(crate) struct Writer {
    pub(crate) api: Client,
    pub(crate) place: Place,
    pub(crate) owner: Option<Owner>,
    /// How answers are read.
    pub(crate) projection: CapacityProjection,
    pub(crate) refused: Refused,
}

/// What the API server has refused in this term, and is not asked for again.
#[derive(Debug, Default)]
pub(crate) struct Refused {
    /// To patch: usually the Role lacks the verb.
    patch: AtomicBool,
    /// The owner that the objects should have.
    owner: AtomicBool,
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
        let owner = self.owner.as_ref().filter(|_| !self.refused.owner.load(Ordering::Relaxed));
        let changes = Changes::of(object, amounts, owner);
        match self.change(object, &changes).await {
            Err(Error::Api(status)) if status.code == 422 && changes.has_owner() => {
                warn!(object = %object.name, err = %status, "the API server refuses the owner of a CSIStorageCapacity: objects are written without it in this term");
                self.refused.owner.store(true, Ordering::Relaxed);
                self.change(object, &changes.without_owner()).await
            }
            answer => answer,
        }
    }

    async fn change(&self, object: &CapacityRecord, changes: &Changes<'_>) -> Result<Option<CapacityRecord>, Error> {
        if changes.is_empty() {
            return Ok(Some(object.clone()));
        }
        if self.refused.patch.load(Ordering::Relaxed) {
            return self.replace(object, changes).await;
        }
        let patch = Patch::Strategic(patch(object, changes));
        let request = self.request().patch(object.name.as_str(), &PatchParams::default(), &patch);
        let request = request.map_err(Error::BuildRequest)?;
        match self.api.request::<CsiStorageCapacity>(request).await {
            Ok(changed) => Ok(self.projection.project(changed)),
            Err(Error::Api(status)) if status.code == 403 => {
                warn!(err = %status, "a PATCH of a CSIStorageCapacity is forbidden, objects are read and written whole: grant the verb patch to save a request each");
                self.refused.patch.store(true, Ordering::Relaxed);
                self.replace(object, changes).await
            }
            Err(error) => Err(error),
        }
    }

    async fn replace(&self, object: &CapacityRecord, changes: &Changes<'_>) -> Result<Option<CapacityRecord>, Error> {
        let name = object.name.as_str();
        let request = self.request().get(name, &GetParams::default()).map_err(Error::BuildRequest)?;
        let live: Value = self.api.request(request).await?;
        let Some(body) = replacement(object, live, changes) else { return Ok(None) };
        let body = serde_json::to_vec(&body).map_err(Error::SerdeError)?;
        let request = self.request().replace(name, &PostParams::default(), body).map_err(Error::BuildRequest)?;
        Ok(self.projection.project(self.api.request::<CsiStorageCapacity>(request).await?))
    }

    /// Deletes exactly this object; one that is gone, or that was made anew under the name, is no error.
    pub(crate) async fn delete(&self, name: &CapacityName, uid: &Uid) -> Result<(), Error> {
        let preconditions = Preconditions { uid: Some(uid.to_string()), resource_version: None };
        let parameters = DeleteParams { preconditions: Some(preconditions), ..DeleteParams::default() };
        let request = self.request().delete(name.as_str(), &parameters).map_err(Error::BuildRequest)?;
        match self.api.request_text(request).await {
            Ok(_) => Ok(()),
            Err(Error::Api(status)) if status.code == 404 => Ok(()),
            // Another UID, or the refusal of an admission webhook.
            Err(Error::Api(status)) if status.code == 409 => match self.get(name).await? {
                Some(live) if live.uid == *uid => Err(Error::Api(status)),
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
