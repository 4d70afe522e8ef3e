//! Who owns the objects.

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use k8s_openapi::api::apps::v1::ReplicaSet;
use k8s_openapi::api::core::v1::Pod;
use serde_json::{Value, json};
use storage_kube::names::Namespace;

use super::pool::flags;
use crate::capacity::owner::{await_owner, find};
use crate::settings::CapacityFlags;

fn metadata(name: &str, uid: &str, owners: Value) -> Value {
    json!({ "metadata": { "namespace": "ns", "name": name, "uid": uid, "ownerReferences": owners } })
}

fn controlled_by(kind: &str, name: &str, uid: &str) -> Value {
    json!([
        { "apiVersion": "v1", "kind": "ConfigMap", "name": "no-controller", "uid": "x" },
        { "apiVersion": "apps/v1", "kind": kind, "name": name, "uid": uid, "controller": true, "blockOwnerDeletion": true },
    ])
}

/// A pod of a ReplicaSet of a Deployment that is not there.
fn cluster() -> FakeApiServer {
    let api = FakeApiServer::new();
    api.create_json::<Pod>(metadata("alone", "u1", json!([])));
    api.create_json::<Pod>(metadata("pod", "u2", controlled_by("ReplicaSet", "set", "u-set")));
    api.create_json::<Pod>(metadata("orphan", "u3", controlled_by("ReplicaSet", "gone", "u-gone")));
    api.create_json::<Pod>(metadata("odd", "u4", controlled_by("Oddity", "one", "u-odd")));
    api.create_json::<ReplicaSet>(metadata("set", "u-set", controlled_by("Deployment", "deployment", "u-deployment")));
    let elsewhere = json!({ "metadata": { "namespace": "other", "name": "gone" } });
    api.create_json::<ReplicaSet>(elsewhere);
    api
}

#[tokio::test(start_paused = true)]
async fn the_owner_is_so_many_controllers_above_the_pod() {
    let api = cluster();
    let pod_uid = api.get_json::<Pod>("ns", "pod").unwrap()["metadata"]["uid"].clone();
    let cases = [
        ("missing", 0, Err("pods \"missing\" not found")),
        ("alone", 0, Ok(json!({ "apiVersion": "v1", "kind": "Pod", "name": "alone" }))),
        ("pod", 0, Ok(json!({ "apiVersion": "v1", "kind": "Pod", "name": "pod", "uid": pod_uid }))),
        ("alone", 1, Err("has no controller")),
        ("pod", 1, Ok(json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "set", "uid": "u-set" }))),
        ("orphan", 1, Ok(json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": "gone", "uid": "u-gone" }))),
        ("orphan", 2, Err("replicasets.apps \"gone\" not found")),
        (
            "pod",
            2,
            Ok(json!({ "apiVersion": "apps/v1", "kind": "Deployment", "name": "deployment", "uid": "u-deployment" })),
        ),
        ("pod", 3, Err("deployments.apps \"deployment\" not found")),
        ("odd", 2, Err("Oddity of apps/v1")),
    ];
    assert_eq!(cases.len(), 10);
    for (pod, level, expected) in cases {
        let found = find(&api.client(), &Namespace::from("ns"), pod, level).await;
        match (found, expected) {
            (Ok(owner), Ok(expected)) => {
                let reference = owner.reference();
                assert_eq!(reference["controller"], true, "{pod} {level}");
                assert!(reference.get("blockOwnerDeletion").is_none());
                for (field, value) in expected.as_object().unwrap() {
                    assert_eq!(reference[field], *value, "{pod} {level}");
                }
            }
            (Err(error), Err(expected)) => assert!(error.to_string().contains(expected), "{pod} {level}: {error}"),
            (found, expected) => panic!("{pod} {level}: {found:?}, not {expected:?}"),
        }
    }
}

fn asked(pod: &str, level: u32) -> CapacityFlags {
    let namespace = Namespace::from("ns");
    CapacityFlags { namespace, pod: Some(pod.to_owned()), owner_level: Some(level), ..flags() }
}

#[tokio::test(start_paused = true)]
async fn without_its_owner_the_process_ends_and_an_api_server_that_is_away_is_waited_for() {
    let api = cluster();
    let exit = await_owner(&api.client(), &asked("missing", 1)).await.unwrap_err();
    assert_eq!(exit.code, 255);
    assert!(exit.message.contains("POD_NAME"), "{}", exit.message);

    api.react(Matcher::of("get", "pods").times(1), Reaction::Refuse(Status::forbidden("no")));
    let exit = await_owner(&api.client(), &asked("pod", 1)).await.unwrap_err();
    assert_eq!(exit.code, 255, "rights do not come by themselves");

    api.react(Matcher::any().times(2), Reaction::BreakConnection);
    api.react(Matcher::of("get", "pods").times(2), Reaction::Refuse(Status::internal_error("starting")));
    let found = await_owner(&api.client(), &asked("pod", 1)).await.unwrap().unwrap();
    assert_eq!(found.reference()["name"], "set");
}
