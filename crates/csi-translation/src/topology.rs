//! Where a volume is: `nodeAffinity` and labels, with the plugins' keys for zones and regions or the driver's.
//!
//! Of the two generations of Kubernetes' own keys a volume uses one, see [`Keys::of`]. Works on the JSON of
//! `spec.nodeAffinity`; what is not understood there stays as it is.

use std::collections::{BTreeMap, BTreeSet};

use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;

use crate::Error;

/// Well-known label of the zone.
pub const ZONE: &str = "topology.kubernetes.io/zone";
/// The same, deprecated.
pub const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const REGION: &str = "topology.kubernetes.io/region";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
/// Between the zones in the label of a volume that is in several.
pub(crate) const ZONES_DELIMITER: &str = "__";

/// Tells the region from zones.
pub(crate) type RegionOf = fn(&[&str]) -> Result<String, Error>;

/// The driver's key for zones, if it has one.
pub fn zone_key(plugin: InTreePlugin) -> Option<&'static str> {
    match plugin {
        InTreePlugin::AwsEbs => Some("topology.ebs.csi.aws.com/zone"),
        InTreePlugin::GcePd => Some("topology.gke.io/zone"),
        InTreePlugin::Cinder => Some("topology.cinder.csi.openstack.org/zone"),
        InTreePlugin::AzureDisk => Some("topology.disk.csi.azure.com/zone"),
        InTreePlugin::Vsphere => Some("topology.csi.vmware.com/zone"),
        InTreePlugin::AzureFile | InTreePlugin::Portworx => None,
    }
}

/// vSphere's key for regions; the others' drivers have none.
const VSPHERE_REGION: &str = "topology.csi.vmware.com/region";

/// What the driver calls a label in the affinity of a volume of the plugin.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum DriverKey {
    /// By this key.
    Named(&'static str),
    /// It has no key for it.
    Unknown,
    /// As everybody: the label is no zone or region.
    Same,
}

/// The driver's key for a label of the plugin's volumes.
pub fn driver_key(plugin: InTreePlugin, label: &str) -> DriverKey {
    let key = match label {
        ZONE | BETA_ZONE => zone_key(plugin),
        REGION | BETA_REGION => (plugin == InTreePlugin::Vsphere).then_some(VSPHERE_REGION),
        _ => return DriverKey::Same,
    };
    key.map_or(DriverKey::Unknown, DriverKey::Named)
}

/// `spec.nodeAffinity` (null when absent) of a volume of the plugin, as the driver would have made it. Where it does not tell
/// the zone, the volume's labels do.
pub fn to_csi(plugin: InTreePlugin, labels: Option<&BTreeMap<String, String>>, affinity: &mut Value) {
    let label = |key: &str| labels.and_then(|labels| labels.get(key)).map(String::as_str);
    let keys = Keys::of(affinity, |key| label(key).is_some());
    let mut place = |key: &str, csi_key: &str, delimiter: Option<&str>| {
        if !values(affinity, key).is_empty() {
            rename(affinity, key, csi_key);
        } else if let Some(text) = label(key) {
            let found = delimiter.map_or_else(|| vec![text], |delimiter| text.split(delimiter).collect());
            add_everywhere(affinity, csi_key, &found);
        }
    };
    match (plugin, zone_key(plugin)) {
        (InTreePlugin::AwsEbs | InTreePlugin::GcePd | InTreePlugin::Cinder, Some(zone)) => {
            place(keys.zone, zone, Some(ZONES_DELIMITER));
            // Nodes of later releases have no deprecated labels.
            if keys.region == BETA_REGION && !values(affinity, BETA_REGION).is_empty() {
                rename(affinity, BETA_REGION, REGION);
            }
        }
        (InTreePlugin::Vsphere, Some(zone)) => {
            place(keys.zone, zone, None);
            place(keys.region, VSPHERE_REGION, None);
        }
        _ => {}
    }
}

/// Gives a volume object that a driver has made the plugin's keys and labels, in `spec.nodeAffinity` and
/// `metadata.labels`. `region_of`: the driver's zones tell the region too.
pub(crate) fn to_in_tree(volume: &mut Value, csi_zone: &str, region_of: Option<RegionOf>) -> Result<(), Error> {
    let (mut affinity, mut labels) = taken(volume);
    let keys = Keys::of(&affinity, |key| labels.contains_key(key));
    rename(&mut affinity, csi_zone, keys.zone);
    if let Some(region_of) = region_of {
        add_regions(&mut affinity, &mut labels, region_of)?;
    }
    let zones: Vec<_> = values(&affinity, keys.zone).into_iter().collect();
    if !zones.is_empty() {
        label_if_absent(&mut labels, keys.zone, &zones.join(ZONES_DELIMITER));
    }
    give_back(volume, affinity, labels);
    Ok(())
}

/// The same for vSphere, whose driver has a key for regions, and whose labels have room for one of each.
pub(crate) fn to_vsphere(volume: &mut Value, csi_zone: &str) {
    let (mut affinity, mut labels) = taken(volume);
    let keys = Keys::of(&affinity, |key| labels.contains_key(key));
    rename(&mut affinity, csi_zone, keys.zone);
    rename(&mut affinity, VSPHERE_REGION, keys.region);
    for key in [keys.zone, keys.region] {
        if let Some(first) = values(&affinity, key).first() {
            label_if_absent(&mut labels, key, first);
        }
    }
    give_back(volume, affinity, labels);
}

