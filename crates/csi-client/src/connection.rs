//! Keeps a connection to the driver that has passed its handshake.
//!
//! Dial → handshake → calls pass → the socket ends, or its path leads to another socket → dial again. There is no limit in time
//! and no way to give up but a fatal answer.

pub(crate) mod dial;
pub(crate) mod socket_file;
pub(crate) mod waiting;

use std::convert::Infallible;
use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::Duration;

use tokio::time::sleep;

use crate::driver::{Passing, Shared};
use crate::generation::{Generation, SocketTasks};
use crate::identity::handshake::{Questions, Refusal};
use crate::{DriverInfo, Error, Handshake};
use dial::dial;
use waiting::Waiting;

/// How often the path is looked at while a connection is up.
const FILE_INTERVAL: Duration = Duration::from_secs(5);
/// Between dials the pause doubles from the first to the last of these.
const DIAL_PAUSES: (Duration, Duration) = (Duration::from_millis(50), Duration::from_secs(1));

/// The task behind a [`Driver`](crate::Driver). Its owner runs it for as long as the process works.
pub struct Connection {
    shared: Arc<Shared>,
    handshake: Handshake,
    generations: AtomicU64,
}

/// Why a connection is not the one for new calls any more.
enum Over {
    Lost,
    Replaced(Passing),
}

impl Connection {
    pub(crate) fn new(shared: Arc<Shared>, handshake: Handshake) -> Self {
        Self { shared, handshake, generations: AtomicU64::new(0) }
    }

    /// Connects, probes, watches and reconnects. Resolves only when the process must end, and no call passes from then on.
    ///
    /// Dropped, it cuts the connection.
    pub async fn run(self) -> Error {
        let tasks = SocketTasks::new();
        let error = match self.keep_connected(&tasks).await {
            Ok(never) => match never {},
            Err(error) => error,
        };
        self.shared.waiting.because(error.to_string());
        self.shared.stop_calls();
        tasks.stop().await;
        error
    }

    async fn keep_connected(&self, tasks: &SocketTasks) -> Result<Infallible, Error> {
        let address = &self.shared.caller.address;
        let mut known: Option<Arc<DriverInfo>> = None;
        loop {
            let mut passing = self.connect(tasks, known.as_deref(), &self.shared.waiting).await?;
            loop {
                let (name, generation) = (&passing.info.name, passing.generation.number());
                tracing::info!(%address, driver = %name, generation, "Connected to the CSI driver");
                self.shared.let_calls_pass(passing.clone());
                known = Some(passing.info.clone());
                match self.watch(tasks, &passing).await? {
                    Over::Replaced(next) => passing = next,
                    Over::Lost => break,
                }
            }
            self.shared.waiting.because("the driver closed the connection");
            self.shared.stop_calls();
            tracing::warn!(%address, generation = passing.generation.number(), "Lost the connection to the CSI driver, reconnecting");
        }
    }

    /// Dials until a handshake passes, saying every ten seconds why it has not.
    async fn connect(
        &self,
        tasks: &SocketTasks,
        known: Option<&DriverInfo>,
        waiting: &Waiting,
    ) -> Result<Passing, Error> {
        let attempts = async {
            let mut failures = 0_u32;
            loop {
                match self.attempt(tasks, known, waiting).await {
                    Ok(passing) => return Ok(passing),
                    Err(Refusal::Fatal(error)) => return Err(error),
                    Err(Refusal::Again(reason)) => waiting.because(reason),
                }
                sleep(pause_after_dial(failures)).await;
                failures = failures.saturating_add(1);
            }
        };
        tokio::select! {
            biased;
            connected = attempts => connected,
            never = waiting.report(&self.shared.caller.address) => match never {},
        }
    }

    async fn attempt(
        &self,
        tasks: &SocketTasks,
        known: Option<&DriverInfo>,
        waiting: &Waiting,
    ) -> Result<Passing, Refusal> {
        let caller = &self.shared.caller;
        let (stream, file) = dial(caller.address.path()).await.map_err(|error| Refusal::Again(error.to_string()))?;
        waiting.because("the driver accepted the connection and has not answered Probe yet");
        let number = self.generations.fetch_add(1, Ordering::Relaxed) + 1;
        let generation = Generation::open(number, stream, file, tasks)
            .await
            .map_err(|error| Refusal::Again(format!("HTTP/2 could not start: {error}")))?;
        let questions = Questions { address: &caller.address, caller, generation: &generation, waiting, known };
        let info = questions.ask(self.handshake).await?;
        Ok(Passing { generation: Arc::new(generation), info: Arc::new(info) })
    }

    /// Waits for the end of the connection, or for another socket under its path that passes the handshake.
    async fn watch(&self, tasks: &SocketTasks, passing: &Passing) -> Result<Over, Error> {
        let replaced = async {
            while !passing.generation.file().was_replaced_at(self.shared.caller.address.path()) {
                sleep(FILE_INTERVAL).await;
            }
            tracing::info!(address = %self.shared.caller.address, "The CSI driver's socket file was replaced, connecting to the new one");
            self.connect(tasks, Some(&passing.info), &Waiting::new()).await
        };
        tokio::select! {
            biased;
            () = passing.generation.ended() => Ok(Over::Lost),
            next = replaced => next.map(Over::Replaced),
        }
    }
}

/// How long to wait before the socket is dialled again after this many failures before the last one: 50 ms, doubling up to 1 s.
pub fn pause_after_dial(failures: u32) -> Duration {
    let (first, last) = DIAL_PAUSES;
    first.saturating_mul(2_u32.saturating_pow(failures)).min(last)
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn the_pause_between_dials_doubles_up_to_one_second() {
        let pauses: Vec<_> =
            [0, 1, 4, 5, 31, 32, u32::MAX].map(|failures| pause_after_dial(failures).as_millis()).to_vec();
        assert_eq!(pauses, [50, 100, 800, 1000, 1000, 1000, 1000]);
    }
}
