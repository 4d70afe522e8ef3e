//! A driver process in a directory of its own.

use std::path::{Path, PathBuf};
use std::process::Stdio;
use std::time::Duration;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::controller_client::ControllerClient;
use csi_proto::csi::v1::node_client::NodeClient;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use csi_proto::csi::v1::volume_capability::{AccessMode, AccessType, MountVolume};
use hyper_util::rt::TokioIo;
use local_driver::JournalLine;
use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;
use tokio::net::UnixStream;
use tokio::process::{Child, Command};
use tokio::time::timeout;
use tonic::Code;
use tonic::transport::{Channel, Endpoint};

pub(crate) const PATIENCE: Duration = Duration::from_secs(30);

pub(crate) struct Driver {
    pub(crate) dir: TempDir,
    /// The program and its arguments that run the driver; none means that it is run by itself.
    wrapper: Vec<&'static str>,
    flags: Vec<String>,
    child: Option<Child>,
}

impl Driver {
    pub(crate) async fn start(flags: &[&str]) -> Self {
        Self::start_in(&[], flags).await
    }

    /// A driver that another program runs.
    pub(crate) async fn start_in(wrapper: &[&'static str], flags: &[&str]) -> Self {
        let dir = tempfile::tempdir().unwrap();
        let journal = format!("--journal={}", dir.path().join("journal").display());
        let flags = flags.iter().map(|flag| (*flag).to_owned()).chain([journal]).collect();
        let mut driver = Self { dir, wrapper: wrapper.to_vec(), flags, child: None };
        driver.start_again().await;
        driver
    }

    pub(crate) async fn start_again(&mut self) {
        self.child = Some(self.command().spawn().unwrap());
        let appears = async {
            while UnixStream::connect(self.socket()).await.is_err() {
                tokio::time::sleep(Duration::from_millis(5)).await;
            }
        };
        timeout(PATIENCE, appears).await.expect("the socket appears");
    }

    pub(crate) fn command(&self) -> Command {
        let words = self.wrapper.iter().copied().chain([env!("CARGO_BIN_EXE_local-driver")]);
        let mut words = words.map(std::ffi::OsStr::new);
        let mut command = Command::new(words.next().unwrap());
        command.args(words).arg("--endpoint").arg(format!("unix://{}", self.socket().display()));
        command.arg("--state-dir").arg(self.dir.path().join("state")).args(&self.flags);
        command.stdin(Stdio::null()).stderr(Stdio::piped()).kill_on_drop(true);
        command
    }

    pub(crate) fn socket(&self) -> PathBuf {
        self.dir.path().join("csi.sock")
    }

    /// Sends the signal; exit code and log of the process that ends.
    pub(crate) async fn signal(&mut self, signal: Signal) -> (Option<i32>, String) {
        let child = self.child.take().unwrap();
        let pid = Pid::from_raw(i32::try_from(child.id().unwrap()).unwrap()).unwrap();
        kill_process(pid, signal).unwrap();
        let output = timeout(PATIENCE, child.wait_with_output()).await.expect("the process ends").unwrap();
        (output.status.code(), String::from_utf8_lossy(&output.stderr).into_owned())
    }

    pub(crate) async fn channel(&self) -> Channel {
        let path = self.socket();
        let connector = tower::service_fn(move |_| {
            let path = path.clone();
            async move { UnixStream::connect(path).await.map(TokioIo::new) }
        });
        Endpoint::from_static("http://localhost").connect_with_connector(connector).await.unwrap()
    }

    pub(crate) async fn controller(&self) -> ControllerClient<Channel> {
        ControllerClient::new(self.channel().await)
    }

    pub(crate) async fn node(&self) -> NodeClient<Channel> {
        NodeClient::new(self.channel().await)
    }

    /// Killed at once and started again, with what it had.
    pub(crate) async fn crash(&mut self) {
        self.signal(Signal::KILL).await;
        self.start_again().await;
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.dir.path().join(name)
    }

    pub(crate) fn journal(&self) -> Vec<JournalLine> {
        JournalLine::read_all(&self.dir.path().join("journal")).unwrap()
    }

    pub(crate) fn everything_written(&self) -> String {
        let mut text = String::new();
        collect(self.dir.path(), &mut text);
        text
    }
}

fn collect(dir: &Path, text: &mut String) {
    for entry in std::fs::read_dir(dir).unwrap() {
        let path = entry.unwrap().path();
        if path.is_dir() {
            collect(&path, text);
        } else if path.is_file() {
            text.push_str(&std::fs::read_to_string(path).unwrap());
        }
    }
}

pub(crate) fn named(name: &str) -> csi::CreateVolumeRequest {
    let capability = csi::VolumeCapability {
        access_type: Some(AccessType::Mount(MountVolume::default())),
        access_mode: Some(AccessMode { mode: Mode::SingleNodeWriter.into() }),
    };
    csi::CreateVolumeRequest {
        name: name.to_owned(),
        volume_capabilities: vec![capability],
        ..csi::CreateVolumeRequest::default()
    }
}

pub(crate) fn deletion(volume_id: String) -> csi::DeleteVolumeRequest {
    csi::DeleteVolumeRequest { volume_id, ..csi::DeleteVolumeRequest::default() }
}

pub(crate) async fn create(client: &mut ControllerClient<Channel>, name: &str) -> Result<String, Code> {
    let answer = client.create_volume(named(name)).await.map_err(|status| status.code())?;
    Ok(answer.into_inner().volume.unwrap().volume_id)
}
