//! A limit on the memory of a process, as a container has it: a control group of its own.

use std::{
    fs,
    path::{Path, PathBuf},
    process::id,
    sync::atomic::{AtomicU32, Ordering},
};

use anyhow::{Context as _, Result};

static GROUPS: AtomicU32 = AtomicU32::new(0);

/// A control group whose members are killed when together they need more. Removed when dropped, which must be after its
/// members have ended.
#[derive(Debug)]
pub struct MemoryLimit {
    directory: PathBuf,
}

impl MemoryLimit {
    /// A group without members, which may have so many bytes; `None` where this user may not make one.
    ///
    /// # Errors
    /// When a group could be made but takes no limit.
    pub fn new(bytes: u64) -> Result<Option<Self>> {
        let (root, limit) = if Path::new("/sys/fs/cgroup/memory").is_dir() {
            ("/sys/fs/cgroup/memory", "memory.limit_in_bytes")
        } else {
            ("/sys/fs/cgroup", "memory.max")
        };
        let number = GROUPS.fetch_add(1, Ordering::Relaxed);
        let directory = Path::new(root).join(format!("outrigger-limit-{}-{number}", id()));
        if fs::create_dir(&directory).is_err() {
            return Ok(None);
        }
        let group = Self { directory };
        if !group.directory.join(limit).exists() {
            return Ok(None);
        }
        group.write(limit, &bytes)?;
        Ok(Some(group))
    }

    /// Puts a process in. What it has in memory already is not counted, what it takes from then on is.
    ///
    /// # Errors
    /// When it has ended.
    pub fn apply(&self, pid: i32) -> Result<()> {
        self.write("cgroup.procs", &pid)
    }

    fn write(&self, file: &str, value: &impl ToString) -> Result<()> {
        let path = self.directory.join(file);
        fs::write(&path, value.to_string()).with_context(|| format!("cannot write {}", path.display()))
    }
}

impl Drop for MemoryLimit {
    fn drop(&mut self) {
        drop(fs::remove_dir(&self.directory));
    }
}
