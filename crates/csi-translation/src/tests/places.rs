//! Node affinity and labels.

use std::collections::BTreeMap;

use serde_json::{Value, json};
use storage_kube::in_tree::InTreePlugin::{self, AwsEbs, AzureDisk, Cinder, GcePd, Vsphere};

use crate::{Error, topology, volume_to_in_tree};

const BETA: &str = "failure-domain.beta.kubernetes.io/zone";
const GA: &str = "topology.kubernetes.io/zone";
const BETA_REGION: &str = "failure-domain.beta.kubernetes.io/region";
const REGION: &str = "topology.kubernetes.io/region";
const EBS: &str = "topology.ebs.csi.aws.com/zone";

/// Terms of expressions, each a key and its values.
fn affinity(terms: &[&[(&str, &[&str])]]) -> Value {
    let expression = |(key, values): &(&str, &[&str])| json!({ "key": key, "operator": "In", "values": values });
    let term =
        |term: &&[(&str, &[&str])]| json!({ "matchExpressions": term.iter().map(expression).collect::<Vec<_>>() });
    json!({ "required": { "nodeSelectorTerms": terms.iter().map(term).collect::<Vec<_>>() } })
}

fn place(plugin: InTreePlugin, labels: &[(&str, &str)], mut affinity: Value) -> Value {
    let labels: BTreeMap<_, _> = labels.iter().map(|&(key, value)| (key.to_owned(), value.to_owned())).collect();
    topology::to_csi(plugin, Some(&labels), &mut affinity);
    affinity
}

#[test]
fn the_place_of_a_plugins_volume_under_the_drivers_keys() {
    let none = Value::Null;
    let rows = [
        (AwsEbs, &[][..], none.clone(), none.clone()),
        (AwsEbs, &[(GA, "a")], none.clone(), affinity(&[&[(EBS, &["a"])]])),
        (AwsEbs, &[(BETA, "b__a__ __a")], none.clone(), affinity(&[&[(EBS, &["a", "b"])]])),
        (AwsEbs, &[(GA, "a"), (BETA, "b")], none.clone(), affinity(&[&[(EBS, &["a"])]])),
        (AwsEbs, &[(GA, "")], none.clone(), none.clone()),
        (AwsEbs, &[(GA, "a")], affinity(&[&[(GA, &["b"])]]), affinity(&[&[(EBS, &["b"])]])),
        (
            AwsEbs,
            &[(GA, "a")],
            affinity(&[&[("rack", &["1"])], &[("rack", &["2"])]]),
            affinity(&[&[("rack", &["1"]), (EBS, &["a"])], &[("rack", &["2"]), (EBS, &["a"])]]),
        ),
        (
            Cinder,
            &[],
            affinity(&[&[(BETA, &["a"]), (BETA_REGION, &["r"])]]),
            affinity(&[&[("topology.cinder.csi.openstack.org/zone", &["a"]), (REGION, &["r"])]]),
        ),
        (GcePd, &[(GA, "a__b")], none.clone(), affinity(&[&[("topology.gke.io/zone", &["a", "b"])]])),
        (
            Vsphere,
            &[(GA, "a__b"), (REGION, "r")],
            none.clone(),
            affinity(&[&[("topology.csi.vmware.com/zone", &["a__b"]), ("topology.csi.vmware.com/region", &["r"])]]),
        ),
        (
            Vsphere,
            &[(REGION, "r")],
            affinity(&[&[(BETA, &["a"]), (BETA_REGION, &["s"])]]),
            affinity(&[&[("topology.csi.vmware.com/zone", &["a"]), ("topology.csi.vmware.com/region", &["s"])]]),
        ),
        (AzureDisk, &[(GA, "a")], affinity(&[&[(GA, &["b"])]]), affinity(&[&[(GA, &["b"])]])),
    ];
    assert_eq!(rows.len(), 12);
    for (plugin, labels, before, after) in rows {
        assert_eq!(place(plugin, labels, before.clone()), after, "{plugin:?} {labels:?} {before}");
    }
}

