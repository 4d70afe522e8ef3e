#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod changes;
mod foreign_objects;
mod labelled;
mod malformed_objects;
mod recovery;
mod sharing;
mod watches;

use std::cell::RefCell;
use std::io::Write;
use std::sync::Once;
use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher};
use k8s_openapi::api::core::v1::PersistentVolume;
use parking_lot::Mutex;
use serde_json::{Value, json};

use super::*;

pub(super) const SECOND: Duration = Duration::from_secs(1);
pub(super) const MINUTE: Duration = Duration::from_mins(1);
/// Longer than anything a test waits for.
pub(super) const BOUND: Duration = Duration::from_hours(1);

/// The volumes of driver `ours`: by name, the capacity is kept, grouped by class.
pub(super) struct Volumes;

pub(super) struct Volume {
    pub(super) size: String,
    class: Option<String>,
}

impl Projection for Volumes {
    type Wire = PersistentVolume;
    type Key = String;
    type Record = Volume;
    type Group = String;

    fn may_concern(&self, json: &[u8]) -> bool {
        Mention::of(["ours"]).may_be_in(json)
    }

    fn key(&self, volume: &PersistentVolume) -> Option<String> {
        volume.metadata.name.clone()
    }

    fn project(&self, volume: PersistentVolume) -> Option<Volume> {
        let spec = volume.spec?;
        (spec.csi?.driver == "ours").then_some(())?;
        Some(Volume { size: spec.capacity?.remove("storage")?.0, class: spec.storage_class_name })
    }

    fn group(&self, volume: &Volume) -> Option<String> {
        volume.class.clone()
    }
}

/// A volume of `driver` as JSON.
pub(super) fn volume(name: &str, driver: &str, size: &str) -> Value {
    json!({
        "apiVersion": "v1",
        "kind": "PersistentVolume",
        "metadata": { "name": name },
        "spec": {
            "accessModes": ["ReadWriteOnce"],
            "capacity": { "storage": size },
            "csi": { "driver": driver, "volumeHandle": name },
            "storageClassName": "fast",
        },
    })
}

/// A server, a running informer of it, and what a subscriber heard.
pub(super) struct Rig {
    pub(super) server: FakeApiServer,
    pub(super) informer: Informer<Volumes>,
    pub(super) informers: Informers,
    pub(super) continuity: Continuity,
    heard: Arc<Mutex<Vec<String>>>,
    tasks: Arc<Tasks>,
    subscription: Subscription,
}

impl Rig {
    /// Over a server with these volumes, of `ours` unless the name says `foreign`.
    pub(super) fn start(volumes: &[&str]) -> Self {
        let server = FakeApiServer::new();
        for name in volumes {
            let driver = if name.contains("foreign") { "theirs" } else { "ours" };
            server.create_json::<PersistentVolume>(volume(name, driver, "1Gi"));
        }
        Self::over(server, None)
    }

    pub(super) fn over(server: FakeApiServer, resync: Option<Duration>) -> Self {
        Self::of(server, Collection::of::<PersistentVolume>(), resync)
    }

    pub(super) fn of(server: FakeApiServer, collection: Collection, resync: Option<Duration>) -> Self {
        Log::install();
        let (tasks, continuity) = (Arc::new(Tasks::new()), Continuity::new(MINUTE));
        let informers = Informers::new(ApiServer::from(&server.client()), continuity.clone(), &tasks);
        let informer = informers.of(collection, Volumes, resync);
        let heard = Arc::new(Mutex::new(Vec::new()));
        let subscription = informer.subscribe(listener(&heard));
        Self { server, informer, informers, continuity, heard, tasks, subscription }
    }

    /// As [`start`](Self::start), after the first list.
    pub(super) async fn synced(volumes: &[&str]) -> Self {
        let rig = Self::start(volumes);
        rig.sync().await;
        rig
    }

    pub(super) async fn sync(&self) {
        tokio::time::timeout(BOUND, self.informer.synced()).await.expect("the first list within the bound");
    }

    /// Waits until exactly these lines were heard since the last time, in any order; a moment later there are no more.
    #[track_caller]
    pub(super) fn hears<'a>(&'a self, lines: &'a [&str]) -> impl Future<Output = ()> + 'a {
        let caller = std::panic::Location::caller();
        async move {
            let mut expected: Vec<&str> = lines.to_vec();
            expected.sort_unstable();
            self.until("the expected changes", |rig| rig.heard.lock().len() >= expected.len()).await;
            tokio::time::sleep(SECOND / 100).await;
            let mut heard = std::mem::take(&mut *self.heard.lock());
            heard.sort_unstable();
            assert_eq!(heard, expected, "at {caller}");
        }
    }

