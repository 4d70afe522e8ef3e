//! VolumeAttributesClass at creation.

use std::convert::Infallible;
use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use http_body_util::Full;
use serde_json::{Value, json};
use storage_kube::wire::VolumeAttributesClass;
use tonic::Code;

use super::objects::{DRIVER, claim, class, with};
use super::scene::{Scene, flags};
use super::source_objects::fills;
use crate::attributes_class::{self, AttributesClassError};
use crate::error::{Disposition, Memory, PlanError, ProvisionError};
use crate::settings::ProvisioningFlags;

fn gold(driver: &str) -> Value {
    json!({ "metadata": { "name": "gold" }, "driverName": driver, "parameters": { "iops": "4000", "tier": "of the class" } })
}

fn wants_gold() -> Value {
    with(claim("data", "fast"), &json!({ "spec": { "volumeAttributesClassName": "gold" } }))
}

async fn scene(gate: bool, modifies: bool) -> Scene {
    let scene = Scene::with(ProvisioningFlags { attributes_class_gate: gate, ..flags() }, |driver| {
        fills(driver);
        driver.controller_capabilities.retain(|one| modifies || *one != ControllerRpc::ModifyVolume);
    })
    .await;
    scene.add_class(class("fast", json!({ "tier": "of the storage class" })));
    scene
}

/// The rows of the provision table that end with a volume.
#[tokio::test(start_paused = true)]
async fn attributes_go_to_the_driver_and_the_class_onto_the_volume() {
    let mutable = || json!({ "iops": "4000", "tier": "of the class" });
    let cases = [
        ("driver can modify", true, true, wants_gold(), mutable(), json!("gold")),
        ("gate off", false, true, wants_gold(), json!({}), Value::Null),
        ("gate off, driver cannot", false, false, wants_gold(), json!({}), Value::Null),
        ("no class", true, true, claim("data", "fast"), json!({}), Value::Null),
        ("no class, driver cannot", true, false, claim("data", "fast"), json!({}), Value::Null),
    ];
    assert_eq!(cases.len(), 5);
    for (case, gate, modifies, claim, parameters, on_volume) in cases {
        let scene = scene(gate, modifies).await;
        scene.api.create_json::<VolumeAttributesClass>(gold(DRIVER));
        let uid = scene.add_claim(claim);
        let volume = scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(volume["spec"]["volumeAttributesClassName"], on_volume, "{case}");
        let request = &scene.driver.requests::<CreateVolumeRequest>()[0];
        assert_eq!(json!(request.mutable_parameters), parameters, "{case}");
        assert_eq!(json!(request.parameters), json!({ "tier": "of the storage class" }), "{case}");
    }
}

/// The rows that end without one.
#[tokio::test(start_paused = true)]
async fn a_class_that_cannot_be_used_is_told() {
    let cases = [
        ("driver cannot modify", false, Some(gold(DRIVER)), "MODIFY_VOLUME"),
        ("missing", true, None, "VolumeAttributesClass \"gold\" not found"),
        ("of another driver", true, Some(gold("other.example.com")), "other.example.com"),
    ];
    assert_eq!(cases.len(), 3);
    for (case, modifies, object, expected) in cases {
        let scene = scene(true, modifies).await;
        if let Some(object) = object {
            scene.api.create_json::<VolumeAttributesClass>(object);
        }
        scene.add_claim(wants_gold());
        let text = scene.event("ProvisioningFailed").await;
        assert!(text.contains(expected), "{case}: {text}");
        assert_eq!(scene.count(Rpc::CreateVolume), 0, "{case}");
    }
}

/// States of the contract: a class that is missing changes nothing, the others are final.
#[test]
fn what_becomes_of_the_memory_of_a_call() {
    let name = || "gold".to_owned();
    let cases = [
        (ProvisionError::from(AttributesClassError::Missing { class: name() }), Memory::Unchanged),
        (AttributesClassError::Forbidden { class: name(), reason: String::new() }.into(), Memory::Unchanged),
        (AttributesClassError::OtherDriver { class: name(), driver: name(), own: name() }.into(), Memory::Forget),
        (AttributesClassError::Impossible { class: name() }.into(), Memory::Forget),
        (PlanError::NoModification { driver: name() }.into(), Memory::Forget),
    ];
    assert_eq!(cases.len(), 5);
    for (error, memory) in cases {
        assert_eq!(error.disposition(), Disposition::BackOff(memory), "{error}");
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_that_may_not_be_read_is_told_with_the_right_that_is_missing() {
    let scene = scene(true, true).await;
    let refusal = Status::forbidden("volumeattributesclasses is forbidden");
    scene.api.react(Matcher::of("get", "volumeattributesclasses"), Reaction::Refuse(refusal));
    scene.add_claim(wants_gold());
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("allow get on volumeattributesclasses"), "{text}");
}

/// Preconditions may block only the first call.
#[tokio::test(start_paused = true)]
async fn a4_an_uncertain_create_goes_on_when_the_attributes_class_is_gone() {
    let scene = scene(true, true).await;
    scene.api.create_json::<VolumeAttributesClass>(gold(DRIVER));
    for _ in 0..3 {
        scene.driver.script(Rpc::CreateVolume, Step::work_then_fail(Code::Unavailable, "busy"));
    }
    let uid = scene.add_claim(wants_gold());
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<VolumeAttributesClass>(None, "gold");
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(volume["spec"]["volumeAttributesClassName"], "gold");
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 4);
    assert!(requests.iter().all(|request| request.mutable_parameters["iops"] == "4000"));
}

