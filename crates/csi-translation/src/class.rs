//! What the classes of several plugins have in common.

use std::collections::BTreeMap;

use storage_kube::wire::{AllowedTopology, LabelValues};

use crate::Error;
use crate::topology::{BETA_ZONE, ZONE};

/// What of a class is translated.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Class {
    /// `parameters`
    pub parameters: BTreeMap<String, String>,
    /// `allowedTopologies`
    pub allowed_topologies: Vec<AllowedTopology>,
}

/// The key under which sidecars look for the file system.
pub(crate) const FS_TYPE: &str = "csi.storage.k8s.io/fstype";

/// The parameters under new keys: `rename` gives the key for one in lower case, `None` keeps it as it is.
pub(crate) fn renamed(
    parameters: BTreeMap<String, String>,
    rename: impl Fn(&str) -> Option<&'static str>,
) -> BTreeMap<String, String> {
    let keys = parameters.into_iter().map(|(key, value)| match rename(&key.to_ascii_lowercase()) {
        Some(new) => (new.to_owned(), value),
        None => (key, value),
    });
    keys.collect()
}

/// `fstype` under the key that sidecars do not pass on.
pub(crate) fn fs_type_renamed(parameters: BTreeMap<String, String>) -> BTreeMap<String, String> {
    renamed(parameters, |key| (key == "fstype").then_some(FS_TYPE))
}

/// The class with the parameters `zone` and `zones` as allowed topologies, under the driver's key for zones.
pub(crate) fn zones_as_topology(class: Class, csi_zone: &'static str) -> Result<Class, Error> {
    let mut zones = None;
    let mut parameters = class.parameters;
    parameters.retain(|key, value| match key.to_ascii_lowercase().as_str() {
        "zone" => {
            zones = Some(vec![value.clone()]);
            false
        }
        "zones" => {
            zones = Some(value.split(',').map(str::to_owned).collect());
            false
        }
        _ => true,
    });
    let allowed_topologies = match zones {
        None => zones_renamed(class.allowed_topologies, csi_zone),
        Some(values) if class.allowed_topologies.is_empty() => {
            vec![AllowedTopology { match_label_expressions: vec![LabelValues { key: csi_zone.to_owned(), values }] }]
        }
        Some(_) => return Err(Error::ZonesTwice),
    };
    Ok(Class { parameters, allowed_topologies })
}

/// Allowed topologies with the driver's key for zones.
pub(crate) fn zones_renamed(mut allowed: Vec<AllowedTopology>, csi_zone: &str) -> Vec<AllowedTopology> {
    for expression in allowed.iter_mut().flat_map(|term| &mut term.match_label_expressions) {
        if expression.key == ZONE || expression.key == BETA_ZONE {
            csi_zone.clone_into(&mut expression.key);
        }
    }
    allowed
}