    pub(super) async fn until(&self, what: &str, condition: impl Fn(&Self) -> bool) {
        let start = tokio::time::Instant::now();
        while !condition(self) {
            assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}; heard {:?}", self.heard.lock());
            tokio::time::sleep(SECOND / 100).await;
        }
    }

    pub(super) fn size(&self, name: &str) -> Option<String> {
        self.informer.get(&name.to_owned()).map(|volume| volume.size.clone())
    }

    pub(super) fn create(&self, name: &str, size: &str) {
        self.server.create_json::<PersistentVolume>(volume(name, "ours", size));
    }

    pub(super) fn resize(&self, name: &str, size: &str) {
        self.server.merge::<PersistentVolume>(None, name, &json!({ "spec": { "capacity": { "storage": size } } }));
    }

    pub(super) fn delete(&self, name: &str) {
        self.server.delete::<PersistentVolume>(None, name);
    }

    /// Takes the server down; the informer has noticed when this returns.
    pub(super) async fn go_down(&self) {
        self.server.set_reachable(false);
        tokio::time::sleep(SECOND).await;
    }

    /// Requests so far: pages of lists, and watches. What the server is asked before a watch is resumed is neither.
    pub(super) fn requests(&self) -> (usize, usize) {
        let lists = self.server.requests_of(&Matcher::of("list", "persistentvolumes"));
        let pages = lists.iter().filter(|list| list.query != "limit=1").count();
        (pages, self.server.requests_of(&Matcher::of("watch", "persistentvolumes")).len())
    }
}

pub(super) fn listener(heard: &Arc<Mutex<Vec<String>>>) -> impl Fn(Change<'_, Volumes>) + Send + Sync + 'static {
    let heard = heard.clone();
    move |change| {
        let size = |volume: Option<&Arc<Volume>>| volume.map(|volume| volume.size.clone());
        let line = match (size(change.old), size(change.new)) {
            (Some(size), Some(_)) if change.is_resync() => format!("again {} {size}", change.key),
            (Some(old), Some(new)) => format!("changed {} {old} {new}", change.key),
            (None, Some(new)) => format!("added {} {new}", change.key),
            (Some(old), None) => format!("deleted {} {old}", change.key),
            (None, None) => format!("nothing {}", change.key),
        };
        heard.lock().push(line);
    }
}

thread_local! {
    /// What is logged on this thread, while a test captures it.
    static LOGGED: RefCell<Option<Vec<u8>>> = const { RefCell::new(None) };
}

/// What is logged at INFO and above on this thread while it lives.
pub(super) struct Log(());

struct Sink;

impl Write for Sink {
    fn write(&mut self, bytes: &[u8]) -> std::io::Result<usize> {
        LOGGED.with_borrow_mut(|logged| logged.as_mut().map_or(Ok(bytes.len()), |logged| logged.write(bytes)))
    }

    fn flush(&mut self) -> std::io::Result<()> {
        Ok(())
    }
}

impl Log {
    /// One subscriber for all tests, in place before the first line is logged: with one per test, a line that another
    /// test logs first at the same moment could be switched off for good.
    fn install() {
        static ONCE: Once = Once::new();
        ONCE.call_once(|| {
            let subscriber = tracing_subscriber::fmt()
                .with_max_level(tracing::Level::INFO)
                .with_writer(|| Sink)
                .with_target(false)
                .without_time()
                .finish();
            tracing::subscriber::set_global_default(subscriber).unwrap();
        });
    }

    pub(super) fn capture() -> Self {
        Self::install();
        LOGGED.set(Some(Vec::new()));
        Self(())
    }

    /// The lines that hold `text`.
    pub(super) fn with(&self, text: &str) -> Vec<String> {
        let Self(()) = self;
        let bytes = LOGGED.with_borrow(|logged| logged.clone().unwrap());
        let lines = String::from_utf8(bytes).unwrap();
        lines.lines().filter(|line| line.contains(text)).map(str::to_owned).collect()
    }
}

impl Drop for Log {
    fn drop(&mut self) {
        LOGGED.set(None);
    }
}
