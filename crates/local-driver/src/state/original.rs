//! What a copy is made of: a snapshot or a volume that stays there while it is read.

use std::collections::HashMap;
use std::fs::File;
use std::path::PathBuf;
use std::sync::Arc;

use parking_lot::Mutex;
use rustix::fs::syncfs;

use crate::error::Error;
use crate::loop_device::LoopDevice;
use crate::state::Access;
use crate::state::files::failed;

/// Content to copy. What it belongs to is not deleted before this is dropped; it may be written to, published and
/// copied once more meanwhile.
#[derive(Debug)]
pub(super) struct Original {
    /// The directory or file.
    pub(super) content: PathBuf,
    pub(super) access: Access,
    pub(super) bytes: i64,
    /// Where the content is attached: what was written there may not be in the file yet.
    pub(super) devices: Vec<LoopDevice>,
    /// Where the file system in the content is mounted.
    pub(super) mounted: Option<PathBuf>,
    pub(super) _copying: Copying,
}

impl Original {
    /// Brings into the file what was written to a device, or to a file system on it, before this.
    pub(super) fn settle(&self) -> Result<(), Error> {
        if let Some(mounted) = &self.mounted {
            let synced = File::open(mounted).and_then(|dir| Ok(syncfs(&dir)?));
            synced.map_err(failed("sync the file system at", mounted))?;
        }
        for device in &self.devices {
            let path = device.path();
            File::open(&path).and_then(|device| device.sync_all()).map_err(failed("sync the loop device", &path))?;
        }
        Ok(())
    }
}

/// The ids of what is being copied.
#[derive(Clone, Debug, Default)]
pub(super) struct Copies(Arc<Mutex<HashMap<String, usize>>>);

/// One copy that is being made; ends when dropped.
#[derive(Debug)]
pub(super) struct Copying {
    copies: Copies,
    id: String,
}

impl Copies {
    pub(super) fn begin(&self, id: String) -> Copying {
        *self.0.lock().entry(id.clone()).or_default() += 1;
        Copying { copies: self.clone(), id }
    }

    pub(super) fn are_made_of(&self, id: &str) -> bool {
        self.0.lock().contains_key(id)
    }
}

impl Drop for Copying {
    fn drop(&mut self) {
        let mut copies = self.copies.0.lock();
        if let Some(count) = copies.get_mut(&self.id) {
            *count -= 1;
            if *count == 0 {
                copies.remove(&self.id);
            }
        }
    }
}
