//! CSI ephemeral inline volumes: a directory that lives from NodePublishVolume to NodeUnpublishVolume.
//!
//! ```text
//! ephemeral/<volume id>/mount/   below the state directory
//! ```
//! There is no record: the directory is the volume. One that was made by a driver that died before it mounted it goes
//! with the kubelet's NodeUnpublishVolume, which comes for every pod that ever had a publish call.

use std::fs::{self, DirBuilder, Permissions};
use std::io;
use std::os::unix::fs::{DirBuilderExt, PermissionsExt};
use std::path::PathBuf;

use crate::node::error::NodeError;
use crate::node::mount_point;
use crate::node::request::is_file_name;
use crate::state::VolumeId;

/// Owner only: pods see the volume through its mount.
const PRIVATE: u32 = 0o700;
/// The top of the volume, for pods of any user.
const OPEN: u32 = 0o777;

#[derive(Debug)]
pub(super) struct EphemeralVolumes(pub(super) PathBuf);

impl EphemeralVolumes {
    /// The directory to mount, made if it is not there.
    pub(super) fn create(&self, id: &VolumeId) -> Result<PathBuf, NodeError> {
        let mount = self.0.join(id.to_string()).join("mount");
        let made = DirBuilder::new().recursive(true).mode(PRIVATE).create(&mount);
        let made = made.and_then(|()| fs::set_permissions(&mount, Permissions::from_mode(OPEN)));
        made.map_err(NodeError::io("create the directory", &mount))?;
        Ok(mount)
    }

    /// The directory, if it is one of these volumes.
    pub(super) fn find(&self, id: &VolumeId) -> Option<PathBuf> {
        let name = id.to_string();
        let dir = is_file_name(&name).then(|| self.0.join(name).join("mount"))?;
        dir.is_dir().then_some(dir)
    }

    /// Removes the volume with its content, once it is mounted nowhere.
    pub(super) fn remove_unused(&self, id: &VolumeId) -> Result<(), NodeError> {
        let name = id.to_string();
        if !is_file_name(&name) {
            return Ok(());
        }
        let dir = self.0.join(name);
        let real = match fs::canonicalize(&dir) {
            Err(error) if error.kind() == io::ErrorKind::NotFound => return Ok(()),
            real => real.map_err(NodeError::io("look for", &dir))?,
        };
        let mounts = mount_point::table(&dir)?;
        if mounts.of_volume(id).next().is_some() || mounts.below(&real).is_some() {
            return Ok(());
        }
        fs::remove_dir_all(&real).map_err(NodeError::io("remove", &real))
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn an_inline_volume_is_its_directory_and_goes_with_its_content() {
        let dir = tempfile::tempdir().unwrap();
        let volumes = EphemeralVolumes(dir.path().join("ephemeral"));
        let id = VolumeId::from("csi-1");
        assert_eq!(volumes.find(&id), None);
        volumes.remove_unused(&id).unwrap();
        let mount = volumes.create(&id).unwrap();
        fs::write(mount.join("file"), "content").unwrap();
        assert_eq!(volumes.create(&id).unwrap(), mount);
        assert_eq!(volumes.find(&id), Some(mount.clone()));
        volumes.remove_unused(&id).unwrap();
        assert!(!mount.exists() && volumes.0.exists());
    }

    #[test]
    fn an_id_does_not_lead_out_of_the_directory() {
        let dir = tempfile::tempdir().unwrap();
        fs::create_dir_all(dir.path().join("data/mount")).unwrap();
        let volumes = EphemeralVolumes(dir.path().join("ephemeral"));
        fs::create_dir(&volumes.0).unwrap();
        for id in ["../data", "..", ".", ""] {
            assert_eq!(volumes.find(&VolumeId::from(id)), None, "{id}");
            volumes.remove_unused(&VolumeId::from(id)).unwrap();
        }
        assert!(dir.path().join("data/mount").exists() && volumes.0.exists());
    }
}
