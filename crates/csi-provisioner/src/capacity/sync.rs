//! One item, from its key to its object: load, ask, decide, write.

use std::sync::Arc;

use controller_runtime::Outcome;
use csi_client::CallError;
use csi_proto::csi::v1::{GetCapacityRequest, Topology};
use storage_kube::topology::Segment;
use tokio::time::Instant;
use tracing::{debug, info};

use super::Capacity;
use super::decision::{Keep, decide};
use super::error::CapacityError;
use super::item::{Amounts, Item};
use crate::records::{CapacityRecord, ClassRecord};
use crate::still_wanted::until_drained;
use crate::term_context::TermContext;

/// Brings the object of one item as far as it will go now.
pub(crate) async fn sync_item(term: Arc<TermContext>, item: Item) -> Outcome {
    let Some(capacity) = &term.capacity else { return Outcome::Done };
    match reconcile(&term, capacity, &item).await {
        Ok(()) => Outcome::Done,
        Err(error) => {
            error.report(&item);
            Outcome::Retry
        }
    }
}

async fn reconcile(term: &TermContext, capacity: &Capacity, item: &Item) -> Result<(), CapacityError> {
    let amounts = match subject(term, capacity, item) {
        Some((class, segment)) => Some(ask(term, capacity, &class, segment).await?),
        None => None,
    };
    // Asked again: the call takes its time.
    let wanted = amounts.filter(|_| capacity.desired.lock().contains(item));
    let decision = decide(wanted, objects(capacity, item).await?);
    for object in decision.surplus {
        delete(capacity, item, &object).await?;
    }
    match decision.keep {
        Keep::Nothing => Ok(()),
        Keep::Create(amounts) => create(capacity, item, amounts).await,
        Keep::Update(object, amounts) => update(capacity, item, &object, amounts).await,
    }
}

/// Class and segment, if there should be an object.
fn subject(term: &TermContext, capacity: &Capacity, item: &Item) -> Option<(Arc<ClassRecord>, Arc<Segment>)> {
    if !capacity.desired.lock().contains(item) {
        return None;
    }
    Some((term.caches.classes.get(&item.class)?, item.segment.clone()?))
}

/// One `GetCapacity`. Parameters go as they are in the class, reserved keys included: drivers may read them.
async fn ask(
    term: &TermContext,
    capacity: &Capacity,
    class: &ClassRecord,
    segment: Arc<Segment>,
) -> Result<Amounts, CapacityError> {
    let items = capacity.desired.lock().len();
    let slot = capacity.slots.enter(items).await;
    let request = GetCapacityRequest {
        parameters: class.parameters.clone().into_iter().collect(),
        accessible_topology: Some(Topology::from(&*segment)),
        ..GetCapacityRequest::default()
    };
    let sent = Instant::now();
    let answer = term.driver.provided(until_drained(term)).get_capacity(request).await;
    if answer.as_ref().err().is_none_or(CallError::was_sent) {
        slot.took(sent.elapsed());
    }
    Ok(answer?.into())
}

/// The objects that are known to be there.
async fn objects(capacity: &Capacity, item: &Item) -> Result<Vec<Arc<CapacityRecord>>, CapacityError> {
    if let Some(object) = capacity.own_writes.overdue(item) {
        let read = capacity.writer.get(&object.name).await;
        let read =
            read.map_err(|source| CapacityError::Read { name: object.name.clone(), source: Box::new(source) })?;
        match read {
            Some(read) => capacity.own_writes.remember(item, Arc::new(read)),
            None => capacity.own_writes.forget(item),
        }
    }
    Ok(capacity.own_writes.newest(item, capacity.cached(item)))
}

async fn create(capacity: &Capacity, item: &Item, amounts: Amounts) -> Result<(), CapacityError> {
    capacity.own_writes.sent(item);
    let created = capacity.writer.create(item, amounts).await;
    finish(capacity, item, created.map_err(|source| CapacityError::Create(Box::new(source))), Before::Nothing)?;
    debug!(%item, ?amounts, "storage capacity is published");
    Ok(())
}

async fn update(
    capacity: &Capacity,
    item: &Item,
    object: &Arc<CapacityRecord>,
    amounts: Amounts,
) -> Result<(), CapacityError> {
    let in_cache = capacity.objects.get(&object.name).is_some();
    let before = if in_cache { Before::Cached } else { Before::Unseen(Arc::clone(object)) };
    capacity.own_writes.sent(item);
    let updated = capacity.writer.update(object, amounts).await;
    let failed = |source| CapacityError::Update { name: object.name.clone(), source: Box::new(source) };
    finish(capacity, item, updated.map_err(failed), before)?;
    debug!(%item, ?amounts, "storage capacity has changed");
    Ok(())
}

/// What was known of the object that is written.
enum Before {
    Nothing,
    /// The cache had it.
    Cached,
    /// The cache did not have it yet.
    Unseen(Arc<CapacityRecord>),
}

/// Takes in the answer to a write, or that there is none; what happened beside it meanwhile is looked at next.
fn finish(
    capacity: &Capacity,
    item: &Item,
    answer: Result<Option<CapacityRecord>, CapacityError>,
    before: Before,
) -> Result<(), CapacityError> {
    let look_again = match (answer, before) {
        (Ok(Some(object)), before) => {
            let was_cached = matches!(before, Before::Cached);
            capacity.own_writes.answered(item, object, &capacity.cached(item), was_cached)
        }
        (Ok(None), _) => {
            capacity.own_writes.forget(item);
            true
        }
        (Err(error), before) => {
            match before {
                Before::Unseen(object) if !error.is_gone() => capacity.own_writes.remember(item, object),
                Before::Unseen(_) | Before::Cached | Before::Nothing => capacity.own_writes.forget(item),
            }
            return Err(error);
        }
    };
    if look_again {
        capacity.queue.add(item.clone());
    }
    Ok(())
}

async fn delete(capacity: &Capacity, item: &Item, object: &CapacityRecord) -> Result<(), CapacityError> {
    let deleted = capacity.writer.delete(&object.name, &object.uid).await;
    deleted.map_err(|source| CapacityError::Delete { name: object.name.clone(), source: Box::new(source) })?;
    info!(%item, object = %object.name, "CSIStorageCapacity deleted: it is not wanted any more, or there is an older one");
    Ok(())
}
