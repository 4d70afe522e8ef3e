//! The two programs that are compared.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::cluster::Account;
use e2e::sidecar::{Role, Settings};
use e2e::{Driver, Footprint, Sidecar, eventually, peer};

/// Bound of each wait for one of them.
const PATIENCE: Duration = Duration::from_mins(2);

/// Whose program.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Contender {
    /// The release build of ours.
    Outrigger,
    /// The Go sidecar of the same role.
    Go,
}

impl Contender {
    /// Both, in the order of the columns.
    pub const BOTH: [Self; 2] = [Self::Outrigger, Self::Go];

    /// Heading of its column.
    pub fn name(self) -> &'static str {
        match self {
            Self::Outrigger => "Outrigger",
            Self::Go => "Go",
        }
    }

    /// Starts one beside a driver, as its upstream deployment does: with a service account and leader election, and with
    /// these flags more.
    ///
    /// # Errors
    /// When it is not built or cannot be started.
    pub async fn start(self, role: Role, account: &Account, driver: &Driver, flags: &[&str]) -> Result<Run> {
        self.start_in(role, account, driver, flags, &[]).await
    }

    /// The same with these variables in its environment.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_in(
        self,
        role: Role,
        account: &Account,
        driver: &Driver,
        flags: &[&str],
        environment: &[(&str, &str)],
    ) -> Result<Run> {
        let settings = match self {
            Self::Outrigger => Settings::release(role, &account.kubeconfig, &driver.address())?,
            Self::Go => peer::settings_with_defaults(role, &account.kubeconfig, &driver.address()).await?,
        };
        let namespace = format!("--leader-election-namespace={}", account.namespace);
        let settings = settings.flag("--leader-election").flag(&namespace).flag("--v=2");
        let settings = flags.iter().fold(settings, |settings, flag| settings.flag(flag));
        let set = |settings: Settings, (name, value): &(&str, &str)| settings.environment(name, value);
        Ok(Run { sidecar: environment.iter().fold(settings, set).start()? })
    }
}

/// A running one.
#[derive(Debug)]
pub struct Run {
    sidecar: Sidecar,
}

impl Run {
    /// What it takes at this moment.
    ///
    /// # Errors
    /// When it has ended.
    pub fn footprint(&mut self) -> Result<Footprint> {
        Footprint::of(self.sidecar.pid()).with_context(|| self.sidecar.process().tail())
    }

    /// Waits until it has sent a call to the driver, and gives the time from its start to the arrival of that call there.
    ///
    /// # Errors
    /// When it does not within two minutes.
    pub async fn first_call(&mut self, driver: &Driver, rpc: Option<&str>) -> Result<Duration> {
        let pid = self.sidecar.pid();
        let started = self.sidecar.process().started_monotonic_nanos();
        let what = format!("a call from process {pid}");
        let called = eventually(&what, PATIENCE, async || {
            let calls = driver.journal()?.into_iter();
            let ours = calls.filter(|call| call.peer_pid == Some(pid) && rpc.is_none_or(|rpc| call.rpc == rpc));
            Ok(ours.map(|call| call.started_monotonic_nanos).min())
        });
        let called = called.await.with_context(|| self.sidecar.process().tail())?;
        Ok(Duration::from_nanos(u64::try_from(called - started)?))
    }

    /// Ends it in good order.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(mut self) -> Result<()> {
        self.sidecar.process().stop().await.map(drop)
    }
}
