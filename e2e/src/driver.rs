//! The project's own CSI driver as a process.

use std::{
    ffi::OsString,
    fs,
    path::{Path, PathBuf},
    time::Duration,
};

use anyhow::{Context as _, Result};
use serde::Deserialize;
use serde_json::Value;
use tempfile::TempDir;
use tokio::net::UnixStream;

use crate::{
    binary::bin,
    eventually::eventually,
    node::{MountNamespace, Node},
    process::{self, Process, Program},
};

const TO_SERVE: Duration = Duration::from_secs(20);

/// A `local-driver` or another with its flags, in a directory of its own, which is removed when it is dropped.
#[derive(Debug)]
pub struct Driver {
    executable: PathBuf,
    process: Option<Process>,
    name: String,
    arguments: Vec<OsString>,
    socket: PathBuf,
    mounts: Option<MountNamespace>,
    directory: TempDir,
}

/// One finished call, as the driver's journal has it.
#[derive(Clone, Debug, Deserialize)]
pub struct Call {
    /// `CreateVolume` and the like.
    pub rpc: String,
    /// The request, secrets hidden.
    pub request: Value,
    /// Process id of the caller.
    pub peer_pid: Option<i32>,
    /// Nanoseconds on the monotonic clock of this boot, the same in all processes.
    pub started_monotonic_nanos: i64,
    /// Nanoseconds on the same clock.
    pub ended_monotonic_nanos: i64,
    /// Name of the gRPC code, `OK` for success.
    pub code: String,
    /// Error text; empty for success.
    pub message: String,
}

impl Driver {
    /// Starts a driver of that plugin name with further flags of `local-driver`, and waits until it serves.
    ///
    /// # Errors
    /// When it is not built, or does not serve in time.
    pub async fn start(name: &str, flags: &[&str]) -> Result<Self> {
        let mut driver = Self::prepare(name, flags)?;
        driver.start_again().await?;
        Ok(driver)
    }

    /// The same, not started yet: its socket is not there.
    ///
    /// # Errors
    /// When it is not built, or its directory cannot be made.
    pub fn prepare(name: &str, flags: &[&str]) -> Result<Self> {
        Self::of(bin("local-driver")?, name, flags)
    }

    /// The same with another executable.
    pub(crate) fn of(executable: PathBuf, name: &str, flags: &[&str]) -> Result<Self> {
        let directory = crate::temporary_directory("driver")?;
        let arguments = flags.iter().map(OsString::from).collect();
        let socket = directory.path().join("csi.sock");
        Ok(Self { executable, process: None, name: name.to_owned(), arguments, socket, mounts: None, directory })
    }

    /// Starts it, with the volumes it had, and waits until it serves. Does nothing when it runs.
    ///
    /// # Errors
    /// When it does not serve in time.
    pub async fn start_again(&mut self) -> Result<()> {
        if self.process.is_some() {
            return Ok(());
        }
        let path = |flag: &str, path: &Path| format!("--{flag}={}", path.display());
        let mut program = Program::new("driver", self.executable.clone(), self.directory.path())
            .argument(format!("--endpoint={}", self.address()))
            .argument(format!("--driver-name={}", self.name))
            .argument(path("state-dir", &self.state_directory()))
            .argument(path("journal", &self.journal_file()))
            .arguments(&self.arguments);
        program.mounts.clone_from(&self.mounts);
        let process = self.process.insert(program.start()?);
        let socket = &self.socket;
        let serving = eventually("the driver to serve", TO_SERVE, async || {
            if let Some(code) = process.exit_code()? {
                return Ok(Some(Err(anyhow::anyhow!("the driver ended with exit code {code}"))));
            }
            Ok(UnixStream::connect(socket).await.is_ok().then_some(Ok(())))
        });
        serving.await.flatten().with_context(|| process.tail())
    }

    /// Replaces the further flags; they count from the next start.
    pub fn set_flags(&mut self, flags: &[&str]) {
        self.arguments = flags.iter().map(OsString::from).collect();
    }

    /// Gives it another plugin name; it counts from the next start.
    pub fn rename(&mut self, name: &str) {
        name.clone_into(&mut self.name);
    }

