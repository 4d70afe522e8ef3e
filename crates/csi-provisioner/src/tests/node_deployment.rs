//! `--node-deployment`: which node's process provisions a claim, and when.

use std::collections::BTreeMap;
use std::time::Duration;

use csi_proto::csi::v1::plugin_capability::service::Type as Plugin;
use csi_proto::csi::v1::{GetCapacityRequest, GetCapacityResponse};
use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Identity, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use storage_kube::names::ClaimUid;
use tokio::time::Instant;
use tonic::Code;

use super::objects::{DRIVER, claim, class, with};
use super::scene::{PATIENCE, Scene};
use crate::node_deployment::competition::{Competition, Turn, delay};
use crate::settings::NodeFlags;

const GIB: i64 = 1 << 30;
const SELECTED_NODE: &str = "volume.kubernetes.io/selected-node";

/// The defaults of the flags, on a node whose zone has its name.
pub(super) fn node(name: &str) -> NodeFlags {
    NodeFlags {
        name: name.into(),
        immediate_binding: true,
        base_delay: Duration::from_secs(20),
        max_delay: Duration::from_mins(1),
        place: Some([("zone", name)].into_iter().collect()),
    }
}

fn with_topology(driver: &mut Identity) {
    driver.plugin_capabilities.push(Plugin::VolumeAccessibilityConstraints);
}

fn offers(scene: &Scene, available: i64, largest: Option<i64>) {
    scene.driver.script_always(Rpc::GetCapacity, move || {
        Step::respond(move |_: &GetCapacityRequest| {
            Ok(GetCapacityResponse {
                available_capacity: available,
                maximum_volume_size: largest,
                ..GetCapacityResponse::default()
            })
        })
    });
}

fn allowed(zone: &str) -> Value {
    json!({ "allowedTopologies": [{ "matchLabelExpressions": [{ "key": "zone", "values": [zone] }] }] })
}

pub(super) fn selected(node: &str) -> Value {
    json!({ "metadata": { "annotations": { SELECTED_NODE: node } } })
}

fn selected_node(api: &FakeApiServer, claim: &str) -> String {
    let claim = api.get_json::<PersistentVolumeClaim>("shop", claim).unwrap();
    claim["metadata"]["annotations"][SELECTED_NODE].as_str().unwrap_or_default().to_owned()
}

struct Row {
    case: &'static str,
    immediate: bool,
    topology: bool,
    class: Value,
    claim: Value,
    /// What the driver answers to `GetCapacity`; `None`: an error.
    available: Option<(i64, Option<i64>)>,
    /// The node selected in the end, and whether there is a volume then.
    expected: (&'static str, bool),
    /// Whether the driver was asked for its capacity.
    asked: bool,
}

impl Row {
    fn new(case: &'static str, expected: (&'static str, bool), asked: bool) -> Self {
        let (class, claim, available) = (json!({}), json!({}), Some((GIB, None)));
        Self { case, immediate: true, topology: false, class, claim, available, expected, asked }
    }
}

