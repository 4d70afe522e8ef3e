//! One check of the driver, from the dial to what its answer means.

use std::sync::Arc;
use std::time::Duration;

use csi_client::{Address, CallError, CallMetrics, Session, pause_after_dial};
use csi_proto::csi::v1::ProbeResponse;
use tokio::time::{Instant, sleep, timeout_at};

use crate::driver_name::DriverName;

/// Why the driver is not healthy. The text is the body of the answer; Go's words where Go has any.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub(crate) enum Unhealthy {
    /// No connection, or no name, in time.
    #[error("context deadline exceeded: {0}")]
    OutOfReach(String),
    /// `Probe` failed.
    #[error(transparent)]
    Probe(#[from] CallError),
    /// `Probe` was answered with `ready=false`.
    #[error("driver responded but is not ready")]
    NotReady,
}

/// How the driver is to be checked.
pub(crate) struct Check {
    pub(crate) address: Address,
    pub(crate) timeout: Duration,
    pub(crate) metrics: CallMetrics,
    pub(crate) name: Arc<DriverName>,
}

impl Check {
    /// Takes at most the timeout, as a whole.
    pub(crate) async fn run(&self) -> Result<(), Unhealthy> {
        let deadline = Instant::now() + self.timeout;
        let mut reason = None;
        let Ok(session) = timeout_at(deadline, self.connect(&mut reason)).await else {
            let reason = self.name.missing_because().or(reason).unwrap_or_else(|| "the driver was not dialled".into());
            return Err(Unhealthy::OutOfReach(reason));
        };
        let answer = session.probe(deadline.saturating_duration_since(Instant::now())).await;
        session.close().await;
        verdict(answer)
    }

    /// Dials until it succeeds, noting why it has not: a driver that is about to come back is not unhealthy.
    async fn connect(&self, reason: &mut Option<String>) -> Session {
        self.name.known().await;
        let mut failures = 0_u32;
        loop {
            match Session::open(&self.address, &self.metrics).await {
                Ok(session) => return session,
                Err(error) => *reason = Some(error.to_string()),
            }
            sleep(pause_after_dial(failures)).await;
            failures = failures.saturating_add(1);
        }
    }
}

fn verdict(answer: Result<ProbeResponse, CallError>) -> Result<(), Unhealthy> {
    match answer?.ready {
        // The CSI specification has an absent value mean ready.
        None | Some(true) => Ok(()),
        Some(false) => Err(Unhealthy::NotReady),
    }
}
