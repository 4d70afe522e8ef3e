//! Lease times of the replicas in these tests, where their length is not the point.

use std::time::Duration;

use anyhow::Result;
use e2e::Sidecar;
use e2e::sidecar::Settings;

/// What a leader waits for a renewal before it steps down, as in the flags of [`Brief::brief`].
pub(crate) const RENEW_DEADLINE: Duration = Duration::from_secs(3);

/// Way of a call from the gate to the driver, and of a lease write to the proxy, on a busy machine.
pub(crate) const ON_ITS_WAY: Duration = Duration::from_millis(500);

pub(crate) trait Brief: Sized {
    /// With a lease that others wait five seconds for instead of fifteen.
    fn brief(self) -> Self;
}

impl Brief for Settings {
    fn brief(self) -> Self {
        self.flag("--leader-election-lease-duration=5s")
            .flag("--leader-election-renew-deadline=3s")
            .flag("--leader-election-retry-period=1s")
    }
}

/// Starts a replica that is not to lead, and waits until it stands by.
pub(crate) async fn standing_by(settings: Settings) -> Result<Sidecar> {
    let mut standby = settings.start()?;
    standby.process().logged("standing by for the leader lease", e2e::scene::PATIENCE).await?;
    Ok(standby)
}
