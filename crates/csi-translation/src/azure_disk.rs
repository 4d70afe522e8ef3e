//! `azureDisk` and `disk.csi.azure.com`.

use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::wire::InTreeSource;

use crate::class::{Class, zones_as_topology};
use crate::new_volume::CsiSource;
use crate::topology::zone_key;
use crate::{CsiVolume, Error};

const PLUGIN: InTreePlugin = InTreePlugin::AzureDisk;
const MANAGED: &str = "Managed";

pub(crate) fn class(class: Class) -> Result<Class, Error> {
    let zone = zone_key(PLUGIN).unwrap_or_default();
    let mut class = zones_as_topology(class, zone)?;
    let expressions = class.allowed_topologies.iter_mut().flat_map(|term| &mut term.match_label_expressions);
    for value in expressions.filter(|expression| expression.key == zone).flat_map(|expression| &mut expression.values) {
        // A region without zones: nodes are labelled with the number of their failure domain, and the driver knows none.
        if !value.is_empty() && value.bytes().all(|byte| byte.is_ascii_digit()) {
            value.clear();
        }
    }
    Ok(class)
}

pub(crate) fn to_csi(source: &InTreeSource) -> Result<CsiVolume, Error> {
    if let Some(kind) = source.kind.as_ref().filter(|kind| !kind.eq_ignore_ascii_case(MANAGED)) {
        return Err(Error::DiskKind(kind.clone()));
    }
    let mut volume = CsiVolume::new(PLUGIN, source.id.clone(), source).with("kind", MANAGED);
    if let Some(mode) = &source.caching_mode {
        volume = volume.with("cachingmode", mode);
    }
    if let Some(fs_type) = &source.fs_type {
        volume = volume.with("fstype", fs_type);
    }
    Ok(volume)
}

pub(crate) fn source(csi: &CsiSource) -> Result<Map<String, Value>, Error> {
    let uri = csi.handle();
    let name = disk_name(uri).ok_or_else(|| Error::Handle {
        plugin: PLUGIN,
        handle: uri.to_owned(),
        form: "/subscriptions/ID/resourceGroups/GROUP/providers/Microsoft.Compute/disks/NAME",
    })?;
    let mut fs_type = csi.fs_type();
    let mut source = Map::new();
    for (key, value) in csi.attributes().filter(|(_, value)| !value.is_empty()) {
        match key.to_ascii_lowercase().as_str() {
            "cachingmode" => {
                source.insert("cachingMode".to_owned(), json!(value));
            }
            "fstype" => fs_type = value,
            _ => {}
        }
    }
    source.insert("diskName".to_owned(), json!(name));
    source.insert("diskURI".to_owned(), json!(uri));
    source.insert("fsType".to_owned(), json!(fs_type));
    source.insert("readOnly".to_owned(), json!(csi.read_only()));
    source.insert("kind".to_owned(), json!(MANAGED));
    Ok(source)
}

/// The last part of the URI of a managed disk, or of a blob for one of another kind.
fn disk_name(uri: &str) -> Option<&str> {
    let is_blob = uri.len() > 4 && uri.get(..4).is_some_and(|scheme| scheme.eq_ignore_ascii_case("http"));
    if is_blob {
        let (_, rest) = uri.split_once("http")?;
        let (_, rest) = rest.split_once("://")?;
        return after_last(rest, |rest| rest.strip_prefix("/vhds/"));
    }
    let (_, rest) = uri.split_once("/subscriptions/")?;
    let (_, rest) = rest.split_once("/resourceGroups/")?;
    after_last(rest, |rest| {
        // Whatever stands for the dot.
        let mut rest = rest.strip_prefix("/providers/Microsoft")?.chars();
        rest.next()?;
        rest.as_str().strip_prefix("Compute/disks/")
    })
}

/// What follows the last place where `strip` finds its prefix with something behind it.
fn after_last<'a>(text: &'a str, strip: impl Fn(&'a str) -> Option<&'a str>) -> Option<&'a str> {
    text.rmatch_indices('/').find_map(|(at, _)| strip(&text[at..]).filter(|rest| !rest.is_empty()))
}
