//! Drivers that replace plugins built into Kubernetes, for claims of the plugins' classes. No driver is in two setups: the two
//! sides of one have their turns, setups run at the same time.

use serde_json::{Value, json};

use super::{Course, ONCE, Scenario, Setup, bound, setup};

const ZONE: &str = "topology.ebs.csi.aws.com/zone";
const ZONES: [&str; 2] = ["us-west-2a", "us-west-2b"];

pub(super) fn setups() -> Vec<Setup> {
    let replacing = |driver, name, scenarios| Setup { driver_name: Some(driver), ..setup(name, scenarios) };
    vec![
        Setup {
            driver: &[
                "--topology=topology.ebs.csi.aws.com/zone=us-west-2a",
                "--known-topology=topology.ebs.csi.aws.com/zone=us-west-2b",
            ],
            objects: ZONES.iter().flat_map(|zone| node(zone)).collect(),
            ..replacing("ebs.csi.aws.com", "migrated", disks())
        },
        replacing("cinder.csi.openstack.org", "migrated-without-places", plugin_volumes("kubernetes.io/cinder")),
        Setup { secrets_allowed: true, ..replacing("pxd.portworx.com", "migrated-with-secrets", with_secrets()) },
        // The driver's handles are none that the plugin could have.
        Setup {
            flags: ONCE,
            ..replacing(
                "pd.csi.storage.gke.io",
                "untranslatable",
                vec![refused(of("handle", "kubernetes.io/gce-pd", &json!({})))],
            )
        },
        Setup { flags: ONCE, ..replacing("disk.csi.azure.com", "untranslatable-class", vec![refused(zones_twice())]) },
    ]
}

fn disks() -> Vec<Scenario> {
    const PLUGIN: &str = "kubernetes.io/aws-ebs";
    let zone = |key: &str| json!([{ "matchLabelExpressions": [{ "key": key, "values": ["us-west-2b"] }] }]);
    let class = |fields: &[(&str, Value)]| {
        let mut class = json!({ "provisioner": PLUGIN });
        for (field, value) in fields {
            class[*field] = value.clone();
        }
        Some(class)
    };
    let later = ("volumeBindingMode", json!("WaitForFirstConsumer"));
    let at_b = Some(json!({ "volume.kubernetes.io/selected-node": "us-west-2b.SITE" }));
    let mut scenarios = plugin_volumes(PLUGIN);
    scenarios.extend([
        of("in-a-zone", PLUGIN, &json!({ "zone": "us-west-2b" })),
        of("in-zones", PLUGIN, &json!({ "zones": "us-west-2a,us-west-2b", "iopsPerGB": "3" })),
        Scenario { class: class(&[("allowedTopologies", zone("topology.kubernetes.io/zone"))]), ..bound("allowed") },
        Scenario {
            class: class(&[("allowedTopologies", zone("failure-domain.beta.kubernetes.io/zone"))]),
            ..bound("allowed-by-old-key")
        },
        Scenario { class: class(&[("allowedTopologies", zone(ZONE))]), ..bound("allowed-by-new-key") },
        Scenario { class: class(&[later]), later: at_b, ..bound("consumer") },
        // A class of the driver beside those of the plugin it replaces.
        bound("of-the-driver"),
    ]);
    scenarios
}

fn plugin_volumes(plugin: &str) -> Vec<Scenario> {
    let class = json!({ "provisioner": plugin });
    let retained = json!({ "provisioner": plugin, "reclaimPolicy": "Retain" });
    let options =
        json!({ "provisioner": plugin, "mountOptions": ["soft"], "parameters": { "fsType": "xfs", "type": "slow" } });
    let with = |name, class: &Value| Scenario { class: Some(class.clone()), ..bound(name) };
    vec![
        with("delete", &class),
        with("options", &options),
        Scenario { course: Course::Kept, ..with("retain", &retained) },
        Scenario { course: Course::DeletedAfterClass, ..with("class-first", &class) },
        Scenario { course: Course::DeletedBeforeClaim, ..with("volume-first", &class) },
        Scenario { claim: json!({ "volumeMode": "Block" }), ..with("block", &class) },
        Scenario { claim: json!({ "accessModes": ["ReadWriteMany"] }), ..with("shared", &class) },
    ]
}

fn with_secrets() -> Vec<Scenario> {
    const PLUGIN: &str = "kubernetes.io/portworx-volume";
    let secret = json!({ "openstorage.io/auth-secret-name": "auth", "openstorage.io/auth-secret-namespace": "SITE",
        "repl": "1" });
    vec![of("plain", PLUGIN, &json!({ "fs": "xfs" })), Scenario { secrets: &["auth"], ..of("secret", PLUGIN, &secret) }]
}

fn of(name: &'static str, plugin: &str, parameters: &Value) -> Scenario {
    Scenario { class: Some(json!({ "provisioner": plugin, "parameters": parameters })), ..bound(name) }
}

/// As a parameter of the plugin and as the class's own field.
fn zones_twice() -> Scenario {
    let mut scenario = of("zones-twice", "kubernetes.io/azure-disk", &json!({ "zone": "1" }));
    if let Some(class) = &mut scenario.class {
        let expression = json!({ "key": "topology.kubernetes.io/zone", "values": ["1"] });
        class["allowedTopologies"] = json!([{ "matchLabelExpressions": [expression] }]);
    }
    scenario
}

fn refused(scenario: Scenario) -> Scenario {
    Scenario { course: Course::Refused, ..scenario }
}

/// A node as kubelet and the registrar leave it.
fn node(zone: &str) -> [Value; 2] {
    let name = format!("{zone}.SITE");
    [
        json!({ "apiVersion": "v1", "kind": "Node", "metadata": { "name": name, "labels": { ZONE: zone } } }),
        json!({ "apiVersion": "storage.k8s.io/v1", "kind": "CSINode", "metadata": { "name": name },
            "spec": { "drivers": [{ "name": "ebs.csi.aws.com", "nodeID": zone, "topologyKeys": [ZONE] }] } }),
    ]
}
