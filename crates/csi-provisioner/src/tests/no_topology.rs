//! A driver that announces topology and has none.

use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::Node;
use k8s_openapi::api::storage::v1::CSINode;
use serde_json::json;

use super::cluster::{NodeIs, allowed, csi_node_json, late_class, node, scene, selected, view};
use super::objects::{claim, class, with};
use super::scene::flags;
use super::topology_rows::{asked, asked_in, lax, strict, without_immediate};
use crate::topology::cluster::KEYS_SETTLE;
use crate::topology::error::TopologyError;

const N1: NodeIs = node("n1", &[], &[("zone", "z1")]);
const N2: NodeIs = node("n2", &[], &[("zone", "z2")]);
const N2_UNREGISTERED: NodeIs = NodeIs { keys: None, ..N2 };
const N2_WITH_KEYS: NodeIs = node("n2", &["zone"], &[("zone", "z2")]);

#[tokio::test(start_paused = true)]
async fn l7_a_driver_without_a_key_on_any_node_has_no_topology_after_a_while() {
    let cluster = view(&[N1, N2]);
    let asked = |flags: &_, selected, allowed| asked_in(&cluster, flags, "data", selected, allowed);
    let error = asked(&lax(), Some("n1"), json!([])).unwrap_err();
    assert!(matches!(error, TopologyError::NoKeys { .. }), "its nodes may be updated after its controller: {error}");
    tokio::time::advance(KEYS_SETTLE).await;
    for flags in [lax(), strict(), without_immediate()] {
        for selected in [None, Some("n1")] {
            assert_eq!(asked(&flags, selected, json!([])), Ok(None), "{selected:?}");
        }
        let z1 = allowed(&[&[("zone", &["z1"])]]);
        assert_eq!(asked(&flags, Some("n1"), z1.clone()), Ok(None));
        let (requisite, _) = asked(&flags, None, z1).unwrap().unwrap();
        assert_eq!(requisite.len(), 1, "as the Go provisioner: the class says where without the nodes");
    }
}

/// It may still tell its keys there.
#[test]
fn l7_a_driver_that_is_missing_on_a_node_or_has_keys_on_one_is_waited_for() {
    for nodes in [[N1, N2_UNREGISTERED], [N1, N2_WITH_KEYS]] {
        let error = asked(&lax(), "data", Some("n1"), json!([]), &nodes).unwrap_err();
        assert!(matches!(error, TopologyError::NoKeys { .. }), "{error}");
    }
    let error = asked(&lax(), "data", None, json!([]), &[N1, N2_UNREGISTERED]).unwrap_err();
    assert!(matches!(error, TopologyError::NoKeysAnywhere { .. }), "{error}");
    assert!(asked(&lax(), "data", None, json!([]), &[]).is_err(), "no node at all");
}

#[tokio::test(start_paused = true)]
async fn l7_claims_of_a_driver_without_topology_keys_are_provisioned_when_it_is_on_every_node() {
    let scene = scene(flags(), &[N1, N2_UNREGISTERED]).await;
    scene.add_class(late_class("late"));
    scene.add_class(class("fast", json!({})));
    let claims =
        [scene.add_claim(with(claim("late", "late"), &selected("n1"))), scene.add_claim(claim("at-once", "fast"))];
    scene.event("ProvisioningFailed").await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    scene.api.create_json::<CSINode>(csi_node_json(&N2).unwrap());
    scene.pass(KEYS_SETTLE / 2).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0, "it is given time to tell keys");
    // Another node joins, without the driver: that is no news about its keys.
    scene.api.create_json::<Node>(json!({ "metadata": { "name": "n3" } }));
    for uid in claims {
        let volume = scene.volume(&format!("pvc-{uid}")).await;
        assert!(volume["spec"]["nodeAffinity"].is_null());
    }
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert!(requests.iter().all(|request| request.accessibility_requirements.is_none()));
}