/// The rows of the Go provisioner for `Provision` and `ShouldProvision` of the node foo, and ours. Taking a claim and
/// provisioning it are two steps there and here; each row shows what both have led to.
#[tokio::test(start_paused = true)]
async fn what_the_provisioner_of_a_node_does_with_a_claim() {
    let rows = [
        Row { claim: selected("foo"), ..Row::new("this node selected", ("foo", true), false) },
        Row { claim: selected("foo"), immediate: false, ..Row::new("the same, not competing", ("foo", true), false) },
        Row { immediate: false, ..Row::new("none selected, not competing", ("", false), false) },
        Row { claim: selected("bar"), ..Row::new("another selected", ("bar", false), false) },
        Row::new("none selected, enough space", ("foo", true), true),
        Row { available: Some((GIB - 1, None)), ..Row::new("none selected, a byte too little", ("", false), true) },
        Row { class: allowed("foo"), ..Row::new("this place allowed, driver without topology", ("foo", true), true) },
        Row { class: allowed("bar"), topology: true, ..Row::new("another place allowed", ("", false), false) },
        // Not in the table of the Go provisioner.
        Row { class: allowed("foo"), topology: true, ..Row::new("this place allowed", ("foo", true), true) },
        Row { topology: true, ..Row::new("no place named, driver with topology", ("foo", true), true) },
        Row { available: None, ..Row::new("the space is not known", ("foo", true), true) },
        Row { available: Some((GIB * 9, Some(GIB - 1))), ..Row::new("no volume so large", ("", false), true) },
        Row {
            claim: json!({ "spec": { "resources": { "requests": { "storage": "0" } } } }),
            available: Some((0, None)),
            ..Row::new("nothing asked for", ("foo", true), false)
        },
        Row {
            class: json!({ "volumeBindingMode": "WaitForFirstConsumer" }),
            ..Row::new("the scheduler has not chosen", ("", false), false)
        },
        Row { class: json!({ "volumeBindingMode": null }), ..Row::new("no binding mode", ("", false), false) },
        Row {
            claim: json!({
                "metadata": { "annotations": { "volume.beta.kubernetes.io/storage-class": "fast" } },
                "spec": { "storageClassName": null },
            }),
            ..Row::new("class in the annotation alone", ("foo", true), true)
        },
        Row { class: json!({ "provisioner": "other" }), ..Row::new("class of another", ("", false), false) },
        Row {
            claim: json!({ "spec": { "dataSource": { "kind": "Populator", "name": "p" } } }),
            ..Row::new("for a populator", ("", false), false)
        },
    ];
    assert_eq!(rows.len(), 18, "8 of the Go provisioner, 10 of ours");
    for row in rows {
        let configure = |settings: &mut crate::settings::Settings| {
            settings.node = Some(NodeFlags { immediate_binding: row.immediate, ..node("foo") });
        };
        let identity = |driver: &mut Identity| {
            if row.topology {
                with_topology(driver);
            }
        };
        let scene = Scene::configured(configure, identity, |_| ()).await;
        match row.available {
            Some((available, largest)) => offers(&scene, available, largest),
            None => scene.driver.script_always(Rpc::GetCapacity, || Step::fail(Code::Unimplemented, "no")),
        }
        scene.add_class(with(class("fast", json!({})), &row.class));
        scene.pass(Duration::from_secs(1)).await;
        let uid = scene.add_claim(with(claim("data", "fast"), &row.claim));
        scene.pass(Duration::from_mins(2)).await;
        let volume = scene.api.get_json::<PersistentVolume>(None, &format!("pvc-{uid}")).is_some();
        assert_eq!((selected_node(&scene.api, "data").as_str(), volume), row.expected, "{}", row.case);
        assert_eq!(scene.count(Rpc::GetCapacity) > 0, row.asked, "{}", row.case);
        assert_eq!(scene.count(Rpc::CreateVolume), usize::from(row.expected.1), "{}", row.case);
        assert!(scene.events("ProvisioningFailed").is_empty(), "{}", row.case);
    }
}

/// A driver that needs topology and does not say where its node is cannot make a volume for it: another node's may.
#[tokio::test(start_paused = true)]
async fn m4_a_node_whose_place_is_not_known_takes_a_claim_after_all_others_and_tells_why_it_waits() {
    let configure = |settings: &mut crate::settings::Settings| {
        settings.node = Some(NodeFlags { place: None, ..node("foo") });
    };
    let scene = Scene::configured(configure, with_topology, |_| ()).await;
    offers(&scene, GIB, None);
    scene.add_class(class("fast", json!({})));
    scene.add_claim(claim("data", "fast"));
    scene.pass(Duration::from_mins(2)).await;
    assert_eq!(selected_node(&scene.api, "data"), "", "a27: others come first");
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(selected_node(&scene.api, "data"), "foo");
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    let told = scene.events("ProvisioningFailed");
    assert!(told.iter().all(|text| text.contains("NodeGetInfo must answer accessible_topology")), "{told:?}");
    assert_eq!(told.len(), 1, "{told:?}");
}

