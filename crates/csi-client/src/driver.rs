//! The handle to a driver: what callers hold while the connection behind it comes and goes.

use std::sync::Arc;
use std::time::Duration;

use tokio::sync::{OwnedSemaphorePermit, watch};
use tokio::time::{Instant, sleep_until};

use crate::call::Caller;
use crate::connection::Connection;
use crate::connection::waiting::Waiting;
use crate::deadline::Deadline;
use crate::generation::Generation;
use crate::{Address, Admission, CallError, CallMetrics, ControllerClient, DriverInfo, Handshake};

/// How a driver is to be talked to.
pub struct Settings {
    /// Where it listens.
    pub address: Address,
    /// What every new connection is asked.
    pub handshake: Handshake,
    /// The most a call may take from being sent to its answer, and the most it waits for a connection before.
    pub timeout: Duration,
    /// Where calls are counted.
    pub metrics: CallMetrics,
}

/// One driver behind one socket. Clones are the same driver.
#[derive(Clone)]
pub struct Driver {
    shared: Arc<Shared>,
}

/// A connection on which calls pass.
#[derive(Clone)]
pub(crate) struct Passing {
    pub(crate) generation: Arc<Generation>,
    pub(crate) info: Arc<DriverInfo>,
}

/// How long one call waits for a connection, over all its attempts: as long as it may take itself.
#[derive(Clone, Copy)]
pub(crate) struct Patience {
    since: Instant,
    deadline: Deadline,
}

impl Patience {
    pub(crate) fn starting(limit: Duration) -> Self {
        Self { since: Instant::now(), deadline: Deadline::after(limit) }
    }

    /// The output of `wait`, or `None` when patience ends first.
    pub(crate) async fn bound<T>(self, wait: impl Future<Output = T>) -> Option<T> {
        self.deadline.bound(wait).await
    }
}

/// What the handle and the connection share.
pub(crate) struct Shared {
    pub(crate) caller: Caller,
    pub(crate) waiting: Waiting,
    passing: watch::Sender<Option<Passing>>,
}

impl Driver {
    /// The handle, and the task that its owner must run: without it every call waits in vain.
    pub fn new(settings: Settings) -> (Self, Connection) {
        let Settings { address, handshake, timeout, metrics } = settings;
        let shared = Arc::new(Shared {
            caller: Caller { address, timeout, metrics },
            waiting: Waiting::new(),
            passing: watch::Sender::new(None),
        });
        (Self { shared: shared.clone() }, Connection::new(shared, handshake))
    }

    /// What the driver is, as soon as a connection has passed its handshake. Waits without limit.
    pub async fn ready(&self) -> Arc<DriverInfo> {
        self.shared.passing().await.info
    }

    /// The connections to come, from now on.
    pub fn new_connections(&self) -> NewConnections {
        NewConnections { known: self.shared.connection(), driver: self.clone(), told: None }
    }

    /// What the connection waits for; `None` while calls pass.
    pub fn waiting_for(&self) -> Option<Arc<str>> {
        let up = self.shared.passing.borrow().as_ref().is_some_and(Passing::is_up);
        if up { None } else { Some(self.shared.waiting.reason()) }
    }

    /// The Controller service, for a caller whose every call must be admitted. The only way to send Controller calls.
    pub fn controller(&self, admission: Arc<dyn Admission>) -> ControllerClient {
        ControllerClient::new(self.shared.clone(), admission)
    }
}

/// Least time between two connections that [`NewConnections`] tells of.
const REST: Duration = Duration::from_mins(1);

/// The connections that come after this was asked for: the driver was started, restarted or updated, and may answer otherwise
/// what it has refused so far. A driver that ends again and again is not told of more often than once a minute, since what
/// is asked anew may be what ends it.
pub struct NewConnections {
    driver: Driver,
    known: Option<u64>,
    told: Option<Instant>,
}

impl NewConnections {
    /// Waits until calls pass on a connection that was not told of before. Without limit, and cancel-safe.
    pub async fn next(&mut self) {
        if let Some(told) = self.told {
            sleep_until(told + REST).await;
        }
        self.known = Some(self.driver.another_connection(self.known).await);
        self.told = Some(Instant::now());
    }
}

impl Driver {
    async fn another_connection(&self, known: Option<u64>) -> u64 {
        let mut changes = self.shared.passing.subscribe();
        loop {
            changes.mark_unchanged();
            if let Some(number) = self.shared.connection().filter(|number| Some(*number) != known) {
                return number;
            }
            // The sender lives in `self`; were it gone, waiting on is what an absent driver means.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }
}

impl Passing {
    fn is_up(&self) -> bool {
        !self.generation.has_ended()
    }
}

impl Shared {
    pub(crate) fn let_calls_pass(&self, passing: Passing) {
        passing.generation.let_calls_pass();
        self.passing.send_replace(Some(passing));
    }

    pub(crate) fn stop_calls(&self) {
        self.passing.send_replace(None);
    }

    /// The number of the connection on which calls pass.
    fn connection(&self) -> Option<u64> {
        let passing = self.passing.borrow();
        passing.as_ref().filter(|passing| passing.is_up()).map(|passing| passing.generation.number())
    }

    async fn passing(&self) -> Passing {
        let mut changes = self.passing.subscribe();
        loop {
            let up = changes.borrow_and_update().as_ref().filter(|passing| passing.is_up()).cloned();
            if let Some(passing) = up {
                return passing;
            }
            // The sender lives in `self`; were it gone, waiting on is what an absent driver means.
            if changes.changed().await.is_err() {
                std::future::pending::<()>().await;
            }
        }
    }

    /// A connection with a free place for one call.
    pub(crate) async fn place(
        &self,
        method: &'static str,
        patience: Patience,
    ) -> Result<(Arc<Generation>, OwnedSemaphorePermit), CallError> {
        let place = async {
            loop {
                let generation = self.passing().await.generation;
                if let Some(place) = generation.place().await {
                    return (generation, place);
                }
            }
        };
        patience.bound(place).await.ok_or_else(|| {
            let busy = self.passing.borrow().as_ref().is_some_and(Passing::is_up);
            CallError::NotConnected {
                method,
                address: self.caller.address.clone(),
                waited: patience.since.elapsed(),
                reason: if busy {
                    "all calls the driver allows at once are in flight".into()
                } else {
                    self.waiting.reason().to_string()
                },
            }
        })
    }
}