/// A region for each term that has none, and as a label if there is only one.
fn add_regions(affinity: &mut Value, labels: &mut Map<String, Value>, region_of: RegionOf) -> Result<(), Error> {
    let keys = Keys::of(affinity, |key| labels.contains_key(key));
    let mut found = false;
    for term in terms_mut(affinity) {
        found = true;
        let mut zones = Vec::new();
        let mut has_region = false;
        for expression in expressions(term) {
            match expression["key"].as_str() {
                Some(key) if key == keys.region => {
                    has_region = true;
                    break;
                }
                Some(key) if key == keys.zone => zones.extend(texts(&expression["values"])),
                _ => {}
            }
        }
        if !has_region {
            let region = region_of(&zones)?;
            add(term, keys.region, &[&region]);
        }
    }
    let regions = values(affinity, keys.region);
    if let (true, 1, Some(region)) = (found, regions.len(), regions.first()) {
        label_if_absent(labels, keys.region, region);
    }
    Ok(())
}

/// Kubernetes' own keys, of one generation.
struct Keys {
    zone: &'static str,
    region: &'static str,
}

impl Keys {
    /// Those that the volume uses: the affinity decides, then the labels, then there is no reason for deprecated ones.
    fn of(affinity: &Value, has_label: impl Fn(&str) -> bool) -> Self {
        let in_affinity = |key: &str| all_expressions(affinity).any(|expression| expression["key"] == key);
        let deprecated = if in_affinity(ZONE) {
            false
        } else if in_affinity(BETA_ZONE) {
            true
        } else {
            !has_label(ZONE) && has_label(BETA_ZONE)
        };
        if deprecated { Self { zone: BETA_ZONE, region: BETA_REGION } } else { Self { zone: ZONE, region: REGION } }
    }
}

fn terms(affinity: &Value) -> impl Iterator<Item = &Value> {
    affinity["required"]["nodeSelectorTerms"].as_array().into_iter().flatten()
}

fn terms_mut(affinity: &mut Value) -> impl Iterator<Item = &mut Value> {
    affinity.pointer_mut("/required/nodeSelectorTerms").and_then(Value::as_array_mut).into_iter().flatten()
}

fn expressions(term: &Value) -> impl Iterator<Item = &Value> {
    term["matchExpressions"].as_array().into_iter().flatten()
}

fn all_expressions(affinity: &Value) -> impl Iterator<Item = &Value> {
    terms(affinity).flat_map(expressions)
}

fn texts(values: &Value) -> impl Iterator<Item = &str> {
    values.as_array().into_iter().flatten().filter_map(Value::as_str)
}

/// All values of a key, in order, each once: terms are alternatives.
fn values(affinity: &Value, key: &str) -> BTreeSet<String> {
    let found = all_expressions(affinity).filter(|expression| expression["key"] == key);
    found.flat_map(|expression| texts(&expression["values"])).map(str::to_owned).collect()
}

fn rename(affinity: &mut Value, from: &str, to: &str) {
    for term in terms_mut(affinity) {
        for expression in term.get_mut("matchExpressions").and_then(Value::as_array_mut).into_iter().flatten() {
            if let Some(key) = expression.get_mut("key").filter(|key| **key == from) {
                *key = json!(to);
            }
        }
    }
}

/// One more expression in each term; nothing without a value that is not blank.
fn add_everywhere(affinity: &mut Value, key: &str, values: &[&str]) {
    let valid: BTreeSet<_> = values.iter().map(|value| value.trim()).filter(|value| !value.is_empty()).collect();
    let valid: Vec<_> = valid.into_iter().collect();
    if valid.is_empty() {
        return;
    }
    if terms(affinity).next().is_none() {
        *affinity = json!({ "required": { "nodeSelectorTerms": [{}] } });
    }
    terms_mut(affinity).for_each(|term| add(term, key, &valid));
}

fn add(term: &mut Value, key: &str, values: &[&str]) {
    let expression = json!({ "key": key, "operator": "In", "values": values });
    match term.as_object_mut().map(|term| term.entry("matchExpressions")).map(|all| all.or_insert(Value::Null)) {
        Some(Value::Array(all)) => all.push(expression),
        Some(none) => *none = json!([expression]),
        None => {}
    }
}

fn label_if_absent(labels: &mut Map<String, Value>, key: &str, value: &str) {
    if !labels.contains_key(key) {
        labels.insert(key.to_owned(), json!(value));
    }
}

fn taken(volume: &mut Value) -> (Value, Map<String, Value>) {
    let affinity = volume.pointer_mut("/spec/nodeAffinity").map_or(Value::Null, Value::take);
    let labels = volume.pointer_mut("/metadata/labels").map_or(Value::Null, Value::take);
    (affinity, if let Value::Object(labels) = labels { labels } else { Map::new() })
}

fn give_back(volume: &mut Value, affinity: Value, labels: Map<String, Value>) {
    put(volume, "spec", "nodeAffinity", affinity);
    put(volume, "metadata", "labels", if labels.is_empty() { Value::Null } else { Value::Object(labels) });
}

/// Sets a field of a part of the object; null takes it away.
pub(crate) fn put(volume: &mut Value, part: &str, field: &str, value: Value) {
    let Some(part) = volume.get_mut(part).and_then(Value::as_object_mut) else { return };
    if value.is_null() {
        part.remove(field);
    } else {
        part.insert(field.to_owned(), value);
    }
}
