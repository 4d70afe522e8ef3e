//! What a connection waits for, told every ten seconds.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::Address;

const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// The reason of the moment.
pub(crate) struct Waiting(Mutex<Arc<str>>);

impl Waiting {
    pub(crate) fn new() -> Self {
        Self(Mutex::new("not dialled yet".into()))
    }

    pub(crate) fn because(&self, reason: impl Into<Arc<str>>) {
        *self.0.lock() = reason.into();
    }

    pub(crate) fn reason(&self) -> Arc<str> {
        self.0.lock().clone()
    }

    /// Logs one line every ten seconds until dropped.
    pub(crate) async fn report(&self, address: &Address) -> Infallible {
        let started = Instant::now();
        loop {
            sleep(LOG_INTERVAL).await;
            let seconds = started.elapsed().as_secs();
            tracing::info!(%address, reason = %self.reason(), seconds, "Still connecting to the CSI driver");
        }
    }
}
