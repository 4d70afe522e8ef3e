//! `gcePersistentDisk` and `pd.csi.storage.gke.io`.

use std::collections::BTreeMap;

use serde_json::{Map, Value, json};
use storage_kube::access_mode::AccessMode;
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::InTreeSource;

use crate::class::{Class, fs_type_renamed, zones_as_topology};
use crate::new_volume::{CsiSource, one_region};
use crate::topology::{BETA_ZONE, ZONE, ZONES_DELIMITER, zone_key};
use crate::{CsiVolume, Error};

const PLUGIN: InTreePlugin = InTreePlugin::GcePd;
/// Stands in a handle for what the plugin's source does not tell.
const UNSPECIFIED: &str = "UNSPECIFIED";
const HANDLE_FORM: &str = "projects/PROJECT/zones/ZONE/disks/NAME or projects/PROJECT/regions/REGION/disks/NAME";
const NODE_ID_FORM: &str = "projects/PROJECT/zones/ZONE/instances/NAME";

pub(crate) fn class(class: Class) -> Result<Class, Error> {
    let mut class = zones_as_topology(class, zone_key(PLUGIN).unwrap_or_default())?;
    class.parameters = fs_type_renamed(class.parameters);
    Ok(class)
}

pub(crate) fn to_csi(source: &InTreeSource, labels: Option<&BTreeMap<String, String>>) -> Result<CsiVolume, Error> {
    let label = |key| labels.and_then(|labels| labels.get(key)).filter(|value| !value.is_empty());
    let zones: Vec<_> =
        label(BETA_ZONE).or_else(|| label(ZONE)).map_or("", String::as_str).split(ZONES_DELIMITER).collect();
    let name = &source.id;
    let handle = match zones.as_slice() {
        [] | [""] => zonal(UNSPECIFIED, UNSPECIFIED, name),
        [zone] => zonal(UNSPECIFIED, zone, name),
        zones => regional(UNSPECIFIED, &region(zones)?, name),
    };
    let partition = if source.partition == 0 { String::new() } else { source.partition.to_string() };
    Ok(CsiVolume::new(PLUGIN, handle, source).with("partition", partition))
}

/// What the driver can do of what the plugin took without asking: it never attached a disk for writing twice.
pub(crate) fn access_modes(modes: &[AccessMode]) -> Vec<AccessMode> {
    let has = |mode: &AccessMode| modes.contains(mode);
    if modes.is_empty() {
        return Vec::new();
    }
    let reads_only =
        has(&AccessMode::ReadOnlyMany) && !has(&AccessMode::ReadWriteOnce) && !has(&AccessMode::ReadWriteMany);
    vec![if reads_only { AccessMode::ReadOnlyMany } else { AccessMode::ReadWriteOnce }]
}

pub(crate) fn source(csi: &CsiSource) -> Result<Map<String, Value>, Error> {
    let name = csi.handle().split('/').nth(5).ok_or_else(|| malformed(csi.handle()))?;
    let mut source = csi.as_source("pdName", name);
    let partition = csi.partition().filter(|_| csi.attribute("partition") != Some("")).transpose()?;
    if let Some(partition) = partition.filter(|partition| *partition != 0) {
        source.insert("partition".to_owned(), json!(partition));
    }
    Ok(source)
}

/// The handle with project, and zone or region, of the node, where it leaves them open.
pub(crate) fn repaired(handle: &str, node_id: &str) -> Result<String, Error> {
    let parts: Vec<_> = handle.split('/').collect();
    let [_, project, kind, place, _, name, ..] = parts.as_slice() else { return Err(malformed(handle)) };
    if *project != UNSPECIFIED {
        return Ok(handle.to_owned());
    }
    let parts: Vec<_> = node_id.split('/').collect();
    let [_, project, _, zone, _, _, ..] = parts.as_slice() else {
        return Err(Error::NodeId { node_id: node_id.to_owned(), form: NODE_ID_FORM });
    };
    match (*kind, *place) {
        ("zones", UNSPECIFIED) => Ok(zonal(project, zone, name)),
        ("zones", own) => Ok(zonal(project, own, name)),
        ("regions", UNSPECIFIED) => Ok(regional(project, &region(&[zone])?, name)),
        ("regions", own) => Ok(regional(project, own, name)),
        _ => Err(malformed(handle)),
    }
}

/// `europe-west1-b` lies in `europe-west1`.
pub(crate) fn region(zones: &[&str]) -> Result<String, Error> {
    one_region(zones, "europe-west1-b", |zone| {
        let (region, _) = zone.rsplit_once('-')?;
        (region.matches('-').count() == 1).then(|| region.to_owned())
    })
}

fn zonal(project: &str, zone: &str, name: &str) -> String {
    format!("projects/{project}/zones/{zone}/disks/{name}")
}

fn regional(project: &str, region: &str, name: &str) -> String {
    format!("projects/{project}/regions/{region}/disks/{name}")
}

fn malformed(handle: &str) -> Error {
    Error::Handle { plugin: PLUGIN, handle: handle.to_owned(), form: HANDLE_FORM }
}
