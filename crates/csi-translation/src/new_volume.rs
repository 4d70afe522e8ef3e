//! The object of a volume that a driver has made, as a volume of the plugin. Works on the JSON that is about to be written.

use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;

use crate::topology::{self, put, zone_key};
use crate::{Error, aws_ebs, azure_disk, azure_file, cinder, gce_pd, portworx, vsphere};

/// `spec.csi` of the object.
pub(crate) struct CsiSource {
    source: Value,
}

impl CsiSource {
    /// A field that is a text, empty when it is absent.
    fn text(&self, field: &str) -> &str {
        self.source[field].as_str().unwrap_or_default()
    }

    pub(crate) fn handle(&self) -> &str {
        self.text("volumeHandle")
    }

    pub(crate) fn fs_type(&self) -> &str {
        self.text("fsType")
    }

    pub(crate) fn read_only(&self) -> bool {
        self.source["readOnly"].as_bool().unwrap_or_default()
    }

    pub(crate) fn attribute(&self, key: &str) -> Option<&str> {
        self.source["volumeAttributes"][key].as_str()
    }

    pub(crate) fn attributes(&self) -> impl Iterator<Item = (&str, &str)> {
        let all = self.source["volumeAttributes"].as_object().into_iter().flatten();
        all.filter_map(|(key, value)| Some((key.as_str(), value.as_str()?)))
    }

    /// Name and namespace of the Secret for staging.
    pub(crate) fn node_stage_secret(&self) -> Option<(&str, &str)> {
        let secret = &self.source["nodeStageSecretRef"];
        Some((secret["name"].as_str()?, secret["namespace"].as_str().unwrap_or_default()))
    }

    /// A plugin's source with what nearly all have: the volume's id under the plugin's name for it, file system, mode.
    pub(crate) fn as_source(&self, id_field: &str, id: &str) -> Map<String, Value> {
        let mut source = Map::new();
        source.insert(id_field.to_owned(), json!(id));
        if !self.fs_type().is_empty() {
            source.insert("fsType".to_owned(), json!(self.fs_type()));
        }
        if self.read_only() {
            source.insert("readOnly".to_owned(), json!(true));
        }
        source
    }

    /// The partition that the driver was told of; `None` when it was not.
    pub(crate) fn partition(&self) -> Option<Result<i32, Error>> {
        let text = self.attribute("partition")?;
        #[expect(
            clippy::cast_possible_truncation,
            reason = "the Go library cuts as well; no disk has such a partition"
        )]
        let number = text.parse::<i64>().map(|number| number as i32);
        Some(number.map_err(|_| Error::Partition(text.to_owned())))
    }
}

pub(crate) fn to_in_tree(mut volume: Value) -> Result<Value, Error> {
    let csi = CsiSource { source: volume.pointer_mut("/spec/csi").map_or(Value::Null, Value::take) };
    let plugin = InTreePlugin::replaced_by(csi.text("driver")).ok_or(Error::NotCsi)?;
    let (field, source) = match plugin {
        InTreePlugin::AwsEbs => ("awsElasticBlockStore", aws_ebs::source(&csi)?),
        InTreePlugin::GcePd => ("gcePersistentDisk", gce_pd::source(&csi)?),
        InTreePlugin::Cinder => ("cinder", cinder::source(&csi)),
        InTreePlugin::AzureDisk => ("azureDisk", azure_disk::source(&csi)?),
        InTreePlugin::AzureFile => ("azureFile", azure_file::source(&csi, &mut volume)?),
        InTreePlugin::Vsphere => ("vsphereVolume", vsphere::source(&csi)),
        InTreePlugin::Portworx => ("portworxVolume", portworx::source(&csi)),
    };
    if let Some(zone) = zone_key(plugin) {
        match plugin {
            InTreePlugin::AwsEbs => topology::to_in_tree(&mut volume, zone, Some(aws_ebs::region))?,
            InTreePlugin::GcePd => topology::to_in_tree(&mut volume, zone, Some(gce_pd::region))?,
            // Its zones do not tell the region.
            InTreePlugin::Cinder => topology::to_in_tree(&mut volume, zone, None)?,
            InTreePlugin::Vsphere => topology::to_vsphere(&mut volume, zone),
            InTreePlugin::AzureDisk | InTreePlugin::AzureFile | InTreePlugin::Portworx => {}
        }
    }
    put(&mut volume, "spec", "csi", Value::Null);
    put(&mut volume, "spec", field, Value::Object(source));
    Ok(volume)
}

/// The one region of all zones. `region_of`: of one zone, `None` for one that is not of the form.
pub(crate) fn one_region(
    zones: &[&str],
    form: &'static str,
    region_of: impl Fn(&str) -> Option<String>,
) -> Result<String, Error> {
    let mut regions: Vec<_> = zones.iter().map(|zone| region_of(zone)).collect();
    regions.dedup();
    match regions.as_mut_slice() {
        [Some(region)] => Ok(std::mem::take(region)),
        _ => Err(Error::Region { zones: zones.iter().map(|&zone| zone.to_owned()).collect(), form }),
    }
}
