//! CSI volume capabilities: of a claim one per access mode, of a volume one for all.

use csi_proto::csi::v1::{
    VolumeCapability,
    volume_capability::{self, BlockVolume, MountVolume, access_mode::Mode},
};

use crate::access_mode::{self, AccessMode, Mapping};

/// How the volume is presented, from the claim's volume mode and the class.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum AccessType<'a> {
    /// A raw device.
    Block,
    /// Mounted.
    Mount {
        /// File system; `""` leaves it to the driver.
        fs_type: &'a str,
        /// `mountOptions` of the class, in order.
        mount_flags: &'a [String],
    },
}

/// One capability per access mode, in the claim's order; none for a claim without modes.
///
/// The volume mount group is never set: it belongs to a pod, and there is none yet.
pub fn volume_capabilities(
    modes: &[AccessMode],
    mapping: Mapping,
    access_type: AccessType<'_>,
) -> Result<Vec<VolumeCapability>, access_mode::Error> {
    modes.iter().map(|mode| Ok(capability(access_mode::to_csi(mode, mapping)?, access_type))).collect()
}

/// The one capability that stands for all modes of a volume, as publishing sends it
/// ([`access_mode::list_to_csi`]).
pub fn volume_capability(
    modes: &[AccessMode],
    mapping: Mapping,
    access_type: AccessType<'_>,
) -> Result<VolumeCapability, access_mode::Error> {
    Ok(capability(access_mode::list_to_csi(modes, mapping)?, access_type))
}

fn capability(mode: Mode, access_type: AccessType<'_>) -> VolumeCapability {
    VolumeCapability {
        access_mode: Some(volume_capability::AccessMode { mode: mode.into() }),
        access_type: Some(match access_type {
            AccessType::Block => volume_capability::AccessType::Block(BlockVolume {}),
            AccessType::Mount { fs_type, mount_flags } => volume_capability::AccessType::Mount(MountVolume {
                fs_type: fs_type.to_owned(),
                mount_flags: mount_flags.to_vec(),
                ..MountVolume::default()
            }),
        }),
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    const MOUNT: AccessType<'static> = AccessType::Mount { fs_type: "ext4", mount_flags: &[] };

    fn modes(capabilities: &[VolumeCapability]) -> Vec<Mode> {
        capabilities.iter().map(|capability| capability.access_mode.unwrap().mode()).collect()
    }

    #[test]
    fn one_capability_per_access_mode_in_order() {
        use AccessMode::{ReadOnlyMany, ReadWriteMany, ReadWriteOnce, ReadWriteOncePod};
        let rows = [
            (vec![ReadWriteMany], Mapping::Basic, vec![Mode::MultiNodeMultiWriter]),
            (vec![ReadOnlyMany], Mapping::Basic, vec![Mode::MultiNodeReaderOnly]),
            (vec![ReadWriteOnce], Mapping::Basic, vec![Mode::SingleNodeWriter]),
            (vec![ReadWriteOnce], Mapping::SingleNodeMultiWriter, vec![Mode::SingleNodeMultiWriter]),
            (vec![ReadWriteOncePod], Mapping::SingleNodeMultiWriter, vec![Mode::SingleNodeSingleWriter]),
            (
                vec![ReadOnlyMany, ReadWriteOnce],
                Mapping::Basic,
                vec![Mode::MultiNodeReaderOnly, Mode::SingleNodeWriter],
            ),
            (vec![], Mapping::Basic, vec![]),
        ];
        assert_eq!(rows.len(), 7);
        for (input, mapping, expected) in rows {
            let capabilities = volume_capabilities(&input, mapping, MOUNT).unwrap();
            assert_eq!(modes(&capabilities), expected, "{input:?} {mapping:?}");
        }
    }

    #[test]
    fn mount_carries_fs_type_and_flags_and_block_carries_nothing() {
        let flags = ["foo=bar".to_owned(), "baz=qux".to_owned()];
        let mount = AccessType::Mount { fs_type: "xfs", mount_flags: &flags };
        let capabilities = volume_capabilities(&[AccessMode::ReadWriteOnce], Mapping::Basic, mount).unwrap();
        let Some(volume_capability::AccessType::Mount(volume)) = &capabilities[0].access_type else {
            unreachable!("a mount capability");
        };
        assert_eq!((volume.fs_type.as_str(), volume.mount_flags.as_slice()), ("xfs", flags.as_slice()));
        assert_eq!(volume.volume_mount_group, "");

        let capabilities =
            volume_capabilities(&[AccessMode::ReadWriteOnce], Mapping::Basic, AccessType::Block).unwrap();
        assert_eq!(capabilities[0].access_type, Some(volume_capability::AccessType::Block(BlockVolume {})));
    }

    #[test]
    fn an_unknown_mode_is_an_error_even_beside_good_ones() {
        let input = [AccessMode::ReadWriteOnce, AccessMode::from("Nope")];
        assert_eq!(
            volume_capabilities(&input, Mapping::Basic, MOUNT),
            Err(access_mode::Error::Unsupported("Nope".into()))
        );
    }
}
