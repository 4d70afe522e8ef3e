//! What volumes and snapshots do alike: looked up at once, made and removed one operation per name at a time.
//!
//! The index is in memory; the disk is written on blocking threads, and a change is in the index only after it is on
//! the disk. Creation and deletion are told to come again when something else works on the name.

use std::path::Path;
use std::sync::Arc;

use parking_lot::Mutex;
use tokio::task::spawn_blocking;

use crate::error::Error;
use crate::state::StateError;
use crate::state::budget::{Budget, Reserved};
use crate::state::files::{Deleted, Lock, Shelf};
use crate::state::index::Index;
use crate::state::kept::Kept;
use crate::state::original::{Copies, Copying, Original};
use crate::state::recovery;
use crate::turns::{Turn, Turns};

#[derive(Debug)]
pub(super) struct Store<R: Kept> {
    pub(super) shelf: Arc<Shelf<R>>,
    pub(super) budget: Arc<Budget>,
    pub(super) index: Mutex<Index<R>>,
    /// By name.
    turns: Turns,
    copies: Copies,
}

/// The right to make something of a name.
#[derive(Debug)]
pub(super) struct Begun<R: Kept> {
    _turn: Turn,
    /// Something of this name whose deletion was begun and not finished.
    leftover: Option<Arc<R>>,
}

/// What there is of a name that is asked for.
pub(super) enum Named<R: Kept> {
    Exists(Arc<R>),
    Free(Begun<R>),
}

impl<R: Kept> Store<R> {
    /// Loads what there is and finishes what an earlier process left half done.
    pub(super) fn open(dir: &Path, lock: Arc<Lock>, budget: Arc<Budget>) -> Result<Self, Error> {
        let shelf = Shelf::<R>::open(dir, lock)?;
        let records = recovery::recover(&shelf)?;
        for record in &records {
            budget.count(record.bytes());
        }
        let index = Mutex::new(Index::new(records));
        Ok(Self { shelf: Arc::new(shelf), budget, index, turns: Turns::default(), copies: Copies::default() })
    }

    pub(super) fn get(&self, id: &R::Id) -> Option<Arc<R>> {
        self.index.lock().get(id)
    }

    /// Takes the name, unless it is taken: by an operation under way, or by something that is not what is wanted.
    pub(super) fn begin(
        &self,
        name: &str,
        conflict: impl FnOnce(&R) -> Option<String>,
    ) -> Result<Named<R>, StateError> {
        let Some(turn) = self.turns.try_take(name) else { return Err(pending::<R>(name)) };
        match self.index.lock().named(name) {
            Some(record) if !record.is_deleting() => match conflict(&record) {
                None => Ok(Named::Exists(record)),
                Some(conflict) => Err(StateError::Exists { kind: R::KIND, name: name.to_owned(), conflict }),
            },
            leftover => Ok(Named::Free(Begun { _turn: turn, leftover })),
        }
    }

    /// Makes what the record says, a copy of the original or empty.
    pub(super) async fn create(
        &self,
        begun: Begun<R>,
        record: R,
        reserved: Reserved,
        original: Option<Original>,
    ) -> Result<Arc<R>, StateError> {
        let record = Arc::new(record);
        let shelf = Arc::clone(&self.shelf);
        let (making, removing) = (Arc::clone(&record), begun.leftover.clone());
        let made = spawn_blocking(move || {
            removing.map_or(Ok(()), |leftover| shelf.delete(&leftover).map(drop).map_err(|(error, _)| error))?;
            shelf.create(&making, original.as_ref())
        });
        made.await.map_err(|_| StateError::Interrupted)??;
        if let Some(leftover) = &begun.leftover {
            self.forget(leftover);
        }
        reserved.keep();
        self.index.lock().insert(Arc::clone(&record));
        Ok(record)
    }

    /// Removes it, unless `refuse` has a reason not to, found on a blocking thread; nothing to do when there is none.
    pub(super) async fn delete(
        &self,
        id: &R::Id,
        refuse: impl FnOnce(&R, &Path) -> Result<(), StateError> + Send + 'static,
    ) -> Result<(), StateError> {
        let Some(name) = self.get(id).map(|record| record.name().to_owned()) else { return Ok(()) };
        let Some(_turn) = self.turns.try_take(&name) else { return Err(pending::<R>(&name)) };
        let Some(record) = self.get(id) else { return Ok(()) };
        if self.copies.are_made_of(&id.to_string()) {
            return Err(pending::<R>(&name));
        }
        let shelf = Arc::clone(&self.shelf);
        let removing = Arc::clone(&record);
        let deleted = spawn_blocking(move || {
            refuse(&removing, &shelf.data_of(removing.id())).map_err(|error| (error, false))?;
            shelf.delete(&removing).map_err(|(error, marked)| (error.into(), marked))
        });
        match deleted.await {
            Ok(Ok(Deleted)) => self.forget(&record),
            Ok(Err((error, marked))) => {
                if marked {
                    self.index.lock().insert(Arc::new(record.deleting()));
                }
                return Err(error);
            }
            Err(_) => return Err(StateError::Interrupted),
        }
        Ok(())
    }

    /// The record with the right to work on it, as soon as nobody else does. None if there is none, or only what an
    /// unfinished deletion has left of it.
    pub(super) async fn hold(&self, id: &R::Id) -> Option<(Turn, Arc<R>)> {
        self.get(id)?;
        let turn = self.turn(id).await;
        let record = self.get(id).filter(|record| !record.is_deleting())?;
        Some((turn, record))
    }

    /// The right to work on an id, be it one of these or not, as soon as nobody else does.
    pub(super) async fn turn(&self, id: &R::Id) -> Turn {
        let key = self.get(id).map_or_else(|| id.to_string(), |record| record.name().to_owned());
        self.turns.take(&key).await
    }

    /// Keeps it from being deleted while it is copied. Its turn is given back: it may be published meanwhile.
    pub(super) async fn hold_for_copy(&self, id: &R::Id) -> Result<(Copying, Arc<R>), StateError> {
        let missing = || StateError::NotFound { kind: R::KIND, id: id.to_string() };
        let (_turn, record) = self.hold(id).await.ok_or_else(missing)?;
        Ok((self.copies.begin(id.to_string()), record))
    }

    /// Replaces a record that the caller holds.
    pub(super) async fn update(&self, record: R) -> Result<(), StateError> {
        let record = Arc::new(record);
        let (shelf, writing) = (Arc::clone(&self.shelf), Arc::clone(&record));
        spawn_blocking(move || shelf.update(&writing)).await.map_err(|_| StateError::Interrupted)??;
        self.index.lock().insert(record);
        Ok(())
    }

    /// Replaces a record that the caller holds by one with `grown` bytes more, and the content with it.
    pub(super) async fn grow(&self, old: Arc<R>, new: R, grown: Reserved) -> Result<Arc<R>, StateError> {
        let new = Arc::new(new);
        let (shelf, record) = (Arc::clone(&self.shelf), Arc::clone(&new));
        spawn_blocking(move || shelf.grow(&old, &record)).await.map_err(|_| StateError::Interrupted)??;
        grown.keep();
        self.index.lock().insert(Arc::clone(&new));
        Ok(new)
    }

    fn forget(&self, record: &R) {
        if self.index.lock().remove(record) {
            self.budget.give_back(record.bytes());
        }
    }
}

fn pending<R: Kept>(name: &str) -> StateError {
    StateError::Pending { kind: R::KIND, name: name.to_owned() }
}
