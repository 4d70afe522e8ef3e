//! `cinder` and `cinder.csi.openstack.org`.

use serde_json::{Map, Value};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::InTreeSource;

use crate::CsiVolume;
use crate::class::{Class, fs_type_renamed, zones_renamed};
use crate::new_volume::CsiSource;
use crate::topology::zone_key;

const PLUGIN: InTreePlugin = InTreePlugin::Cinder;

/// Parameter `availability` stays: the driver knows it.
pub(crate) fn class(class: Class) -> Class {
    Class {
        parameters: fs_type_renamed(class.parameters),
        allowed_topologies: zones_renamed(class.allowed_topologies, zone_key(PLUGIN).unwrap_or_default()),
    }
}

pub(crate) fn to_csi(source: &InTreeSource) -> CsiVolume {
    CsiVolume::new(PLUGIN, source.id.clone(), source)
}

pub(crate) fn source(csi: &CsiSource) -> Map<String, Value> {
    csi.as_source("volumeID", csi.handle())
}
