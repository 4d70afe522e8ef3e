//! Made-up volumes, of plugins and of their drivers.

use csi_translation::topology::zone_key;
use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;

use crate::dice::Dice;

const ODD: &[&str] = &["", " ", "a", "x y", "ü", "a/b", "a#b", "0", "UNSPECIFIED"];
const ZONES: &[&str] = &[
    "us-east-1a",
    "us-east-1b",
    "us-west-2a",
    "us-gov-east-1a",
    "us-west-2-lax-1a",
    "us-east-1-wl1-bos-wlz-1",
    "europe-west1-b",
    "europe-west1-c",
    "us-central1-a",
];
const ODD_ZONES: &[&str] = &["", " ", "nova", "a-b", "a-b-c-d-e-f", "us-east-1abc", "-", "--", "us-east-1a ", "ü-é-1a"];
const BETA_ZONE: &str = "failure-domain.beta.kubernetes.io/zone";
const ZONE: &str = "topology.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const REGION: &str = "topology.kubernetes.io/region";
const FILE_SYSTEMS: &[&str] = &["", "ext4", "xfs", "NTFS"];
const PARTITIONS: &[&str] =
    &["", "0", "1", "1", "15", "-1", "+5", "007", "x", " 1", "1_0", "4294967297", "2147483648", "99999999999999999999"];
const URI_PARTS: &[&str] = &[
    "/subscriptions/s",
    "/resourceGroups/g",
    "/providers/Microsoft.Compute/disks/",
    "/providers/Microsoft-Compute/disks/d",
    "/providers/microsoft.compute/disks/d",
    "/subscriptions//",
    "disk",
    "/x",
    "http",
    "https://host",
    "HTTP://host",
    "/vhds/",
    "/vhds/blob.vhd",
    "://",
];

fn zone<'a>(dice: &mut Dice) -> &'a str {
    if dice.one_in(5) { dice.pick(ODD_ZONES) } else { dice.pick(ZONES) }
}

/// One of a few in which everything is in order.
fn good_uri<'a>(dice: &mut Dice) -> &'a str {
    dice.pick(&[
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/d",
        "/subscriptions/s/resourceGroups/g/providers/Microsoft.Compute/disks/pvc-1/disks/2",
        "https://account.blob.core.windows.net/vhds/d.vhd",
    ])
}

fn uri(dice: &mut Dice) -> String {
    if dice.one_in(3) { good_uri(dice).to_owned() } else { dice.joined(6, URI_PARTS, "") }
}

fn ebs_id(dice: &mut Dice) -> String {
    let scheme = dice.pick(&["aws://", "aws://", "aws://", "", "AWS://", "aws:/", "gcp://", " aws://"]);
    let host = dice.pick(&[
        "",
        "",
        "us-east-1a",
        "us-east-1a",
        "us-east-1a",
        "a b",
        "ü",
        "a:80",
        "a:",
        "a:x",
        "a:b:80",
        "a%41",
        "a%25",
        "a%2",
        "a%c3%a9",
        "<x>",
        "a\"b",
        "a\\b",
        "a|b",
        "a^b",
        "a`b",
        "a{b}",
        "a]b",
        "a?b",
        "a#b",
        "a\u{1}",
        "~._-",
        "!$&'()*+,;=",
    ]);
    let slash = dice.pick(&["/", "/", "/", "/", "", "//", "/a/"]);
    let id = dice.pick(&[
        "vol-1",
        "vol-0abc",
        "vol-0abc",
        "vol-",
        "vol",
        "disk-1",
        "vol-a/b",
        "vol-1/",
        "/vol-1//",
        "vol-%41",
        "%76ol-1",
        "vol-%2fx",
        "vol-%zz",
        "vol-%",
        "vol-%4",
        "vol-%c3%a9",
        "vol-1?x=%zz",
        "vol-1?",
        "vol-1??",
        "?vol-1",
        "vol-1#%zz",
        "vol-1#f",
        "#vol-1",
        "vol-\u{7f}",
        "vol-1#\u{1}",
        "vol-1?\u{1}",
        "vol-ü",
        "vol- 1",
        "vol-1:2",
        "vol-[1]",
        "vol-1@b",
        "Vol-1",
        "",
        "*",
    ]);
    format!("{scheme}{host}{slash}{id}")
}

