//! A CSI driver for tests: a real gRPC server on a Unix socket, on the runtime of the test.
//!
//! The flow of one call: `socket` accepts → `service` writes the journal, takes the next [`Step`] of the RPC →
//! `backend` does the default work → the answer. With the client and the fake API server on the same
//! `current_thread` runtime the clock may be paused: nothing here uses threads or blocks.
//!
//! ```no_run
//! # use fake_driver::{FakeDriver, Rpc, Step};
//! # async fn example() {
//! let driver = FakeDriver::start().await;
//! driver.script(Rpc::CreateVolume, Step::fail(tonic::Code::Aborted, "busy"));
//! // ... let the code under test connect to driver.address() ...
//! let calls = driver.wait_for_calls(Rpc::CreateVolume, 2).await;
//! assert_eq!(driver.volumes().len(), 1);
//! # }
//! ```
//!
//! Not guaranteed: capabilities are only reported, calls are served whether listed or not; what is not asked
//! for a default (snapshots, expand) answers UNIMPLEMENTED until it is scripted.
#![expect(
    clippy::panic,
    reason = "test only: a test that set up its driver wrongly or waits in vain ends with the reason"
)]

mod backend;
mod journal;
mod place;
mod rpc;
mod service;
mod socket;
mod step;

use std::any::Any;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::v1::Topology;
use parking_lot::Mutex;
use tempfile::TempDir;
use tokio::time::timeout;

pub use backend::{BackendVolume, Identity};
pub use journal::{Call, Outcome};
pub use place::{Capacity, Placement, topology};
pub use rpc::{AnyRequest, CsiRequest, Rpc};
pub use step::{Release, Step};

use backend::Backend;
use service::{Services, State};
use socket::Serving;

/// How long [`FakeDriver::wait_for_calls`] waits, on the runtime's clock.
pub const PATIENCE: Duration = Duration::from_mins(1);

/// The driver: volumes, script and journal outlive [`FakeDriver::stop`], the socket does not.
#[derive(Debug)]
pub struct FakeDriver {
    dir: TempDir,
    state: Arc<State>,
    serving: Mutex<Vec<Serving>>,
}

impl FakeDriver {
    /// A driver that listens, with default [`Identity`].
    ///
    /// # Panics
    /// Without a temporary directory, or outside of a tokio runtime.
    pub async fn start() -> Self {
        let driver = Self::stopped();
        driver.start_again().await;
        driver
    }

    /// A driver whose socket file is not there yet; [`FakeDriver::start_again`] starts it.
    ///
    /// # Panics
    /// Without a temporary directory.
    pub fn stopped() -> Self {
        let dir =
            TempDir::with_prefix("fake-driver-").unwrap_or_else(|error| panic!("no temporary directory: {error}"));
        Self { dir, state: Arc::default(), serving: Mutex::default() }
    }

    /// Path of the socket, the same over restarts.
    pub fn socket_path(&self) -> PathBuf {
        self.dir.path().join("csi.sock")
    }

