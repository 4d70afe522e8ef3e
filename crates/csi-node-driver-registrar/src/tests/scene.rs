//! A registrar between a fake driver and a plugin directory, all on the runtime of the test.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::cell::RefCell;
use std::os::fd::OwnedFd;
use std::os::unix::fs::MetadataExt as _;
use std::path::{Path, PathBuf};
use std::time::Duration;

use fake_driver::FakeDriver;
use rustix::fs::{Mode, OFlags, open};
use tempfile::TempDir;
use tokio::task::JoinSet;
use tokio::time::{sleep, timeout};
use tokio_util::sync::CancellationToken;

use super::kubelet::Kubelet;
use crate::args::Config;
use crate::error::Error;
use crate::run::serve;

/// The longest any wait of a test takes, on the test's clock.
pub(crate) const PATIENCE: Duration = Duration::from_mins(1);
/// What kubelet is told as the driver's socket.
pub(crate) const ENDPOINT: &str = "/var/lib/kubelet/plugins/fake.csi.example.com/csi.sock";

/// A plugin directory, with a driver.
pub(crate) struct Scene {
    pub(crate) driver: FakeDriver,
    pub(crate) directory: TempDir,
}

/// A registrar that runs.
pub(crate) struct Running {
    stop: CancellationToken,
    task: JoinSet<Result<(), Error>>,
}

impl Scene {
    pub(crate) async fn new() -> Self {
        Self::with(FakeDriver::start().await)
    }

    pub(crate) fn with(driver: FakeDriver) -> Self {
        Self { driver, directory: tempfile::tempdir().unwrap() }
    }

    pub(crate) fn config(&self) -> Config {
        Config {
            csi_address: self.driver.address().parse().unwrap(),
            endpoint: ENDPOINT.to_owned(),
            directory: self.directory.path().to_owned(),
            timeout: Duration::from_secs(1),
            http_address: None,
            pprof_asked: false,
        }
    }

    pub(crate) fn start(&self) -> Running {
        self.start_with(self.config())
    }

    #[expect(clippy::unused_self, reason = "a registrar belongs to a scene, which must outlive it")]
    pub(crate) fn start_with(&self, config: Config) -> Running {
        let stop = CancellationToken::new();
        let mut task = JoinSet::new();
        task.spawn(serve(config, stop.clone()));
        Running { stop, task }
    }

    /// The registration socket of a driver.
    pub(crate) fn socket_of(&self, driver: &str) -> PathBuf {
        self.directory.path().join(format!("{driver}-reg.sock"))
    }

    /// The registration socket of the fake driver under its first name.
    pub(crate) fn socket(&self) -> PathBuf {
        self.socket_of("fake.csi.example.com")
    }

    /// Waits for a socket at that path other than `earlier`; gives its inode.
    pub(crate) async fn socket_other_than(&self, earlier: Option<u64>) -> u64 {
        let path = self.socket();
        let mut found = None;
        until("another socket", || {
            found = inode_now(&path).filter(|inode| Some(*inode) != earlier);
            found.is_some()
        })
        .await;
        assert_eq!(inode(&path), found);
        found.unwrap()
    }

    /// Kubelet, connected to the socket as soon as it is there.
    pub(crate) async fn kubelet(&self) -> Kubelet {
        self.socket_other_than(None).await;
        Kubelet::dial(&self.socket()).await
    }

    /// The names in the plugin directory.
    pub(crate) fn files(&self) -> Vec<String> {
        let entries = std::fs::read_dir(self.directory.path()).unwrap();
        let mut names: Vec<_> = entries.map(|entry| entry.unwrap().file_name().into_string().unwrap()).collect();
        names.sort();
        names
    }
}

impl Running {
    /// Ends it as SIGTERM does.
    pub(crate) async fn stop(mut self) {
        self.stop.cancel();
        self.end().await.unwrap();
    }

    /// Waits for its end.
    pub(crate) async fn end(&mut self) -> Result<(), Error> {
        timeout(PATIENCE, self.task.join_next()).await.expect("the registrar ends").unwrap().unwrap()
    }

    pub(crate) fn is_running(&mut self) -> bool {
        self.task.try_join_next().is_none()
    }
}

/// Waits until `done`.
pub(crate) async fn until(what: &str, mut done: impl FnMut() -> bool) {
    let wait = async {
        while !done() {
            sleep(Duration::from_millis(5)).await;
        }
    };
    timeout(PATIENCE, wait).await.unwrap_or_else(|_| panic!("waited in vain for {what}"));
}

/// The inode at the path, which no later file gets as long as the test runs.
pub(crate) fn inode(path: &Path) -> Option<u64> {
    thread_local!(static KEPT: RefCell<Vec<OwnedFd>> = const { RefCell::new(Vec::new()) });
    let kept = open(path, OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC, Mode::empty()).ok()?;
    KEPT.with_borrow_mut(|all| all.push(kept));
    inode_now(path)
}

fn inode_now(path: &Path) -> Option<u64> {
    std::fs::symlink_metadata(path).ok().map(|found| found.ino())
}