/// Parts of a handle of GCE, mostly in their places.
fn gce_path(dice: &mut Dice, last: &str) -> String {
    if dice.one_in(6) {
        return dice.joined(
            8,
            &["projects", "UNSPECIFIED", "zones", "regions", "disks", "d", "us-central1-a", ""],
            "/",
        );
    }
    let project = dice.pick(&["UNSPECIFIED", "UNSPECIFIED", "p", ""]);
    let kind = dice.pick(&["zones", "regions", "zones", "regions", "planets"]);
    let place = if dice.one_in(2) { "UNSPECIFIED" } else { zone(dice) };
    let rest = dice.pick(&["", "", "", "/more", "/"]);
    let name = dice.pick(&["d", "pvc-1", "UNSPECIFIED", ""]);
    format!("projects/{project}/{kind}/{place}/{last}/{name}{rest}")
}

fn source(dice: &mut Dice, plugin: InTreePlugin) -> (&'static str, Value) {
    let odd = dice.pick(ODD);
    let (field, mut source) = match plugin {
        InTreePlugin::AwsEbs => ("awsElasticBlockStore", json!({ "volumeID": ebs_id(dice) })),
        InTreePlugin::GcePd => ("gcePersistentDisk", json!({ "pdName": odd })),
        InTreePlugin::Cinder => ("cinder", json!({ "volumeID": odd, "secretRef": { "name": "s" } })),
        InTreePlugin::AzureDisk => {
            let mut source = json!({ "diskName": odd, "diskURI": uri(dice) });
            if dice.one_in(2) {
                let kind = dice.pick(&["Managed", "managed", "MANAGED", "Shared", "Dedicated", ""]);
                source["kind"] = json!(kind);
            }
            if dice.one_in(2) {
                source["cachingMode"] = json!(dice.pick(&["None", "ReadOnly", "ReadWrite", ""]));
            }
            ("azureDisk", source)
        }
        InTreePlugin::AzureFile => {
            let secret = dice.joined(4, &["azure-storage-account-", "acc", "-secret", "own", "-"], "");
            let mut source = json!({ "secretName": secret, "shareName": odd });
            if dice.one_in(2) {
                source["secretNamespace"] = json!(dice.pick(&["", "vault", "default"]));
            }
            ("azureFile", source)
        }
        InTreePlugin::Vsphere => {
            let policy = dice.pick(&["", "gold"]);
            ("vsphereVolume", json!({ "volumePath": odd, "storagePolicyName": policy, "storagePolicyID": "id" }))
        }
        InTreePlugin::Portworx => ("portworxVolume", json!({ "volumeID": odd })),
    };
    if dice.one_in(2) && plugin != InTreePlugin::AzureFile {
        source["fsType"] = json!(dice.pick(FILE_SYSTEMS));
    }
    if dice.one_in(2) && plugin != InTreePlugin::Vsphere {
        source["readOnly"] = json!(dice.one_in(2));
    }
    if dice.one_in(2) && matches!(plugin, InTreePlugin::AwsEbs | InTreePlugin::GcePd) {
        source["partition"] = json!([0, 1, 15, -1, 255][dice.below(5)]);
    }
    (field, source)
}

pub(crate) fn of_plugin(dice: &mut Dice, plugin: InTreePlugin) -> Value {
    let (field, source) = source(dice, plugin);
    let mut volume = volume(dice, plugin);
    volume["spec"][field] = source;
    if dice.one_in(2) {
        let namespace = dice.pick(&["", "shop", "shop"]);
        volume["spec"]["claimRef"] = json!({ "kind": "PersistentVolumeClaim", "name": "c", "namespace": namespace });
    }
    json!({ "operation": "volume-to-csi", "object": volume })
}

pub(crate) fn of_driver(dice: &mut Dice, plugin: InTreePlugin) -> Value {
    let handle = match plugin {
        InTreePlugin::AwsEbs => ebs_id(dice),
        InTreePlugin::GcePd => gce_path(dice, "disks"),
        InTreePlugin::AzureDisk => uri(dice),
        InTreePlugin::AzureFile => dice.joined(6, &["rg", "acc", "share", "pv", "ns", ""], "#"),
        InTreePlugin::Cinder | InTreePlugin::Vsphere | InTreePlugin::Portworx => dice.pick(ODD).to_owned(),
    };
    let mut csi = json!({ "driver": plugin.driver(), "volumeHandle": handle });
    if dice.one_in(2) {
        csi["fsType"] = json!(dice.pick(FILE_SYSTEMS));
    }
    if dice.one_in(2) {
        csi["readOnly"] = json!(dice.one_in(2));
    }
    if dice.one_in(2) {
        let (name, namespace) = (dice.pick(&["", "s", "s"]), dice.pick(&["", "n", "n"]));
        csi["nodeStageSecretRef"] = json!({ "name": name, "namespace": namespace });
    }
    if !dice.one_in(4) {
        let mut attributes = Map::new();
        attributes.insert("storage.kubernetes.io/csiProvisionerIdentity".to_owned(), json!("1-2-x"));
        if dice.one_in(2) {
            attributes.insert("partition".to_owned(), json!(dice.pick(PARTITIONS)));
        }
        for key in ["cachingmode", "fstype", "sharename", "secretname", "secretnamespace", "initialvolumefilepath"] {
            if dice.one_in(3) {
                let key = dice.shouted(key);
                attributes.insert(key, json!(dice.pick(ODD)));
            }
        }
        csi["volumeAttributes"] = Value::Object(attributes);
    }
    let mut volume = volume(dice, plugin);
    volume["spec"]["csi"] = csi;
    volume["spec"]["capacity"] = json!({ "storage": "1Gi" });
    json!({ "operation": "volume-to-in-tree", "object": volume })
}

