//! A sidecar of a driver's Controller service as a process: ours, or one with the same flags.

use std::{
    os::unix::fs::symlink,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result, bail};
use rustix::process::Signal;
use tempfile::TempDir;

use crate::{
    binary::{bin, release_bin},
    eventually::eventually,
    http_get::http_get,
    ports::Port,
    process::{Process, Program},
};

/// Which of them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Makes and deletes volumes.
    Provisioner,
    /// Attaches them to nodes.
    Attacher,
    /// Makes them larger and changes their attributes.
    Resizer,
}

impl Role {
    /// Name of the program, and of the service account in its upstream deployment files.
    pub fn program(self) -> &'static str {
        match self {
            Self::Provisioner => "csi-provisioner",
            Self::Attacher => "csi-attacher",
            Self::Resizer => "csi-resizer",
        }
    }
}

/// How to start one.
#[derive(Debug)]
pub struct Settings {
    program: Program,
    directory: TempDir,
    port: Port,
}

/// One running replica, killed when dropped.
#[derive(Debug)]
pub struct Sidecar {
    process: Process,
    port: Port,
    _directory: TempDir,
}

impl Settings {
    /// Ours, for a driver's socket, which authenticates with a kubeconfig and serves metrics and health.
    ///
    /// # Errors
    /// When it is not built.
    pub fn new(role: Role, kubeconfig: &Path, csi_address: &str) -> Result<Self> {
        Self::of(role.program(), bin(role.program())?, kubeconfig, csi_address)
    }

    /// The release build of ours.
    ///
    /// # Errors
    /// When it is not built.
    pub fn release(role: Role, kubeconfig: &Path, csi_address: &str) -> Result<Self> {
        Self::of(role.program(), release_bin(role.program())?, kubeconfig, csi_address)
    }

    /// The same with another executable; `name` is for messages and its log.
    ///
    /// # Errors
    /// When its directory cannot be made or there is no port.
    pub fn of(name: &str, executable: PathBuf, kubeconfig: &Path, csi_address: &str) -> Result<Self> {
        let directory = crate::temporary_directory("sidecar")?;
        let port = Port::claim()?;
        let program = Program::new(name, executable, directory.path())
            .argument(format!("--kubeconfig={}", kubeconfig.display()))
            .argument(format!("--csi-address={csi_address}"))
            .argument(format!("--http-endpoint={}", port.address()))
            .argument("--v=5");
        Ok(Self { program, directory, port })
    }

    /// Starts the program under another file name, which is how it names itself to the API server.
    ///
    /// # Errors
    /// When its directory cannot be written.
    pub(crate) fn called(mut self, name: &str) -> Result<Self> {
        let link = self.directory.path().join(name);
        symlink(&self.program.path, &link).with_context(|| format!("cannot make {}", link.display()))?;
        self.program.path = link;
        Ok(self)
    }

    /// Adds a flag, later ones win.
    #[must_use]
    pub fn flag(mut self, flag: &str) -> Self {
        self.program = self.program.argument(flag);
        self
    }

    /// Sets an environment variable.
    #[must_use]
    pub fn environment(mut self, name: &str, value: &str) -> Self {
        self.program = self.program.environment(name, value);
        self
    }

    /// Changes how the program is started.
    #[must_use]
    pub fn map(mut self, change: impl FnOnce(Program) -> Program) -> Self {
        self.program = change(self.program);
        self
    }

    /// Starts it; that it serves or leads is waited for where it matters.
    ///
    /// # Errors
    /// When it cannot be started.
    pub fn start(self) -> Result<Sidecar> {
        Ok(Sidecar { process: self.program.start()?, port: self.port, _directory: self.directory })
    }
}

impl Sidecar {
    /// Its process: pid, log, signals, exit code.
    pub fn process(&mut self) -> &mut Process {
        &mut self.process
    }

    /// Process id, as the driver's journal has it.
    pub fn pid(&self) -> i32 {
        self.process.pid()
    }

    /// SIGTERM, as the kubelet sends it. The end is waited for with [`Process::ended`].
    ///
    /// # Errors
    /// When it has ended.
    pub fn terminate(&mut self) -> Result<()> {
        self.process.signal(Signal::TERM)
    }

    /// The metrics as a scraper gets them.
    ///
    /// # Errors
    /// When it does not serve.
    pub async fn metrics(&self) -> Result<String> {
        let (code, text) = self.http_get("/metrics").await?;
        if code != 200 {
            bail!("/metrics answers {code}: {text}");
        }
        Ok(text)
    }

    /// Waits until a line of the metrics starts with a text.
    ///
    /// # Errors
    /// When none does within `bound`, with the log's tail.
    pub async fn metric(&self, line: &str, bound: Duration) -> Result<()> {
        let what = format!("the metric {line}");
        let found = eventually(&what, bound, async || {
            let metrics = self.metrics().await?;
            Ok(metrics.lines().any(|found| found.starts_with(line)).then_some(()))
        });
        found.await.with_context(|| self.process.tail())
    }

    /// Code and body of a GET on the HTTP endpoint.
    ///
    /// # Errors
    /// When it does not serve.
    pub async fn http_get(&self, path: &str) -> Result<(u16, String)> {
        http_get(&self.port.address(), path).await
    }
}
