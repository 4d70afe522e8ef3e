//! `--node-deployment`: objects of nodes that are gone.
//!
//! The DaemonSet that owns the objects stays when a node goes, and the process that looked after them went with the node. So
//! each process looks for such objects, seldom and at a time of its own: a thousand processes read all objects and the
//! names of all nodes less than once in three seconds together.

use std::collections::HashSet;
use std::time::Duration;

use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSIStorageCapacity;
use kube::api::ListParams;
use kube::core::{ObjectList, PartialObjectMeta, Request};
use kube::{Client, Error};
use storage_kube::names::{CapacityName, NodeName};
use storage_kube::uid::Uid;
use tokio::time::{Instant, MissedTickBehavior, interval_at};
use tracing::{info, warn};

use super::Capacity;
use super::managed_by::ManagedBy;
use crate::random::fraction;

const PERIOD: Duration = Duration::from_hours(1);
/// Objects per page.
const PAGE: u32 = 500;
const NODES: &str = "/api/v1/nodes";

/// Looks each [`PERIOD`], for ever.
pub(super) async fn delete_seldom(capacity: &Capacity, api: &Client) {
    let mut due = interval_at(Instant::now() + PERIOD.mul_f64(fraction()), PERIOD);
    due.set_missed_tick_behavior(MissedTickBehavior::Delay);
    loop {
        due.tick().await;
        if let Err(error) = delete(capacity, api).await {
            warn!(err = %error, "CSIStorageCapacity objects of nodes that are gone are not all deleted, tried again in an hour; this needs list of nodes, and list and delete of csistoragecapacities");
        }
    }
}

async fn delete(capacity: &Capacity, api: &Client) -> Result<(), Error> {
    let own = &capacity.process.projection.managed_by;
    let mut left = Vec::new();
    // The objects first: a node that joins meanwhile is among those found after them.
    let objects = ListParams::default().labels(&own.selector_of_driver());
    pages::<CSIStorageCapacity>(api, &capacity.writer.place.path(), objects, |object| {
        let labels = object.metadata.labels.unwrap_or_default();
        if let Some(by) = own.other_node(&labels)
            && let (Some(name), Some(uid)) = (object.metadata.name, object.metadata.uid)
        {
            left.push((by.to_owned(), CapacityName::from(name.as_str()), Uid::from(uid.as_str())));
        }
    })
    .await?;
    if left.is_empty() {
        return Ok(());
    }
    let mut there = HashSet::new();
    pages::<Node>(api, NODES, ListParams::default(), |node| {
        if let Some(name) = node.metadata.name {
            there.insert(ManagedBy::new("", Some(&NodeName::from(name.as_str()))).provisioner().to_owned());
        }
    })
    .await?;
    for (_, name, uid) in left.iter().filter(|(by, ..)| !there.contains(by)) {
        capacity.writer.delete(name, uid).await?;
        info!(object = %name, "CSIStorageCapacity deleted: its node is gone");
    }
    Ok(())
}

/// Goes through the metadata of a collection page by page.
async fn pages<K>(
    api: &Client,
    path: &str,
    params: ListParams,
    mut each: impl FnMut(PartialObjectMeta<K>),
) -> Result<(), Error>
where
    K: Clone,
{
    let mut params = params.limit(PAGE);
    loop {
        let request = Request::new(path).list_metadata(&params).map_err(Error::BuildRequest)?;
        let page: ObjectList<PartialObjectMeta<K>> = api.request(request).await?;
        page.items.into_iter().for_each(&mut each);
        match page.metadata.continue_.filter(|more| !more.is_empty()) {
            Some(more) => params = params.continue_token(&more),
            None => return Ok(()),
        }
    }
}
