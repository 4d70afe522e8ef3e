//! What an informer keeps of each object.

use std::fmt::Debug;
use std::hash::Hash;

use serde::de::DeserializeOwned;

/// Turns wire objects of one kind into the records an informer keeps.
///
/// All functions must depend on their arguments alone: the informer does not ask again about an object whose
/// resourceVersion it has seen.
pub trait Projection: Send + Sync + 'static {
    /// The kind as decoded from the API: a full or a slim type, or `PartialObjectMeta` of one. Never kept.
    type Wire: kube::Resource<DynamicType = ()> + Clone + Debug + DeserializeOwned + Send + 'static;
    /// What subscribers get and queues hold, such as a UID or a name. Unique among the objects alive at one time.
    type Key: Clone + Eq + Hash + Debug + Send + Sync + 'static;
    /// The fields rules read, packed.
    type Record: Send + Sync + 'static;
    /// Value of the secondary index; `()` when there is none.
    type Group: Clone + Eq + Hash + Send + Sync + 'static;

    /// Whether the object with this JSON may have a record. Asked about the objects of a first list, most of which are
    /// somebody else's in a large cluster: what is refused here is not even decoded.
    ///
    /// Must be true unless [`project`](Self::project) is sure to drop the object, and is asked before anybody has looked
    /// whether `json` is JSON. [`Mention`](super::Mention) answers it for records that need a certain name.
    fn may_concern(&self, json: &[u8]) -> bool {
        let _ = json;
        true
    }

    /// The key of an object, from its metadata alone. `None` for an object that can never have a record; it must not be
    /// used to filter, because then an object that stops matching could not be found any more.
    fn key(&self, object: &Self::Wire) -> Option<Self::Key>;

    /// What to keep of an object; `None` drops it. An object that had a record and stops being kept is delivered as
    /// deleted.
    fn project(&self, object: Self::Wire) -> Option<Self::Record>;

    /// The group under which [`Informer::in_group`](crate::Informer::in_group) finds the record, if any.
    fn group(&self, record: &Self::Record) -> Option<Self::Group> {
        let _ = record;
        None
    }
}
