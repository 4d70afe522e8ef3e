//! Made-up classes.

use serde_json::{Map, Value, json};
use storage_kube::in_tree::InTreePlugin;

use crate::dice::Dice;

/// Of each row one parameter at most: of two that become one, Go takes either.
const PARAMETERS: &[&[&str]] = &[
    &["fstype", "csi.storage.k8s.io/fstype"],
    &["zone", "zones"],
    &["iopspergb", "allowautoiopspergbincrease"],
    &["type"],
    &["availability"],
    &["kind"],
    &["datastore"],
    &["diskformat"],
    &["hostfailurestotolerate"],
    &["forceprovisioning"],
    &["cachereservation"],
    &["diskstripes"],
    &["objectspacereservation"],
    &["iopslimit"],
    &["storagepolicyname"],
    &["csimigration"],
    &["openstorage.io/auth-secret-name"],
    &["openstorage.io/auth-secret-namespace"],
    &["skuname", "", " fstype", "straße", "a.b/c"],
];
const VALUES: &[&str] = &[
    "",
    "a",
    "b",
    "0",
    "1",
    "12",
    "us-east-1a",
    "a,b",
    "a, b",
    ",",
    "1,2",
    "0,eu-1",
    "true",
    "ü",
    "2x",
    "${pvc.name}",
];
const KEYS: &[&str] = &[
    "failure-domain.beta.kubernetes.io/zone",
    "topology.kubernetes.io/zone",
    "topology.kubernetes.io/region",
    "topology.ebs.csi.aws.com/zone",
    "topology.disk.csi.azure.com/zone",
    "rack",
    "",
];

pub(crate) fn question(dice: &mut Dice, plugin: InTreePlugin) -> Value {
    let mut class = json!({ "metadata": { "name": "c" }, "provisioner": plugin.as_str() });
    if !dice.one_in(8) {
        let mut parameters = Map::new();
        for row in PARAMETERS {
            if dice.one_in(4) {
                let key = dice.pick(row);
                let key = dice.shouted(key);
                parameters.insert(key, json!(dice.pick(VALUES)));
            }
        }
        class["parameters"] = Value::Object(parameters);
    }
    if dice.one_in(2) {
        let terms: Vec<_> = (0..dice.below(4)).map(|_| term(dice)).collect();
        class["allowedTopologies"] = json!(terms);
    }
    json!({ "operation": "class", "plugin": plugin.as_str(), "object": class })
}

fn term(dice: &mut Dice) -> Value {
    let expressions: Vec<_> = (0..dice.below(4))
        .map(|_| {
            let values: Vec<_> = (0..dice.below(4)).map(|_| dice.pick(VALUES)).collect();
            json!({ "key": dice.pick(KEYS), "values": values })
        })
        .collect();
    json!({ "matchLabelExpressions": expressions })
}
