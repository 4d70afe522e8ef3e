//! `--node-deployment`: volumes are kept and deleted by the processes of the nodes that reach them.

use std::time::Duration;

use fake_driver::Rpc;
use k8s_openapi::api::core::v1::PersistentVolume;
use serde_json::{Value, json};
use storage_kube::topology::Segment;
use storage_kube::wire::NodeAffinity;

use super::node_deployment::node;
use super::objects::{DRIVER, volume, with};
use super::scene::Scene;
use super::volumes::record_of_node;
use crate::node_deployment::reach::reaches;
use crate::settings::NodeFlags;

fn affinity(zone: &str) -> Value {
    let expressions = json!([{ "key": "zone", "operator": "In", "values": [zone] }]);
    json!({ "spec": { "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": expressions }] } } } })
}

async fn scene(place: bool) -> Scene {
    let flags = if place { node("foo") } else { NodeFlags { place: None, ..node("foo") } };
    Scene::configured(|settings| settings.node = Some(flags), |_| (), |_| ()).await
}

/// The rows of the Go provisioner, and what it means for a volume or a driver without topology.
#[tokio::test(start_paused = true)]
async fn a_volume_is_deleted_by_the_nodes_that_reach_it() {
    let cases = [
        ("another node's", affinity("bar"), true, false),
        ("this node's", affinity("foo"), true, true),
        ("without affinity", json!({}), true, true),
        ("another node's, driver without topology", affinity("bar"), false, true),
    ];
    assert_eq!(cases.len(), 4, "2 of the Go provisioner, 2 of ours");
    for (case, change, place, deleted) in cases {
        let scene = scene(place).await;
        scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &change));
        scene.pass(Duration::from_mins(20)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(deleted), "{case}");
        assert!(scene.events("VolumeFailedDelete").is_empty(), "{case}");
        assert_eq!(scene.writes().is_empty(), !deleted, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn c8_volumes_of_other_nodes_take_no_memory() {
    let scene = scene(true).await;
    for n in 0..100 {
        scene.add_volume(with(volume(&format!("pv-{n}"), &format!("h{n}"), "Bound", "Delete"), &affinity("bar")));
    }
    scene.add_volume(with(volume("own", "h", "Bound", "Delete"), &affinity("foo")));
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.term().caches.volumes.len(), 1);
}

/// Its own node may be gone for good.
#[tokio::test(start_paused = true)]
async fn a_retained_volume_of_another_node_that_is_deleted_loses_our_finalizer() {
    let scene = scene(true).await;
    scene.add_volume(with(volume("pv", "h", "Released", "Retain"), &affinity("bar")));
    scene.pass(Duration::from_mins(20)).await;
    assert!(scene.writes().is_empty(), "its own node does that");
    scene.api.delete::<PersistentVolume>(None, "pv");
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.volume("pv").await["metadata"]["finalizers"], json!(["kubernetes.io/pv-protection"]));
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
}

/// Which records a node keeps of volumes it does not reach.
#[test]
fn volumes_that_are_of_interest_to_every_node() {
    let cases = [
        ("not bound yet: it shows that its claim is served", "Available", "Delete", false, true),
        ("not bound yet", "Pending", "Delete", false, true),
        ("bound", "Bound", "Delete", false, false),
        ("released", "Released", "Delete", true, false),
        ("failed", "Failed", "Delete", false, false),
        ("retained", "Released", "Retain", false, false),
        ("retained and deleted", "Released", "Retain", true, true),
    ];
    assert_eq!(cases.len(), 7);
    for (case, phase, policy, deleting, kept) in cases {
        let mut object = with(volume("pv", "h", phase, policy), &affinity("bar"));
        if deleting {
            object["metadata"]["deletionTimestamp"] = json!("2026-01-01T00:00:00Z");
        }
        let place: Segment = [("zone", "foo")].into_iter().collect();
        assert_eq!(record_of_node(DRIVER, Some(place), object.clone()).is_some(), kept, "{case}");
        assert!(record_of_node(DRIVER, None, object).is_some(), "{case}: kept by one for the whole cluster");
    }
}

