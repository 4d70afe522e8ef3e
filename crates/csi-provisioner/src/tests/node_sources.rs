//! `--node-deployment`: sources that one node's process fills volumes from, beside the processes of all other nodes.

use std::time::Duration;

use fake_apiserver::{FakeApiServer, Matcher};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::PersistentVolumeClaim;
use k8s_openapi::api::storage::v1::StorageClass;
use serde_json::{Value, json};
use storage_kube::wire::VolumeSnapshot;
use tonic::Code;

use super::node_deployment::{node, selected};
use super::objects::{class, with};
use super::scene::{PATIENCE, Scene};
use super::source_objects::{
    CLONING, RESTORING, add_snapshot, add_source, claim_finalizers, clone_of, fills, puts, restore, snapshot_finalizers,
};

/// The processes of two nodes on one API server, where `shop/source` and `shop/monday` may be made volumes of.
async fn two_nodes() -> (FakeApiServer, Scene, Scene) {
    let api = FakeApiServer::new();
    let late = json!({ "volumeBindingMode": "WaitForFirstConsumer" });
    api.create_json::<StorageClass>(with(class("fast", json!({})), &late));
    add_source(&api, &json!({}), &json!({}));
    add_snapshot(&api, &json!({}), &json!({}));
    let one = of_node(&api, "n1").await;
    let two = of_node(&api, "n2").await;
    one.pass(Duration::from_secs(1)).await;
    (api, one, two)
}

async fn of_node(api: &FakeApiServer, name: &'static str) -> Scene {
    Scene::beside(api, |settings| settings.node = Some(node(name)), fills).await
}

fn is_on(finalizers: Option<Vec<String>>, finalizer: &str) -> bool {
    finalizers.is_some_and(|all| all.iter().any(|one| one == finalizer))
}

async fn gone(api: &FakeApiServer, finalizers: fn(&FakeApiServer, &str) -> Option<Vec<String>>, name: &str) {
    api.until(&format!("{name} to go"), PATIENCE, |api| finalizers(api, name).is_none().then_some(())).await;
}

fn at(claim: Value, node: &str) -> Value {
    with(claim, &selected(node))
}

#[tokio::test(start_paused = true)]
async fn a_clone_of_one_node_keeps_its_source_from_the_processes_of_all_others() {
    let (api, one, two) = two_nodes().await;
    let release = Release::new();
    one.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let uid = one.add_claim(at(clone_of("data", "source"), "n1"));
    one.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    two.pass(Duration::from_secs(2)).await;
    assert!(is_on(claim_finalizers(&api, "source"), CLONING), "nobody takes it off");
    api.delete::<PersistentVolumeClaim>("shop", "source");
    two.pass(Duration::from_secs(2)).await;
    assert!(is_on(claim_finalizers(&api, "source"), CLONING), "although it is to be deleted");
    release.release();
    one.volume(&format!("pvc-{uid}")).await;
    gone(&api, claim_finalizers, "source").await;
    assert_eq!((one.count(Rpc::CreateVolume), two.count(Rpc::CreateVolume)), (1, 0));
}

#[tokio::test(start_paused = true)]
async fn a_restore_of_one_node_keeps_its_snapshot_from_the_sweeps_of_all_others() {
    let (api, one, two) = two_nodes().await;
    one.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Aborted, "pending"));
    one.add_claim(at(restore("data", "monday"), "n1"));
    two.pass(Duration::from_mins(11)).await;
    assert!(is_on(snapshot_finalizers(&api, "monday"), RESTORING), "two sweeps later");
    api.delete::<VolumeSnapshot>("shop", "monday");
    two.pass(Duration::from_mins(11)).await;
    assert!(is_on(snapshot_finalizers(&api, "monday"), RESTORING), "although it is to be deleted");
    one.driver.forget_script();
    gone(&api, snapshot_finalizers, "monday").await;
}

/// What another node's claim waits for does not hold up this node's: the source goes with the last that is at work.
#[tokio::test(start_paused = true)]
async fn a_clone_that_fails_for_ever_on_its_node_lets_the_source_go() {
    let (api, one, two) = two_nodes().await;
    one.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "the backend is on fire"));
    one.add_claim(at(clone_of("failing", "source"), "n1"));
    one.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    let release = Release::new();
    two.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let uid = two.add_claim(at(clone_of("data", "source"), "n2"));
    two.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    api.delete::<PersistentVolumeClaim>("shop", "source");
    one.pass(Duration::from_mins(11)).await;
    assert!(is_on(claim_finalizers(&api, "source"), CLONING), "the other node's clone is in flight");
    release.release();
    two.volume(&format!("pvc-{uid}")).await;
    two.bind("data", &format!("pvc-{uid}"));
    gone(&api, claim_finalizers, "source").await;
}

/// Its node is gone for good: the processes of the others let the source go when the claim is deleted, or bound.
#[tokio::test(start_paused = true)]
async fn a_source_that_a_lost_node_has_left_protected_goes_with_the_claim() {
    let api = FakeApiServer::new();
    let late = json!({ "volumeBindingMode": "WaitForFirstConsumer" });
    api.create_json::<StorageClass>(with(class("fast", json!({})), &late));
    add_source(&api, &json!({ "metadata": { "finalizers": [CLONING] } }), &json!({}));
    api.create_json::<PersistentVolumeClaim>(at(clone_of("data", "source"), "lost"));
    let (one, _two) = (of_node(&api, "n1").await, of_node(&api, "n2").await);
    one.pass(Duration::from_secs(5)).await;
    assert!(is_on(claim_finalizers(&api, "source"), CLONING));
    api.delete::<PersistentVolumeClaim>("shop", "source");
    one.pass(Duration::from_mins(1)).await;
    assert!(is_on(claim_finalizers(&api, "source"), CLONING), "the claim may be at work on its node");
    api.delete::<PersistentVolumeClaim>("shop", "data");
    gone(&api, claim_finalizers, "source").await;
}

/// A hundred nodes must not ask for each source that one of them is done with.
#[tokio::test(start_paused = true)]
async fn only_the_node_that_clones_asks_for_the_source() {
    let (api, one, two) = two_nodes().await;
    let uid = one.add_claim(at(clone_of("data", "source"), "n1"));
    one.volume(&format!("pvc-{uid}")).await;
    one.bind("data", &format!("pvc-{uid}"));
    two.pass(Duration::from_mins(1)).await;
    assert_eq!(puts(&api, "persistentvolumeclaims", CLONING), [1, 1]);
    let gets = api.requests_of(&Matcher::of("get", "persistentvolumeclaims").name("source"));
    assert_eq!(gets.len(), 3, "to look at it, and for each of the two writes");
}
