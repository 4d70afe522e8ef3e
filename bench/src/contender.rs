//! The two programs that are compared.

use std::ffi::OsString;
use std::time::Duration;

use anyhow::{Context as _, Result, ensure};
use e2e::cluster::Account;
use e2e::driver::Call;
use e2e::journal::Moment;
use e2e::sidecar::{Role, Settings};
use e2e::{Driver, Footprint, Program, Sidecar, eventually, peer};

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
        let settings = self.settings(role, account, driver).await?;
        let settings = flags.iter().fold(settings, |settings, flag| settings.flag(flag));
        let set = |settings: Settings, (name, value): &(&str, &str)| settings.environment(name, value);
        Ok(Run { sidecar: environment.iter().fold(settings, set).start()? })
    }

    /// The same on a host of that name, as each replica of a Deployment is: the name is all by which Go ones know which of
    /// them holds a Lease. Only root may give one.
    ///
    /// # Errors
    /// As [`start`](Self::start).
    pub async fn start_on(self, host: &str, role: Role, account: &Account, driver: &Driver) -> Result<Run> {
        let settings = self.settings(role, account, driver).await?;
        Ok(Run { sidecar: settings.map(|program| on_host(program, host)).start()? })
    }

    async fn settings(self, role: Role, account: &Account, driver: &Driver) -> Result<Settings> {
        let settings = match self {
            Self::Outrigger => Settings::release(role, &account.kubeconfig, &driver.address())?,
            Self::Go => peer::settings_with_defaults(role, &account.kubeconfig, &driver.address()).await?,
        };
        let namespace = format!("--leader-election-namespace={}", account.namespace);
        Ok(settings.flag("--leader-election").flag(&namespace).flag("--v=2"))
    }
}

/// Each launcher becomes the next program, so the process id is that of the sidecar.
fn on_host(mut program: Program, host: &str) -> Program {
    const RENAME: &str = "echo \"$0\" >/proc/sys/kernel/hostname && exec \"$@\"";
    let path = std::mem::replace(&mut program.path, "unshare".into());
    let launch = ["--uts", "sh", "-c", RENAME, host].map(OsString::from);
    program.arguments.splice(0..0, launch.into_iter().chain([path.into()]));
    program
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
        let started = self.sidecar.process().started_monotonic_nanos();
        let call = self.earliest_call(driver, rpc).await?;
        Ok(Duration::from_nanos(u64::try_from(call.started_monotonic_nanos - started)?))
    }

    /// The same with the time from another moment on.
    ///
    /// # Errors
    /// As [`first_call`](Self::first_call), and when it has sent one before.
    pub async fn first_call_since(&mut self, moment: Moment, driver: &Driver, rpc: &str) -> Result<Duration> {
        let arrived = self.earliest_call(driver, Some(rpc)).await?.started();
        ensure!(arrived >= moment, "{rpc} was called too early; {}", self.sidecar.process().tail());
        Ok(arrived.since(moment))
    }

    async fn earliest_call(&mut self, driver: &Driver, rpc: Option<&str>) -> Result<Call> {
        let pid = self.sidecar.pid();
        let what = format!("a call from process {pid}");
        let called = eventually(&what, PATIENCE, async || {
            let calls = driver.journal()?.into_iter();
            let ours = calls.filter(|call| call.peer_pid == Some(pid) && rpc.is_none_or(|rpc| call.rpc == rpc));
            Ok(ours.min_by_key(|call| call.started_monotonic_nanos))
        });
        called.await.with_context(|| self.sidecar.process().tail())
    }

    /// Waits until it stands by for the Lease of another.
    ///
    /// # Errors
    /// When it does not within two minutes.
    pub async fn stands_by(&mut self) -> Result<()> {
        // Ours is "standing by for the leader lease", Go's "attempting to acquire leader lease".
        self.sidecar.process().logged("leader lease", PATIENCE).await
    }

    /// SIGTERM, as the kubelet sends it. Gives the moment.
    ///
    /// # Errors
    /// When it has ended.
    pub fn terminate(&mut self) -> Result<Moment> {
        self.sidecar.terminate()?;
        Ok(Moment::now())
    }

    /// Waits for its end.
    ///
    /// # Errors
    /// When it does not end within two minutes.
    pub async fn ended(mut self) -> Result<()> {
        self.sidecar.process().ended(PATIENCE).await.map(drop)
    }

    /// Ends it in good order.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(mut self) -> Result<()> {
        self.sidecar.process().stop().await.map(drop)
    }
}
