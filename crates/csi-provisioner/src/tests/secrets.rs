//! Which Secrets are read, and how.

use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::core::v1::Secret;
use serde_json::json;
use tonic::Code;

use super::objects::{claim, class, secret};
use super::scene::Scene;

fn with_secret() -> serde_json::Value {
    json!({
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "vault",
        "csi.storage.k8s.io/node-stage-secret-name": "stage",
        "csi.storage.k8s.io/node-stage-secret-namespace": "vault",
    })
}

/// Of all the Secrets of a cluster only those are read that a call needs, by name.
#[tokio::test(start_paused = true)]
async fn i3_secrets_are_only_ever_read_by_name() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", with_secret()));
    for name in ["key", "stage", "other"] {
        scene.add_secret(secret("vault", name, "password", "c2VzYW1l"));
    }
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.bind("data", &name);
    scene.release(&name);
    scene.volume_gone(&name).await;
    scene.pass(Duration::from_hours(1)).await;
    let asked = scene.api.requests_of(&Matcher::any().resource("secrets"));
    let asked: Vec<_> = asked.iter().map(|request| request.summary()).collect();
    assert_eq!(asked, ["get secrets vault/key", "get secrets vault/key"], "once to create, once to delete");
}

#[tokio::test(start_paused = true)]
async fn i3_a_secret_that_may_not_be_read_is_told_with_the_right_that_is_missing() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", with_secret()));
    let refusal = Status::forbidden("secrets \"key\" is forbidden: cannot get resource");
    scene.api.react(Matcher::of("get", "secrets"), Reaction::Refuse(refusal));
    scene.add_claim(claim("data", "fast"));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("vault/key") && text.contains("allow get on secrets"), "{text}");
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

/// What was sent to the driver as its password, call by call; the rest of the requests is the same.
fn passwords(scene: &Scene) -> Vec<String> {
    let mut requests = scene.driver.requests::<CreateVolumeRequest>();
    let passwords = requests.iter_mut().map(|request| request.secrets.remove("password").unwrap_or_default()).collect();
    assert!(requests.iter().all(|request| *request == requests[0]), "every try asks for the same");
    passwords
}

#[tokio::test(start_paused = true)]
async fn l1_a_call_that_is_repeated_carries_what_its_secret_contains_by_then() {
    for code in [Code::DeadlineExceeded, Code::Unavailable] {
        let scene = Scene::start().await;
        scene.add_class(class("fast", with_secret()));
        scene.add_secret(secret("vault", "key", "password", "d3Jvbmc="));
        scene.driver.script_always(Rpc::CreateVolume, move || Step::fail(code, "the backend knows no such password"));
        let uid = scene.add_claim(claim("data", "fast"));
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
        scene.api.merge::<Secret>("vault", "key", &json!({ "data": { "password": "cmlnaHQ=" } }));
        scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 3).await;
        scene.driver.forget_script();
        scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(passwords(&scene), ["wrong", "wrong", "right", "right"], "{code:?}");
    }
}

#[tokio::test(start_paused = true)]
async fn l1_while_the_secret_is_gone_a_repeated_call_carries_what_was_read_last() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", with_secret()));
    scene.add_secret(secret("vault", "key", "password", "d3Jvbmc="));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Unavailable, "busy"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.merge::<Secret>("vault", "key", &json!({ "data": { "password": "cmlnaHQ=" } }));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    scene.api.delete::<Secret>("vault", "key");
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 3).await;
    scene.driver.forget_script();
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(passwords(&scene), ["wrong", "right", "right", "right"]);
}
