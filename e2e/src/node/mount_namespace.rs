//! Where mounts of a node are seen, and of nobody else.

use std::{
    path::{Path, PathBuf},
    sync::{
        Arc,
        atomic::{AtomicI32, Ordering},
    },
};

use anyhow::{Result, ensure};

/// The mount namespace of one node, whichever process holds it. `/proc` in it is the machine's, so that programs started
/// there have the process ids that everybody sees.
#[derive(Clone, Debug, Default)]
pub struct MountNamespace(Arc<AtomicI32>);

impl MountNamespace {
    /// 0 while the node is down.
    pub(super) fn held_by(&self, pid: i32) {
        self.0.store(pid, Ordering::Relaxed);
    }

    /// Path of the namespace, to be entered by a process on the host.
    ///
    /// # Errors
    /// When the node is down.
    pub fn path(&self) -> Result<PathBuf> {
        let pid = self.0.load(Ordering::Relaxed);
        ensure!(pid != 0, "the node is down, so nothing can be mounted there");
        Ok(PathBuf::from(format!("/proc/{pid}/ns/mnt")))
    }

    /// A path of the node as this process reaches it.
    ///
    /// # Errors
    /// When the node is down.
    pub fn seen_from_here(&self, path: &Path) -> Result<PathBuf> {
        let pid = self.0.load(Ordering::Relaxed);
        ensure!(pid != 0, "the node is down, so nothing of it can be seen");
        Ok(Path::new(&format!("/proc/{pid}/root")).join(path.strip_prefix("/").unwrap_or(path)))
    }

    /// The mounts as the node sees them, one line of `/proc/self/mountinfo` each; none while it is down.
    ///
    /// # Errors
    /// When they cannot be read.
    pub fn mounts(&self) -> Result<Vec<String>> {
        let pid = self.0.load(Ordering::Relaxed);
        if pid == 0 {
            return Ok(Vec::new());
        }
        Ok(std::fs::read_to_string(format!("/proc/{pid}/mountinfo"))?.lines().map(str::to_owned).collect())
    }
}
