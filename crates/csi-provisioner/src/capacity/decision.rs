//! What to do about the objects of one item. Pure.

use std::cmp::Reverse;
use std::sync::Arc;

use super::item::Amounts;
use crate::records::CapacityRecord;
use crate::records::capacity::Ownership;

/// See the module.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Decision {
    pub(crate) keep: Keep,
    /// To be deleted: not wanted at all, or there is an older one.
    pub(crate) surplus: Vec<Arc<CapacityRecord>>,
}

/// What to do about the one object that there should be.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum Keep {
    /// It is right, or not wanted.
    Nothing,
    Create(Amounts),
    /// It says something else, or lacks its owner.
    Update(Arc<CapacityRecord>, Amounts),
}

/// `wanted`: what the driver has said; `None`: there should be no object. Of several the oldest is kept, so that whoever
/// decides keeps the same one.
pub(crate) fn decide(wanted: Option<Amounts>, mut objects: Vec<Arc<CapacityRecord>>) -> Decision {
    let Some(amounts) = wanted else { return Decision { keep: Keep::Nothing, surplus: objects } };
    objects.sort_by(|one, other| age(one).cmp(&age(other)));
    let kept = objects.pop();
    let keep = match kept {
        None => Keep::Create(amounts),
        Some(kept) if kept.ownership == Ownership::Right && kept.amounts == Some(amounts) => Keep::Nothing,
        Some(kept) => Keep::Update(kept, amounts),
    };
    Decision { keep, surplus: objects }
}

/// Younger sorts first.
fn age(object: &CapacityRecord) -> Reverse<(i64, u64, &str)> {
    Reverse((object.created, object.version, object.name.as_str()))
}