/// Contract "compete", and the limiter's own test.
#[test]
fn how_long_a_node_waits() {
    let seconds = |seconds: u64| Duration::from_secs(seconds);
    let flags = |base, max| NodeFlags { base_delay: base, max_delay: max, ..node("foo") };
    let cases = [
        // base, max, failures, random, expected
        (20, 60, 0, 0.0, 20),
        (20, 60, 0, 0.5, 10),
        (20, 60, 0, 1.0, 0),
        (20, 60, 1, 0.0, 40),
        (20, 60, 1, 0.5, 30),
        (20, 60, 2, 0.0, 60),
        (20, 60, 2, 1.0, 40),
        (20, 60, 200, 0.25, 55),
        (20, 10, 0, 1.0, 0),
        (0, 60, 5, 0.5, 0),
    ];
    assert_eq!(cases.len(), 10);
    for (base, max, failures, random, expected) in cases {
        let wait = delay(&flags(seconds(base), seconds(max)), failures, random);
        assert_eq!(wait, seconds(expected), "base {base}, max {max}, failures {failures}, random {random}");
    }
    for call in 0..100_u32 {
        let wait = delay(&flags(seconds(1), seconds(10)), call, f64::from(call) / 100.0);
        assert!(wait <= seconds(10), "{wait:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn each_attempt_has_one_wait_and_what_is_forgotten_begins_anew() {
    let competition = Competition::default();
    let (uid, flags) = (ClaimUid::from("u"), node("foo"));
    let Turn::In(first) = competition.turn(&uid, &flags) else { panic!("a wait of nothing is one in four milliards") };
    tokio::time::sleep(first / 2).await;
    assert!(matches!(competition.turn(&uid, &flags), Turn::In(rest) if rest <= first), "events do not prolong it");
    tokio::time::sleep(first).await;
    assert_eq!(competition.turn(&uid, &flags), Turn::Now);
    assert_eq!(competition.turn(&uid, &flags), Turn::Now, "until the attempt ends");
    competition.end_attempt(&uid);
    let Turn::In(second) = competition.turn(&uid, &flags) else { panic!("20 to 40 s") };
    assert!(second >= Duration::from_secs(20) && second <= Duration::from_secs(40), "{second:?}");
    competition.forget(&uid);
    assert_eq!(competition.len(), 0);
}

pub(super) async fn scene_of(name: &'static str) -> Scene {
    let scene = Scene::configured(|settings| settings.node = Some(node(name)), |_| (), |_| ()).await;
    offers(&scene, GIB * 1000, None);
    scene.add_class(class("fast", json!({})));
    scene.pass(Duration::from_secs(1)).await;
    scene
}

/// There are a hundred workers.
#[tokio::test(start_paused = true)]
async fn waiting_claims_keep_no_worker_busy() {
    let scene = scene_of("foo").await;
    for n in 0..110 {
        scene.add_claim(claim(&format!("waiting-{n}"), "fast"));
    }
    scene.pass(Duration::from_millis(1)).await;
    let before = Instant::now();
    let uid = scene.add_claim(with(claim("chosen", "fast"), &selected("foo")));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_millis(50), "{:?}", before.elapsed());
    scene.pass(Duration::from_secs(21)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 111, "all are taken within the base delay");
    assert_eq!(scene.term().caches.claims.len(), 111);
}

#[tokio::test(start_paused = true)]
async fn a_wait_ends_when_another_node_takes_the_claim_and_begins_anew_when_it_gives_it_back() {
    let scene = scene_of("foo").await;
    scene.api.react(Matcher::of("update", "persistentvolumeclaims"), Reaction::Refuse(Status::internal_error("busy")));
    scene.add_claim(claim("data", "fast"));
    scene.event("ProvisioningFailed").await;
    scene.api.clear_reactions();
    // Whatever the second delay is, the other node is faster.
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &selected("bar"));
    scene.pass(Duration::from_millis(1)).await;
    let asked = scene.count(Rpc::GetCapacity);
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::GetCapacity), asked, "nothing is asked for a claim of another node");
    assert_eq!(selected_node(&scene.api, "data"), "bar");
    let nobody = json!({ "metadata": { "annotations": { SELECTED_NODE: null } } });
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &nobody);
    scene.pass(Duration::from_secs(20)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1, "the first delay again: at most 20 s");
}

/// Each failure to take a claim doubles the longest wait, and says why.
#[tokio::test(start_paused = true)]
async fn a_claim_that_cannot_be_taken_is_told_and_tried_again_later_and_later() {
    let scene = scene_of("foo").await;
    let refused = Reaction::Refuse(Status::forbidden("persistentvolumeclaims is forbidden: cannot update"));
    scene.api.react(Matcher::of("update", "persistentvolumeclaims").times(4), refused);
    let begun = Instant::now();
    let uid = scene.add_claim(claim("data", "fast"));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("node foo") && text.contains("cannot update"), "{text}");
    scene.volume(&format!("pvc-{uid}")).await;
    let waited = begun.elapsed();
    let (least, most) = (Duration::from_secs(140), Duration::from_mins(4));
    assert!(waited > least && waited <= most, "{waited:?}");
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_vanishes_or_finds_no_space_leaves_nothing_but_its_count_behind() {
    let scene = scene_of("foo").await;
    scene.add_claim(claim("gone", "fast"));
    scene.pass(Duration::from_millis(1)).await;
    scene.api.remove::<PersistentVolumeClaim>("shop", "gone");
    offers(&scene, 0, None);
    scene.add_claim(claim("large", "fast"));
    scene.pass(Duration::from_mins(10)).await;
    assert_eq!(scene.count(Rpc::GetCapacity), 1, "left to others, until something changes");
    offers(&scene, GIB, None);
    scene.pass(Duration::from_mins(7)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1, "the resync looks again");
}

