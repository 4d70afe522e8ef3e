#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod copies;
mod growth;
mod volumes;

use std::path::PathBuf;

use tempfile::TempDir;
use tonic::{Code, Status};

use super::*;

fn wanted(name: &str, access: Access) -> Wanted {
    let size = SizeRange { required: 1024, limit: None };
    Wanted { name: name.to_owned(), size, access, ..Wanted::default() }
}

struct State {
    dir: TempDir,
    open: Option<(Volumes, Snapshots)>,
}

impl State {
    fn new(capacity: Option<i64>) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let open = Some(open(dir.path(), capacity).unwrap());
        Self { dir, open }
    }

    fn volumes(&self) -> &Volumes {
        &self.open.as_ref().unwrap().0
    }

    fn snapshots(&self) -> &Snapshots {
        &self.open.as_ref().unwrap().1
    }

    async fn create(&self, wanted: Wanted) -> Result<Arc<Record>, StateError> {
        self.volumes().create(wanted, self.snapshots()).await
    }

    fn taken(&self) -> i64 {
        self.volumes().store.budget.taken()
    }

    async fn make(&self, name: &str, access: Access) -> Arc<Record> {
        self.create(wanted(name, access)).await.unwrap()
    }

    /// A process that ends and another one that starts, with `between` in between.
    fn restart(&mut self, between: impl FnOnce(&Path)) -> Result<(), Error> {
        self.open = None;
        between(self.dir.path());
        self.open = Some(open(self.dir.path(), None)?);
        Ok(())
    }

    fn data(&self, record: &Record) -> PathBuf {
        self.dir.path().join("data").join(record.id.to_string())
    }

    fn record(&self, record: &Record) -> PathBuf {
        self.dir.path().join("volumes").join(format!("{}.json", record.id))
    }

    fn names(&self) -> Vec<String> {
        let (records, _) = self.volumes().list(None, usize::MAX).unwrap();
        records.iter().map(|record| record.name.clone()).collect()
    }
}

fn code<T: std::fmt::Debug>(result: Result<T, StateError>) -> Code {
    Status::from(result.unwrap_err()).code()
}
