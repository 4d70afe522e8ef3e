//! Where the volume is → where its pods may run.

use std::sync::Arc;

use csi_proto::csi::v1::{Topology, Volume};
use serde_json::{Value, json};

use super::eligibility::{class_record, settings};
use super::objects::{DRIVER, claim, class};
use crate::create_volume::request::plan;
use crate::persistent_volume::persistent_volume;

fn affinity(topology: bool, gate: bool, places: &[&[(&str, &str)]]) -> Value {
    let mut settings = settings();
    settings.driver.topology = topology;
    settings.flags.topology_gate = gate;
    let claim = Arc::new(super::claims::record(DRIVER, claim("data", "fast")).unwrap());
    let plan = plan(&settings, &claim, &class_record(class("fast", json!({})))).unwrap();
    let place = |pairs: &&[(&str, &str)]| Topology {
        segments: pairs.iter().map(|(key, value)| ((*key).to_owned(), (*value).to_owned())).collect(),
    };
    let accessible_topology = places.iter().map(place).collect();
    let volume = Volume { volume_id: "handle".into(), accessible_topology, ..Volume::default() };
    persistent_volume(&settings, &plan, &volume)["spec"]["nodeAffinity"].clone()
}

fn required(terms: Value) -> Value {
    json!({ "required": { "nodeSelectorTerms": terms } })
}

#[test]
fn each_place_is_a_term() {
    let is = |key: &str, value: &str| json!({ "key": key, "operator": "In", "values": [value] });
    let zone = |value: &str| json!({ "matchExpressions": [is("zone", value)] });
    let cases = [
        ("none", &[][..], Value::Null),
        ("one segment", &[&[("zone", "1")][..]], required(json!([zone("1")]))),
        (
            "two keys",
            &[&[("zone", "1"), ("rack", "2")][..]],
            required(json!([{ "matchExpressions": [is("rack", "2"), is("zone", "1")] }])),
        ),
        ("two places", &[&[("zone", "1")][..], &[("zone", "2")]], required(json!([zone("1"), zone("2")]))),
        ("one without segments", &[&[][..], &[("zone", "2")]], required(json!([zone("2")]))),
        ("all without segments", &[&[][..], &[]], Value::Null),
    ];
    assert_eq!(cases.len(), 6);
    for (case, places, expected) in cases {
        assert_eq!(affinity(true, true, places), expected, "{case}");
    }
}

#[test]
fn without_topology_the_place_of_the_volume_is_nobodys_business() {
    assert_eq!(affinity(false, true, &[&[("zone", "1")]]), Value::Null);
    assert_eq!(affinity(true, false, &[&[("zone", "1")]]), Value::Null);
}
