//! `allowedTopologies` of a class whose keys are not those of the selected node: fewer, or labels the driver does not know.

use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::Node;
use serde_json::{Value, json};
use storage_kube::names::NodeName;
use storage_kube::topology::Segment;

use super::cluster::{NodeIs, allowed, late_class, node, scene, segments, selected, terms};
use super::objects::{DRIVER, claim, with};
use super::rescheduling::handed_back;
use super::scene::flags;
use super::topology_rows::{asked, lax, strict};
use crate::topology::cluster::ClusterView;
use crate::topology::error::TopologyError;
use crate::topology::requirement;

const KEYS: &[&str] = &["location", "provided-by"];
const NBG1: NodeIs = node("nbg1", KEYS, &[("location", "nbg1"), ("provided-by", "cloud"), ("disk", "ssd")]);
const FSN1: NodeIs = node("fsn1", KEYS, &[("location", "fsn1"), ("provided-by", "cloud"), ("disk", "hdd")]);

/// What is asked for, in order of preference; `requisite` must be the same segments.
fn preferred(selected: &str, allowed: Value, strict_topology: bool) -> Result<Option<Vec<Segment>>, TopologyError> {
    let flags = if strict_topology { strict() } else { lax() };
    let asked = asked(&flags, "data", Some(selected), allowed, &[NBG1, FSN1])?;
    Ok(asked.map(|(mut requisite, preferred)| {
        let mut sorted = preferred.clone();
        sorted.sort();
        requisite.sort();
        assert_eq!(requisite, sorted, "CSI: what is preferred is among what is requisite");
        preferred
    }))
}

#[test]
fn l5_the_whole_segment_of_the_selected_node_comes_first_among_what_is_allowed() {
    let whole = |location: &'static str| [("location", location), ("provided-by", "cloud")];
    let (nbg1, fsn1) = (whole("nbg1"), whole("fsn1"));
    let both = || json!([allowed(&[&[("location", &["fsn1", "ham1", "nbg1"])]])[0]]);
    let exactly = || allowed(&[&[("location", &["fsn1", "nbg1"]), ("provided-by", &["cloud"])]]);
    let around_and_exactly =
        || allowed(&[&[("provided-by", &["cloud"])], &[("location", &["nbg1"]), ("provided-by", &["cloud"])]]);
    let cases = [
        (
            "fewer keys",
            "nbg1",
            allowed(&[&[("provided-by", &["cloud"])]]),
            terms(&[&nbg1, &[("provided-by", "cloud")]]),
        ),
        (
            "fewer keys, several values: the one around the node is second",
            "nbg1",
            both(),
            terms(&[&nbg1, &[("location", "nbg1")], &[("location", "fsn1")], &[("location", "ham1")]]),
        ),
        ("all keys, as the Go provisioner", "nbg1", exactly(), terms(&[&nbg1, &fsn1])),
        ("all keys, another node", "fsn1", exactly(), terms(&[&fsn1, &nbg1])),
        ("allowed both ways", "nbg1", around_and_exactly(), terms(&[&nbg1, &[("provided-by", "cloud")]])),
    ];
    assert_eq!(cases.len(), 5);
    for (case, selected, allowed, expected) in cases {
        assert_eq!(preferred(selected, allowed.clone(), false), Ok(Some(expected.clone())), "{case}");
        assert_eq!(preferred(selected, allowed, true), Ok(Some(expected[..1].to_vec())), "{case}, strict");
    }
}

#[test]
fn l6_labels_that_are_no_topology_keys_decide_whether_a_node_is_allowed_and_are_not_sent() {
    let whole = || terms(&[&[("location", "nbg1"), ("provided-by", "cloud")]]);
    let ssd = || allowed(&[&[("disk", &["ssd"])]]);
    let ssd_in_nbg1 = || allowed(&[&[("disk", &["ssd"]), ("location", &["nbg1"])], &[("location", &["ham1"])]]);
    assert_eq!(preferred("nbg1", ssd(), false), Ok(Some(whole())));
    assert_eq!(preferred("nbg1", ssd(), true), Ok(Some(whole())));
    let with_ham1 = [whole(), terms(&[&[("location", "ham1")]])].concat();
    assert_eq!(preferred("nbg1", ssd_in_nbg1(), false), Ok(Some(with_ham1)));
    for strict_topology in [false, true] {
        let error = preferred("fsn1", ssd(), strict_topology).unwrap_err();
        assert!(error.needs_another_node(), "the scheduler knows the same labels");
        assert!(error.to_string().contains("another node has to be selected"), "{error}");
    }
}

/// It knows the topology of its node alone: the scheduler may know better, and would select the node again and again.
#[test]
fn l6_the_provisioner_of_a_node_does_not_hand_back_for_labels_it_does_not_know() {
    let here = Segment::from_iter([("location", "nbg1")]);
    let cluster = ClusterView::of_node(DRIVER, NodeName::from("nbg1"), &here);
    let allowed = super::cluster::allowed_record(allowed(&[&[("disk", &["ssd"])]]));
    let asked = requirement(&flags(), &"data".into(), Some(&NodeName::from("nbg1")), &allowed, &cluster);
    assert!(!asked.unwrap_err().needs_another_node());
}

#[tokio::test(start_paused = true)]
async fn l6_a_claim_whose_node_is_not_allowed_by_its_labels_goes_back_to_the_scheduler() {
    let scene = scene(flags(), &[NBG1, FSN1]).await;
    scene.add_class(with(late_class("late"), &json!({ "allowedTopologies": allowed(&[&[("disk", &["ssd"])]]) })));
    let uid = scene.add_claim(with(claim("data", "late"), &selected("fsn1")));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("\"fsn1\"") && text.contains("allowedTopologies"), "{text}");
    handed_back(&scene).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    scene.api.merge::<k8s_openapi::api::core::v1::PersistentVolumeClaim>("shop", "data", &selected("nbg1"));
    scene.volume(&format!("pvc-{uid}")).await;
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    let (requisite, _) = segments(requests[0].accessibility_requirements.as_ref().unwrap());
    assert_eq!(requisite, terms(&[&[("location", "nbg1"), ("provided-by", "cloud")]]));
}

/// The label may be on its way, or another one than when the scheduler looked.
#[tokio::test(start_paused = true)]
async fn l6_a_label_that_changes_after_the_scheduler_looked_hands_the_claim_back_once() {
    let scene = scene(flags(), &[NBG1, FSN1]).await;
    scene.add_class(with(late_class("late"), &json!({ "allowedTopologies": allowed(&[&[("disk", &["ssd"])]]) })));
    scene.api.merge::<Node>(None, "nbg1", &json!({ "metadata": { "labels": { "disk": "hdd" } } }));
    scene.pass(Duration::from_secs(1)).await;
    scene.add_claim(with(claim("data", "late"), &selected("nbg1")));
    handed_back(&scene).await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert_eq!(scene.writes(), ["update persistentvolumeclaims"]);
}