/// Affinity and labels after a volume of the driver has become one of the plugin.
fn returned(driver: &str, affinity: &Value, labels: &Value) -> Result<(Value, Value), Error> {
    let handle = "projects/p/zones/z/disks/d";
    let volume = volume_to_in_tree(json!({
        "metadata": { "name": "pv", "labels": labels },
        "spec": { "nodeAffinity": affinity, "csi": { "driver": driver, "volumeHandle": handle } },
    }))?;
    Ok((volume["spec"]["nodeAffinity"].clone(), volume["metadata"]["labels"].clone()))
}

#[test]
fn the_place_of_a_new_volume_under_kubernetes_keys() {
    let ebs = "ebs.csi.aws.com";
    let vsphere = "csi.vsphere.vmware.com";
    let (vsphere_zone, vsphere_region) = ("topology.csi.vmware.com/zone", "topology.csi.vmware.com/region");
    let none = Value::Null;
    let rows = [
        (ebs, none.clone(), none.clone(), none.clone(), none.clone()),
        (
            ebs,
            affinity(&[&[(EBS, &["us-east-1a"])]]),
            none.clone(),
            affinity(&[&[(GA, &["us-east-1a"]), (REGION, &["us-east-1"])]]),
            json!({ GA: "us-east-1a", REGION: "us-east-1" }),
        ),
        (
            ebs,
            affinity(&[&[(EBS, &["us-east-1b"])], &[(EBS, &["us-east-1a"])]]),
            json!({ "team": "x", GA: "mine" }),
            affinity(&[
                &[(GA, &["us-east-1b"]), (REGION, &["us-east-1"])],
                &[(GA, &["us-east-1a"]), (REGION, &["us-east-1"])],
            ]),
            json!({ "team": "x", GA: "mine", REGION: "us-east-1" }),
        ),
        (
            "pd.csi.storage.gke.io",
            affinity(&[&[("topology.gke.io/zone", &["europe-west1-c", "europe-west1-b"])]]),
            none.clone(),
            affinity(&[&[(GA, &["europe-west1-c", "europe-west1-b"]), (REGION, &["europe-west1"])]]),
            json!({ GA: "europe-west1-b__europe-west1-c", REGION: "europe-west1" }),
        ),
        (
            "cinder.csi.openstack.org",
            affinity(&[&[("topology.cinder.csi.openstack.org/zone", &["nova"])]]),
            none.clone(),
            affinity(&[&[(GA, &["nova"])]]),
            json!({ GA: "nova" }),
        ),
        (
            vsphere,
            affinity(&[&[(vsphere_zone, &["b", "a"]), (vsphere_region, &["r"])]]),
            none.clone(),
            affinity(&[&[(GA, &["b", "a"]), (REGION, &["r"])]]),
            json!({ GA: "a", REGION: "r" }),
        ),
    ];
    assert_eq!(rows.len(), 6);
    for (driver, before, labels, after, labels_after) in rows {
        assert_eq!(returned(driver, &before, &labels), Ok((after, labels_after)), "{driver} {before}");
    }
}

#[test]
fn zones_that_tell_no_region_are_an_error() {
    for zones in [&["us-east-1a", "us-west-2a"][..], &["mars"], &["us-east-1abc"], &["a-b-c-d-e-f"], &[]] {
        let error = returned("ebs.csi.aws.com", &affinity(&[&[(EBS, zones)]]), &Value::Null).unwrap_err();
        assert!(matches!(error, Error::Region { .. }), "{zones:?} {error}");
    }
    let aws = [
        ("us-west-2a", "us-west-2"),
        ("us-gov-east-1a", "us-gov-east-1"),
        ("us-west-2-lax-1a", "us-west-2"),
        ("us-east-1-wl1-bos-wlz-1", "us-east-1"),
    ];
    for (zone, region) in aws {
        assert_eq!(crate::aws_ebs::region(&[zone]).as_deref(), Ok(region));
    }
    assert_eq!(crate::gce_pd::region(&["europe-west1-b"]).as_deref(), Ok("europe-west1"));
    for zone in ["europe-west1", "a-b-c-d", ""] {
        assert!(crate::gce_pd::region(&[zone]).is_err(), "{zone}");
    }
}
