//! What volumes and snapshots have in common: a record, content, a name that is given once.

use std::fmt::{Debug, Display};
use std::hash::Hash;

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::state::Access;

/// Version of the record format this driver writes.
pub(super) const FORMAT: u32 = 1;

/// The record of something that has content on disk.
pub(crate) trait Kept: Clone + Serialize + DeserializeOwned + Send + Sync + 'static {
    /// Its CSI id. Ids of callers are looked up and never become part of a path.
    type Id: Clone + Debug + Eq + Hash + Display + for<'a> From<&'a str> + Send + Sync;

    /// For messages.
    const KIND: &'static str;

    /// Directory of the records below the state directory.
    const RECORDS: &'static str;

    /// Directory of the content below the state directory.
    const DATA: &'static str;

    fn format(&self) -> u32;

    fn id(&self) -> &Self::Id;

    /// The name it was asked for by: two requests with one name mean the same.
    fn name(&self) -> &str;

    /// Counts creations; the order of lists.
    fn sequence(&self) -> u64;

    /// What it takes of `--capacity`.
    fn bytes(&self) -> i64;

    fn access(&self) -> Access;

    /// Whether it is on its way out: its content may be there in part.
    fn is_deleting(&self) -> bool;

    /// The record of what is on its way out, to be finished by the next start at the latest.
    #[must_use]
    fn deleting(&self) -> Self;
}