pub(crate) fn repair(dice: &mut Dice, plugin: InTreePlugin) -> Value {
    let handle = gce_path(dice, "disks");
    let node = gce_path(dice, "instances");
    json!({ "operation": "repair", "driver": plugin.driver(), "handle": handle, "node": node })
}

/// Everything but the source.
fn volume(dice: &mut Dice, plugin: InTreePlugin) -> Value {
    let mut volume = json!({ "metadata": { "name": dice.pick(&["pv", "pvc-1", "a.b"]) }, "spec": {} });
    if dice.one_in(2) {
        volume["metadata"]["labels"] = labels(dice);
    }
    if dice.one_in(2) {
        let mut annotations = json!({ "a": "b" });
        let keys = [
            "kubernetes.io/azure-file-resource-group",
            "openstorage.io/auth-secret-name",
            "openstorage.io/auth-secret-namespace",
        ];
        for key in keys {
            if !dice.one_in(3) {
                annotations[key] = json!(dice.pick(&["", "x", "y", "rg"]));
            }
        }
        volume["metadata"]["annotations"] = annotations;
    }
    if !dice.one_in(4) {
        let known = ["ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod", "Odd"];
        let modes: Vec<_> = (0..=dice.below(3)).map(|_| dice.pick(&known)).collect();
        volume["spec"]["accessModes"] = json!(modes);
    }
    if dice.one_in(3) {
        volume["spec"]["volumeMode"] = json!("Block");
    }
    if !dice.one_in(3) {
        volume["spec"]["nodeAffinity"] = affinity(dice, plugin);
    }
    volume
}

fn labels(dice: &mut Dice) -> Value {
    let mut labels = json!({ "team": "x" });
    for key in [BETA_ZONE, ZONE] {
        if dice.one_in(3) {
            let zones: Vec<_> = (0..=dice.below(3)).map(|_| zone(dice)).collect();
            labels[key] = json!(zones.join(dice.pick(&["__", "__", "_", "____"])));
        }
    }
    for key in [BETA_REGION, REGION] {
        if dice.one_in(3) {
            labels[key] = json!(dice.pick(&["us-east-1", "r", "", " "]));
        }
    }
    labels
}

fn affinity(dice: &mut Dice, plugin: InTreePlugin) -> Value {
    if dice.one_in(10) {
        return json!({});
    }
    // Mostly in one region, where the zones of one term cannot disagree.
    let same_region = !dice.one_in(3);
    let csi_zone = zone_key(plugin).unwrap_or("topology.other/zone");
    let terms: Vec<_> = (0..dice.below(4))
        .map(|_| {
            let mut term = json!({});
            let expressions: Vec<_> = (0..dice.below(4)).map(|_| expression(dice, csi_zone, same_region)).collect();
            if !expressions.is_empty() || dice.one_in(2) {
                term["matchExpressions"] = json!(expressions);
            }
            if dice.one_in(8) {
                term["matchFields"] = json!([{ "key": "metadata.name", "operator": "In", "values": ["n"] }]);
            }
            term
        })
        .collect();
    json!({ "required": { "nodeSelectorTerms": terms } })
}

fn expression(dice: &mut Dice, csi_zone: &str, same_region: bool) -> Value {
    let keys =
        [csi_zone, csi_zone, csi_zone, ZONE, BETA_ZONE, REGION, BETA_REGION, "topology.csi.vmware.com/region", "rack"];
    let value = |dice: &mut Dice| {
        if same_region { dice.pick(&["us-east-1a", "us-east-1b"]) } else { zone(dice) }
    };
    let values: Vec<_> = (0..dice.below(4)).map(|_| value(dice)).collect();
    json!({ "key": dice.pick(&keys), "operator": dice.pick(&["In", "In", "NotIn"]), "values": values })
}