/// core/v1 `NodeSelector` against the segment of the node.
#[test]
fn which_affinities_a_node_meets() {
    let expression = |operator: &str, values: Value| json!([{ "key": "zone", "operator": operator, "values": values }]);
    let term = |expressions: Value| json!([{ "matchExpressions": expressions }]);
    let cases = [
        (term(expression("In", json!(["z1"]))), true),
        (term(expression("In", json!(["z2", "z1"]))), true),
        (term(expression("In", json!(["z2"]))), false),
        (term(expression("NotIn", json!(["z2"]))), true),
        (term(expression("NotIn", json!(["z1"]))), false),
        (term(expression("Exists", json!([]))), true),
        (term(expression("DoesNotExist", json!([]))), false),
        (term(json!([{ "key": "rack", "operator": "DoesNotExist" }])), true),
        (term(json!([{ "key": "rack", "operator": "In", "values": ["r1"] }])), false),
        (term(json!([{ "key": "generation", "operator": "Gt", "values": ["3"] }])), true),
        (term(json!([{ "key": "generation", "operator": "Gt", "values": ["4"] }])), false),
        (term(json!([{ "key": "generation", "operator": "Lt", "values": ["5"] }])), true),
        (term(expression("Lt", json!(["5"]))), false),
        (term(expression("Unheard", json!(["z1"]))), false),
        (
            term(
                json!([{ "key": "zone", "operator": "In", "values": ["z1"] }, { "key": "rack", "operator": "Exists" }]),
            ),
            false,
        ),
        (
            json!([
                { "matchExpressions": expression("In", json!(["z2"])) },
                { "matchExpressions": expression("In", json!(["z1"])) },
            ]),
            true,
        ),
        (json!([{}]), false),
        (json!([]), false),
        (json!([{ "matchFields": [{ "key": "metadata.name", "operator": "In", "values": ["foo"] }] }]), false),
    ];
    assert_eq!(cases.len(), 19);
    let here: Segment = [("zone", "z1"), ("generation", "4")].into_iter().collect();
    for (terms, expected) in cases {
        let affinity: NodeAffinity =
            serde_json::from_value(json!({ "required": { "nodeSelectorTerms": terms } })).unwrap();
        assert_eq!(reaches(Some(&here), None, Some(&affinity)), expected, "{terms}");
        assert!(reaches(None, None, Some(&affinity)), "a driver without topology reaches everything");
    }
    assert!(reaches(Some(&here), None, None));
    assert!(reaches(Some(&here), None, Some(&NodeAffinity::default())));
}

/// Volumes of a plugin have the plugin's labels in their affinity, and the driver says where the node is in its own keys.
#[tokio::test(start_paused = true)]
async fn m6_a_volume_of_a_plugin_is_deleted_by_the_nodes_that_reach_it() {
    let labels = |zone: &str, generation: &str| {
        json!([
            { "key": format!("{generation}/zone"), "operator": "In", "values": [zone] },
            { "key": format!("{generation}/region"), "operator": "In", "values": ["eu-west-1"] },
        ])
    };
    let (present, deprecated) = ("topology.kubernetes.io", "failure-domain.beta.kubernetes.io");
    let cases = [
        (labels("foo", present), true),
        (labels("foo", deprecated), true),
        (labels("bar", present), false),
        (labels("bar", deprecated), false),
        (json!([{ "key": "topology.ebs.csi.aws.com/zone", "operator": "In", "values": ["foo"] }]), true),
    ];
    for (expressions, deleted) in cases {
        let configure = |settings: &mut crate::settings::Settings| {
            let place = [("topology.ebs.csi.aws.com/zone", "foo")].into_iter().collect();
            settings.node = Some(NodeFlags { place: Some(place), ..node("foo") });
        };
        let scene = Scene::configured(configure, |driver| driver.name = "ebs.csi.aws.com".to_owned(), |_| ()).await;
        let of_the_plugin = json!({
            "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "kubernetes.io/aws-ebs" } },
            "spec": {
                "csi": null,
                "awsElasticBlockStore": { "volumeID": "vol-1" },
                "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": expressions }] } },
            },
        });
        scene.add_volume(with(volume("pv", "h", "Released", "Delete"), &of_the_plugin));
        scene.pass(Duration::from_mins(20)).await;
        assert_eq!(scene.count(Rpc::DeleteVolume), usize::from(deleted), "{expressions}");
    }
}
