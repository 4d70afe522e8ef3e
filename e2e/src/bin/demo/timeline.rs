//! What the demo prints: each line with the seconds since the start.

use std::cell::Cell;
use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::scene::PATIENCE;
use e2e::{Driver, Sidecar};
use tokio::time::Instant;

/// Calls that move a volume; the others only ask.
const SHOWN: [&str; 8] = [
    "CreateVolume",
    "ControllerPublishVolume",
    "NodeStageVolume",
    "NodePublishVolume",
    "NodeUnpublishVolume",
    "NodeUnstageVolume",
    "ControllerUnpublishVolume",
    "DeleteVolume",
];

pub(crate) struct Timeline {
    start: Instant,
    /// Calls of the driver's journal that were looked at.
    calls: Cell<usize>,
}

impl Timeline {
    pub(crate) fn start() -> Self {
        Self { start: Instant::now(), calls: Cell::new(0) }
    }

    pub(crate) fn say(&self, what: impl std::fmt::Display) {
        println!("{:7.2} s  {what}", self.start.elapsed().as_secs_f64());
    }

    /// The calls that have ended since the last time.
    pub(crate) fn show_calls(&self, driver: &Driver) -> Result<()> {
        let journal = driver.journal()?;
        for call in journal.iter().skip(self.calls.replace(journal.len())) {
            if !SHOWN.contains(&call.rpc.as_str()) {
                continue;
            }
            let took = Duration::from_nanos(u64::try_from(call.ended_monotonic_nanos - call.started_monotonic_nanos)?);
            let caller = call.peer_pid.map_or_else(|| "the kubelet".to_owned(), |pid| format!("process {pid}"));
            self.say(format_args!("  CSI {} from {caller}: {} after {took:.1?}", call.rpc, call.code));
        }
        Ok(())
    }

    /// Ends a sidecar as the kubelet does.
    pub(crate) async fn end(&self, name: &str, sidecar: Option<&mut Sidecar>) -> Result<()> {
        let sidecar = sidecar.context("it runs")?;
        sidecar.terminate()?;
        let code = sidecar.process().ended(PATIENCE).await?;
        self.say(format_args!("{name} got SIGTERM, released its lease and ended with exit code {code}"));
        Ok(())
    }
}