    /// Ends it in good order. Its volumes stay.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn stop(&mut self) -> Result<()> {
        process::stop(&mut self.process).await
    }

    /// Kills it. Its socket and its volumes stay.
    ///
    /// # Errors
    /// When it does not end.
    pub async fn kill(&mut self) -> Result<()> {
        process::kill(&mut self.process).await
    }

    /// Its process, when it runs.
    pub fn process(&mut self) -> Option<&mut Process> {
        self.process.as_mut()
    }

    /// Waits until a call of an RPC has arrived. Only a driver with `--log-level=debug` tells.
    ///
    /// # Errors
    /// When none does within `bound`, or the driver does not run.
    pub async fn called(&mut self, rpc: &str, bound: Duration) -> Result<()> {
        let process = self.process.as_mut().context("the driver does not run")?;
        process.logged(&format!("call begins rpc={rpc:?}"), bound).await
    }

    /// The plugin name.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `unix://` and the path of its socket.
    pub fn address(&self) -> String {
        format!("unix://{}", self.socket.display())
    }

    /// Path of its socket.
    pub fn socket(&self) -> &Path {
        &self.socket
    }

    /// Gives it the socket path of another; it counts from the next start.
    pub fn serve_at(&mut self, socket: &Path) {
        socket.clone_into(&mut self.socket);
    }

    /// Puts it on a node: it serves below the kubelet's directory, and mounts where the pods of the node see it. Counts from
    /// the next start.
    ///
    /// # Errors
    /// When the directory of its socket cannot be made.
    pub fn move_to(&mut self, node: &Node) -> Result<()> {
        self.mounts = Some(node.mounts().clone());
        self.socket = node.places().driver_socket(&self.name);
        self.socket.parent().map_or(Ok(()), fs::create_dir_all).context("cannot make the directory of the socket")
    }

    /// Where its files are, removed with it.
    pub fn directory(&self) -> &Path {
        self.directory.path()
    }

    /// Where its volumes and their records are.
    pub fn state_directory(&self) -> PathBuf {
        self.directory.path().join("state")
    }

    /// The finished calls of all its runs, in the order in which they ended.
    ///
    /// # Errors
    /// When a line is not as expected.
    pub fn journal(&self) -> Result<Vec<Call>> {
        let text = match fs::read_to_string(self.journal_file()) {
            Ok(text) => text,
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => return Ok(Vec::new()),
            Err(error) => return Err(error).context("cannot read the driver's journal"),
        };
        // A line without its end is still being written.
        let whole = text.rsplit_once('\n').map_or("", |(whole, _)| whole);
        whole.lines().map(|line| serde_json::from_str(line).with_context(|| format!("journal line {line}"))).collect()
    }

    /// The finished calls of one RPC.
    ///
    /// # Errors
    /// As [`journal`](Self::journal).
    pub fn calls(&self, rpc: &str) -> Result<Vec<Call>> {
        Ok(self.journal()?.into_iter().filter(|call| call.rpc == rpc).collect())
    }

    /// What it has recorded of a volume, by the volume's handle: `capacity_bytes`, `mutable_parameters` and the like. None for
    /// one that is gone.
    ///
    /// # Errors
    /// When its records cannot be read.
    pub fn record(&self, handle: &str) -> Result<Option<Value>> {
        match fs::read(self.state_directory().join("volumes").join(format!("{handle}.json"))) {
            Ok(record) => Ok(Some(serde_json::from_slice(&record)?)),
            Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(None),
            Err(error) => Err(error).context("cannot read the driver's record"),
        }
    }

    /// Node ids that it has recorded as those a volume is published to, by the volume's handle. None also for a volume that
    /// is gone.
    ///
    /// # Errors
    /// When its records cannot be read.
    pub fn published_to(&self, handle: &str) -> Result<Vec<String>> {
        let mut nodes = Vec::new();
        for entry in fs::read_dir(self.state_directory().join("volumes"))? {
            let record = match fs::read(entry?.path()) {
                // A record is written beside the one it replaces, and may be half there.
                Ok(record) => serde_json::from_slice::<Value>(&record).unwrap_or_default(),
                Err(error) if error.kind() == std::io::ErrorKind::NotFound => continue,
                Err(error) => return Err(error).context("cannot read the driver's records"),
            };
            if record["id"] == handle {
                let published = record["published"].as_array().into_iter().flatten();
                nodes.extend(published.filter_map(|one| Some(one["node_id"].as_str()?.to_owned())));
            }
        }
        Ok(nodes)
    }

    fn journal_file(&self) -> PathBuf {
        self.directory.path().join("journal")
    }
}