/// Reads the kinds of a group from `answer`; the outcome, and how often it was asked for.
async fn discovered(asked: bool, answer: Option<(u16, Value)>) -> (bool, usize) {
    let count = std::sync::Arc::new(std::sync::atomic::AtomicUsize::new(0));
    let counted = count.clone();
    let service = tower::service_fn(move |request: http::Request<kube::client::Body>| {
        assert_eq!(request.uri().path(), "/apis/storage.k8s.io/v1");
        counted.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        let answer = answer.clone();
        async move {
            let Some((code, body)) = answer else { std::future::pending().await };
            let body = Full::new(hyper::body::Bytes::from(body.to_string()));
            Ok::<_, Infallible>(http::Response::builder().status(code).body(body).unwrap())
        }
    });
    let client = kube::Client::new(service, "default");
    let discovery = attributes_class::kind(asked);
    discovery.find_out(&client).await;
    discovery.find_out(&client).await;
    (discovery.may_be_served(), count.load(std::sync::atomic::Ordering::Relaxed))
}

/// Contract of the gate: off when the API server says that it lacks the kind; without an answer, or set by hand, as it is.
#[tokio::test(start_paused = true)]
async fn the_gate_goes_off_where_the_api_server_lacks_the_kind() {
    let kinds = |kinds: &[&str]| {
        let resources: Vec<_> =
            kinds.iter().map(|kind| json!({ "kind": kind, "name": "x", "verbs": ["get"] })).collect();
        json!({ "kind": "APIResourceList", "apiVersion": "v1", "groupVersion": "storage.k8s.io/v1", "resources": resources })
    };
    let refusal = |code: u16| json!({ "kind": "Status", "apiVersion": "v1", "status": "Failure", "code": code, "message": "", "reason": "" });
    let cases = [
        ("there", true, Some((200, kinds(&["StorageClass", "VolumeAttributesClass"]))), (true, 1)),
        ("not there", true, Some((200, kinds(&["StorageClass"]))), (false, 2)),
        ("no such group", true, Some((404, refusal(404))), (false, 2)),
        ("forbidden", true, Some((403, refusal(403))), (true, 2)),
        ("broken", true, Some((500, refusal(500))), (true, 2)),
        ("no answer", true, None, (true, 2)),
        ("set by hand", false, Some((200, kinds(&["StorageClass"]))), (true, 0)),
    ];
    assert_eq!(cases.len(), 7);
    for (case, asked, answer, expected) in cases {
        assert_eq!(discovered(asked, answer).await, expected, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn where_the_api_server_lacks_the_kind_the_field_is_ignored() {
    let flags = ProvisioningFlags { discover_attributes_class: true, ..flags() };
    let lacks = |api: &FakeApiServer| api.serve("storage.k8s.io", "v1", "volumeattributesclasses", false);
    let scene = Scene::configured(|settings| settings.flags = flags, |_| (), lacks).await;
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(wants_gold());
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    assert!(volume["spec"]["volumeAttributesClassName"].is_null());
}

/// Leader election may be lost and won beside an upgrade, in one process.
#[tokio::test(start_paused = true)]
async fn k3_after_an_upgrade_of_the_api_server_the_next_term_of_the_process_knows_the_kind() {
    let flags = ProvisioningFlags { discover_attributes_class: true, ..flags() };
    let lacks = |api: &FakeApiServer| api.serve("storage.k8s.io", "v1", "volumeattributesclasses", false);
    let scene = Scene::configured(|settings| settings.flags = flags, fills, lacks).await;
    scene.add_class(class("fast", json!({})));
    scene.pass(Duration::from_secs(1)).await;
    scene.begin_stop();
    scene.pass(Duration::from_secs(1)).await;

    scene.api.serve("storage.k8s.io", "v1", "volumeattributesclasses", true);
    scene.api.create_json::<VolumeAttributesClass>(gold(DRIVER));
    scene.lead_again();
    let uid = scene.add_claim(wants_gold());
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(volume["spec"]["volumeAttributesClassName"], "gold");
    assert_eq!(scene.driver.requests::<CreateVolumeRequest>()[0].mutable_parameters["iops"], "4000");
}
