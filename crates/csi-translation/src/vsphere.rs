//! `vsphereVolume` and `csi.vsphere.vmware.com`.

use serde_json::{Map, Value};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::InTreeSource;

use crate::CsiVolume;
use crate::class::{Class, FS_TYPE, renamed, zones_renamed};
use crate::new_volume::CsiSource;
use crate::topology::zone_key;

const PLUGIN: InTreePlugin = InTreePlugin::Vsphere;
const STORAGE_POLICY: &str = "storagepolicyname";

/// The driver takes the plugin's parameters under names of their own, and is told that the volume is the plugin's: it then
/// says where the volume's file is. What it does not know is left out, as the Go library does.
pub(crate) fn class(class: Class) -> Class {
    const UNKNOWN: &str = "";
    let mut parameters = renamed(class.parameters, |key| {
        Some(match key {
            "fstype" => FS_TYPE,
            STORAGE_POLICY => STORAGE_POLICY,
            "datastore" => "datastore-migrationparam",
            "diskformat" => "diskformat-migrationparam",
            "hostfailurestotolerate" => "hostfailurestotolerate-migrationparam",
            "forceprovisioning" => "forceprovisioning-migrationparam",
            "cachereservation" => "cachereservation-migrationparam",
            "diskstripes" => "diskstripes-migrationparam",
            "objectspacereservation" => "objectspacereservation-migrationparam",
            "iopslimit" => "iopslimit-migrationparam",
            _ => UNKNOWN,
        })
    });
    parameters.remove(UNKNOWN);
    parameters.insert("csimigration".to_owned(), "true".to_owned());
    let allowed_topologies = zones_renamed(class.allowed_topologies, zone_key(PLUGIN).unwrap_or_default());
    Class { parameters, allowed_topologies }
}

pub(crate) fn to_csi(source: &InTreeSource) -> CsiVolume {
    let mut volume = CsiVolume::new(PLUGIN, source.id.clone(), source);
    // The plugin has no read-only volumes.
    volume.read_only = false;
    if source.storage_policy_name.is_empty() {
        volume
    } else {
        volume.with(STORAGE_POLICY, &source.storage_policy_name)
    }
}

pub(crate) fn source(csi: &CsiSource) -> Map<String, Value> {
    let mut source = csi.as_source("volumePath", csi.attribute("initialvolumefilepath").unwrap_or_default());
    source.remove("readOnly");
    source
}
