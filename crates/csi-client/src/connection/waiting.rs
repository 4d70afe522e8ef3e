//! What a connection waits for, told every ten seconds.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use parking_lot::Mutex;
use tokio::time::{Instant, sleep};

use crate::Address;

const LOG_INTERVAL: Duration = Duration::from_secs(10);

/// What a connection waits for at the moment, for whoever asks.
#[derive(Debug)]
pub struct Waiting(Mutex<Arc<str>>);

impl Default for Waiting {
    fn default() -> Self {
        Self::new()
    }
}

impl Waiting {
    /// Nothing has been tried yet.
    pub fn new() -> Self {
        Self(Mutex::new("not dialled yet".into()))
    }

    /// Sets the reason.
    pub fn because(&self, reason: impl Into<Arc<str>>) {
        *self.0.lock() = reason.into();
    }

    /// The reason of the moment.
    pub fn reason(&self) -> Arc<str> {
        self.0.lock().clone()
    }

    /// Logs one line every ten seconds until dropped.
    pub async fn report(&self, address: &Address) -> Infallible {
        let started = Instant::now();
        loop {
            sleep(LOG_INTERVAL).await;
            let seconds = started.elapsed().as_secs();
            tracing::info!(%address, reason = %self.reason(), seconds, "Still connecting to the CSI driver");
        }
    }
}