/// Three nodes, each with its own driver, on one API server.
async fn replicas(identity: fn(&mut Identity)) -> (FakeApiServer, Vec<Scene>) {
    let api = FakeApiServer::new();
    let mut all = Vec::new();
    for name in ["n1", "n2", "n3"] {
        let scene = Scene::beside(&api, |settings| settings.node = Some(node(name)), identity).await;
        offers(&scene, GIB * 1000, None);
        all.push(scene);
    }
    (api, all)
}

/// The claims' volumes, and on which node's driver they are.
async fn provisioned(api: &FakeApiServer, replicas: &[Scene], uids: &[String]) -> BTreeMap<String, Vec<usize>> {
    for uid in uids {
        let name = format!("pvc-{uid}");
        api.until(&name, PATIENCE, |api| api.get_json::<PersistentVolume>(None, &name)).await;
    }
    let mut made: BTreeMap<String, Vec<usize>> = BTreeMap::new();
    for (at, replica) in replicas.iter().enumerate() {
        for volume in replica.driver.volumes() {
            made.entry(volume.name).or_default().push(at);
        }
    }
    made
}

#[tokio::test(start_paused = true)]
async fn three_nodes_share_a_hundred_claims_and_each_gets_one_volume() {
    let (api, replicas) = replicas(|_| ()).await;
    api.create_json::<StorageClass>(class("fast", json!({})));
    let uids: Vec<_> = (0..100).map(|n| replicas[0].add_claim(claim(&format!("c{n}"), "fast"))).collect();
    let made = provisioned(&api, &replicas, &uids).await;
    assert_eq!(made.len(), 100);
    for (n, uid) in uids.iter().enumerate() {
        let [at] = made[&format!("pvc-{uid}")][..] else { panic!("claim {n} has volumes on several nodes: {made:?}") };
        assert_eq!(selected_node(&api, &format!("c{n}")), format!("n{}", at + 1), "claim {n}");
    }
    let calls: usize = replicas.iter().map(|replica| replica.count(Rpc::CreateVolume)).sum();
    assert_eq!(calls, 100, "no node makes what another has");
    for replica in &replicas {
        assert!(replica.count(Rpc::CreateVolume) > 10, "all take part");
    }
    let puts = api.requests_of(&Matcher::of("update", "persistentvolumeclaims")).len();
    assert!(puts < 110, "the random delays keep the writes apart: {puts}");
    assert!(replicas[0].events("ProvisioningFailed").is_empty());
}

#[tokio::test(start_paused = true)]
async fn a27_only_nodes_where_the_volume_may_be_and_fits_take_the_claim() {
    let (api, replicas) = replicas(with_topology).await;
    api.create_json::<StorageClass>(with(class("zonal", json!({})), &allowed("n2")));
    api.create_json::<StorageClass>(class("large", json!({})));
    offers(&replicas[0], GIB - 1, None);
    offers(&replicas[1], GIB - 1, None);
    let large: Vec<_> = (0..50).map(|n| replicas[0].add_claim(claim(&format!("l{n}"), "large"))).collect();
    let made = provisioned(&api, &replicas, &large).await;
    assert!(made.values().all(|nodes| *nodes == [2]), "only n3 has the space: {made:?}");

    offers(&replicas[1], GIB, None);
    let zonal: Vec<_> = (0..100).map(|n| replicas[0].add_claim(claim(&format!("z{n}"), "zonal"))).collect();
    let made = provisioned(&api, &replicas, &zonal).await;
    for uid in &zonal {
        assert_eq!(made[&format!("pvc-{uid}")], [1], "only n2 is allowed");
    }
    assert!(replicas[0].events("ProvisioningFailed").is_empty(), "nobody failed on the way");
    let request = &replicas[1].driver.requests::<GetCapacityRequest>()[0];
    let asked = request.accessible_topology.as_ref().map(|place| place.segments.clone());
    assert_eq!(asked, Some([("zone".to_owned(), "n2".to_owned())].into()), "asked for its own place");
    assert_eq!(request.volume_capabilities.len(), 1);
    assert_eq!(DRIVER, replicas[0].driver_name());
}
