//! The code under test, started as a sidecar starts it.

use std::path::Path;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use csi_client::{
    Address, Admission, CallMetrics, ControllerClient, Denied, Driver, DriverInfo, Error, Handshake, Settings,
};
use csi_proto::csi::v1::CreateVolumeRequest;
use fake_driver::FakeDriver;
use prometheus::{Registry, TextEncoder};
use tokio::task::JoinHandle;
use tokio::time::timeout;

/// What a call may take.
pub(crate) const TIMEOUT: Duration = Duration::from_secs(15);

pub(crate) struct Client {
    pub(crate) driver: Driver,
    pub(crate) registry: Registry,
    connection: JoinHandle<Error>,
}

impl Client {
    pub(crate) fn start(socket: &Path) -> Self {
        Self::with(socket, Handshake::Controller)
    }

    pub(crate) fn with(socket: &Path, handshake: Handshake) -> Self {
        let registry = Registry::new();
        let address = Address::parse(socket.to_str().unwrap()).unwrap();
        let metrics = CallMetrics::register(&registry).unwrap();
        let (driver, connection) = Driver::new(Settings { address, handshake, timeout: TIMEOUT, metrics });
        Self { driver, registry, connection: tokio::spawn(connection.run()) }
    }

    /// Ready within the limit, on the paused clock.
    pub(crate) async fn ready_within(&self, limit: Duration) -> Arc<DriverInfo> {
        within(limit, "a ready driver", self.driver.ready()).await
    }

    /// How the connection ends, within the limit.
    pub(crate) async fn end_within(&mut self, limit: Duration) -> Error {
        within(limit, "the end of the connection", &mut self.connection).await.unwrap()
    }

    pub(crate) fn controller(&self) -> ControllerClient {
        self.driver.controller(Arc::new(Door::open()))
    }

    pub(crate) fn metrics(&self) -> String {
        TextEncoder::new().encode_to_string(&self.registry.gather()).unwrap()
    }
}

impl Drop for Client {
    fn drop(&mut self) {
        self.connection.abort();
    }
}

/// An admission that can be closed.
pub(crate) struct Door(AtomicBool);

impl Door {
    pub(crate) fn open() -> Self {
        Self(AtomicBool::new(true))
    }

    pub(crate) fn close(&self) {
        self.0.store(false, Ordering::Relaxed);
    }
}

impl Admission for Door {
    fn admit(&self) -> Result<(), Denied> {
        if self.0.load(Ordering::Relaxed) { Ok(()) } else { Err(Denied("the lease is over".to_owned())) }
    }
}

pub(crate) fn volume(name: &str) -> CreateVolumeRequest {
    CreateVolumeRequest { name: name.to_owned(), ..CreateVolumeRequest::default() }
}

/// Fails the test with `what` after the limit.
pub(crate) async fn within<T>(limit: Duration, what: &str, wait: impl Future<Output = T>) -> T {
    timeout(limit, wait).await.unwrap_or_else(|_| panic!("no {what} within {limit:?}"))
}

/// Waits, for at most a minute, until `done` holds.
pub(crate) async fn until(what: &str, done: impl Fn() -> bool) {
    let poll = async {
        while !done() {
            tokio::time::sleep(Duration::from_millis(10)).await;
        }
    };
    within(Duration::from_mins(1), what, poll).await;
}

/// A driver, and a client that has its name.
pub(crate) async fn connected() -> (FakeDriver, Client) {
    let driver = FakeDriver::start().await;
    let client = Client::start(&driver.socket_path());
    client.ready_within(Duration::from_secs(1)).await;
    (driver, client)
}