    /// The socket as sidecars are given it: `unix://` and the path.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket_path().display())
    }

    /// Queues what the next unscripted call of `rpc` does.
    ///
    /// # Panics
    /// When `step` answers a message of another RPC.
    pub fn script(&self, rpc: Rpc, step: Step) {
        if let Some(bound) = step.bound_to()
            && bound != rpc
        {
            panic!("a step that answers {bound} was queued for {rpc}");
        }
        self.state.script.lock().queued.entry(rpc).or_default().push_back(step);
    }

    /// What calls of `rpc` do when nothing is queued, until [`FakeDriver::forget_script`].
    pub fn script_always(&self, rpc: Rpc, step: impl Fn() -> Step + Send + 'static) {
        self.state.script.lock().always.insert(rpc, Box::new(step));
    }

    /// What a call does that is not queued, chosen by its request, until [`FakeDriver::forget_script`]:
    /// `driver.script_by(|request: &GetCapacityRequest| …)` may be slow in one place only. `None` leaves the call to
    /// [`FakeDriver::script_always`].
    pub fn script_by<R: CsiRequest>(&self, choose: impl Fn(&R) -> Option<Step> + Send + 'static) {
        let choose = move |request: &dyn Any| request.downcast_ref().and_then(&choose);
        self.state.script.lock().by_request.insert(R::RPC, Box::new(choose));
    }

    /// Back to the default behaviour for all calls to come; calls that run keep their step.
    pub fn forget_script(&self) {
        let mut script = self.state.script.lock();
        script.queued.clear();
        script.by_request.clear();
        script.always.clear();
    }

    /// Changes what the driver says of itself.
    pub fn configure(&self, change: impl FnOnce(&mut Identity)) {
        change(&mut self.state.backend.lock().identity);
    }

    /// All calls so far, oldest first, those that run included.
    pub fn calls(&self) -> Vec<Call> {
        self.state.journal.calls()
    }

    /// The calls of one RPC.
    pub fn calls_of(&self, rpc: Rpc) -> Vec<Call> {
        self.calls().into_iter().filter(|call| call.rpc == rpc).collect()
    }

    /// The requests of one RPC: `driver.requests::<CreateVolumeRequest>()`.
    pub fn requests<R: CsiRequest>(&self) -> Vec<R> {
        self.calls().iter().filter_map(Call::request).cloned().collect()
    }

    /// Number of calls of `rpc` that run.
    pub fn running(&self, rpc: Rpc) -> usize {
        self.state.journal.count(|call| call.rpc == rpc && call.ended.is_none())
    }

    /// Waits until at least `n` calls of `rpc` have begun, and returns them.
    ///
    /// # Panics
    /// After [`PATIENCE`], with the calls there are.
    pub async fn wait_for_calls(&self, rpc: Rpc, n: usize) -> Vec<Call> {
        let what = format!("{n} calls of {rpc}");
        self.wait_until(&what, |calls| calls.iter().filter(|call| call.rpc == rpc).count() >= n).await;
        self.calls_of(rpc)
    }

    /// Waits until at least `n` calls of `rpc` have ended, and returns all calls of it.
    ///
    /// # Panics
    /// After [`PATIENCE`], with the calls there are.
    pub async fn wait_for_ended_calls(&self, rpc: Rpc, n: usize) -> Vec<Call> {
        let what = format!("{n} ended calls of {rpc}");
        self.wait_until(&what, |calls| {
            calls.iter().filter(|call| call.rpc == rpc && call.ended.is_some()).count() >= n
        })
        .await;
        self.calls_of(rpc)
    }

    /// Waits until `done` holds of all calls; looked at whenever a call begins or ends.
    ///
    /// # Panics
    /// After [`PATIENCE`], naming `what` and the calls there are.
    pub async fn wait_until(&self, what: &str, done: impl Fn(&[Call]) -> bool) {
        let in_time = timeout(PATIENCE, self.state.journal.until(done)).await.is_ok();
        assert!(in_time, "waited {PATIENCE:?} for {what}; the driver has seen: {:#?}", self.calls());
    }

    /// The volumes the driver holds, by name.
    pub fn volumes(&self) -> Vec<BackendVolume> {
        self.state.backend.lock().volumes()
    }

    /// Gives the driver a volume nobody asked it for.
    pub fn add_volume(&self, volume: BackendVolume) {
        self.backend(|backend| backend.add(volume));
    }

    /// Takes a volume away behind everybody's back.
    pub fn remove_volume(&self, id: &str) -> Option<BackendVolume> {
        self.backend(|backend| backend.remove(id))
    }

    /// What `GetCapacity` answers for a place, by equal segments: `set_capacity(&topology(&[("zone", "a")]), 5)`.
    pub fn set_capacity(&self, place: &Topology, capacity: impl Into<Capacity>) {
        self.backend(|backend| backend.capacities.set(Some(place), capacity.into()));
    }

    /// What `GetCapacity` answers without a place, and for places that have no capacity of their own; 0 unless set.
    pub fn set_capacity_elsewhere(&self, capacity: impl Into<Capacity>) {
        self.backend(|backend| backend.capacities.set(None, capacity.into()));
    }

    /// Ids of the nodes where a volume is published.
    pub fn published_nodes(&self, id: &str) -> Vec<String> {
        self.state.backend.lock().published_nodes(id)
    }

    /// Publishes a volume at a node without a call.
    pub fn publish(&self, id: &str, node: &str) {
        self.backend(|backend| backend.publish(id, node));
    }

    /// Unpublishes a volume behind everybody's back.
    pub fn unpublish(&self, id: &str, node: &str) {
        self.backend(|backend| backend.unpublish(id, node));
    }

    fn backend<T>(&self, work: impl FnOnce(&mut Backend) -> T) -> T {
        work(&mut self.state.backend.lock())
    }

    /// Stops as a process that was killed: listener and connections are gone, the stale socket file stays.
    /// Returns when no call runs.
    pub async fn crash(&self) {
        let serving = std::mem::take(&mut *self.serving.lock());
        for serving in serving {
            serving.cut().await;
        }
        self.state.journal.until(|calls| calls.iter().all(|call| call.ended.is_some())).await;
    }

    /// The same, and removes the socket file.
    pub async fn stop(&self) {
        self.crash().await;
        remove_socket(&self.socket_path());
    }

    /// Listens at the same path on a new inode. Earlier listeners that were not stopped keep their connections.
    ///
    /// # Panics
    /// When the socket cannot be bound.
    pub async fn start_again(&self) {
        let path = self.socket_path();
        let serving = Serving::bind(&path, Services::new(Arc::clone(&self.state)));
        let serving = serving.unwrap_or_else(|error| panic!("cannot listen on {}: {error}", path.display()));
        self.serving.lock().push(serving);
        // Gives the accept loop its first poll, so that a test sees its waker registered.
        tokio::task::yield_now().await;
    }

    /// Puts a new listener at the path while the connections of the old one live on.
    ///
    /// # Panics
    /// When the socket cannot be bound.
    pub async fn replace_socket(&self) {
        self.start_again().await;
    }

    /// Deletes the socket file under the running driver; its connections live on.
    pub fn remove_socket_file(&self) {
        remove_socket(&self.socket_path());
    }
}

impl Drop for FakeDriver {
    fn drop(&mut self) {
        for serving in self.serving.lock().iter() {
            serving.cut_now();
        }
    }
}

fn remove_socket(path: &Path) {
    // Absent is what is wanted; anything else shows when the path is bound.
    let _ = fs::remove_file(path);
}
