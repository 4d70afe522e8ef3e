//! Which Secrets are read, and how.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use serde_json::json;

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
