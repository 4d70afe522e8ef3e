//! A claim becomes a volume.

use std::time::Duration;

use csi_proto::csi::v1::{CreateVolumeRequest, CreateVolumeResponse, DeleteVolumeRequest, Volume};
use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{claim, class, secret, with};
use super::scene::{Scene, flags};
use crate::settings::ProvisioningFlags;

#[tokio::test(start_paused = true)]
async fn a_claim_becomes_a_volume() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({ "tier": "gold" })));
    let uid = scene.add_claim(claim("data", "fast"));
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(volume["spec"]["csi"]["volumeHandle"], format!("handle-1-of-pvc-{uid}"));
    assert_eq!(volume["spec"]["claimRef"]["uid"], uid.as_str());
    assert_eq!(scene.event("ProvisioningSucceeded").await, format!("Successfully provisioned volume pvc-{uid}"));
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests.len(), 1);
    assert_eq!(requests[0].parameters, [("tier".to_owned(), "gold".to_owned())].into());
    assert!(scene.events("Provisioning").is_empty(), "an instant call is not announced");
}

#[tokio::test(start_paused = true)]
async fn claims_of_others_and_bound_claims_are_left_alone() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let foreign = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/storage-provisioner": "other", "volume.beta.kubernetes.io/storage-provisioner": "other" } } });
    scene.add_claim(with(claim("foreign", "fast"), &foreign));
    scene.add_claim(with(claim("bound", "fast"), &json!({ "spec": { "volumeName": "by-hand" } })));
    scene.add_claim(with(claim("unannotated", "fast"), &json!({ "metadata": { "annotations": null } })));
    let uid = scene.add_claim(claim("ours", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_that_waits_for_its_first_consumer_is_provisioned_when_a_node_is_selected() {
    let scene = Scene::start().await;
    scene.add_class(with(class("late", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    let uid = scene.add_claim(claim("data", "late"));
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    let node = json!({ "metadata": { "annotations": { "volume.kubernetes.io/selected-node": "n1" } } });
    scene.api.merge::<PersistentVolumeClaim>("shop", "data", &node);
    scene.volume(&format!("pvc-{uid}")).await;
}

#[tokio::test(start_paused = true)]
async fn a_missing_class_is_told_and_provisioning_starts_when_it_appears() {
    let scene = Scene::start().await;
    let uid = scene.add_claim(claim("data", "fast"));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("storageclass.storage.k8s.io \"fast\" not found"), "{text}");
    scene.pass(Duration::from_hours(1)).await;
    let before = tokio::time::Instant::now();
    scene.add_class(class("fast", json!({})));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(before.elapsed() < Duration::from_secs(1), "the class ends the backoff");
}

#[tokio::test(start_paused = true)]
async fn the_provisioner_secret_goes_to_the_driver_and_its_name_on_the_volume() {
    let scene = Scene::start().await;
    let parameters = json!({
        "csi.storage.k8s.io/provisioner-secret-name": "${pvc.name}-key",
        "csi.storage.k8s.io/provisioner-secret-namespace": "${pvc.namespace}",
    });
    scene.add_class(class("fast", parameters));
    let uid = scene.add_claim(claim("data", "fast"));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("shop/data-key"), "{text}");
    assert_eq!(scene.count(Rpc::CreateVolume), 0, "nothing is asked of the driver without the Secret");
    scene.add_secret(secret("shop", "data-key", "password", "c2VzYW1l"));
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    let requests = scene.driver.requests::<CreateVolumeRequest>();
    assert_eq!(requests[0].secrets, [("password".to_owned(), "sesame".to_owned())].into());
    assert!(requests[0].parameters.is_empty());
    let annotations = &volume["metadata"]["annotations"];
    assert_eq!(annotations["volume.kubernetes.io/provisioner-deletion-secret-name"], "data-key");
    assert_eq!(annotations["volume.kubernetes.io/provisioner-deletion-secret-namespace"], "shop");
}

#[tokio::test(start_paused = true)]
async fn of_all_secrets_of_the_class_only_the_provisioners_is_read() {
    let scene = Scene::start().await;
    let kinds = [
        "provisioner",
        "controller-publish",
        "node-stage",
        "node-publish",
        "controller-expand",
        "node-expand",
        "controller-modify",
    ];
    let pairs = kinds.iter().flat_map(|kind| {
        [("name", format!("key-{kind}")), ("namespace", "shop".to_owned())]
            .map(|(half, value)| (format!("csi.storage.k8s.io/{kind}-secret-{half}"), json!(value)))
    });
    scene.add_class(class("fast", Value::Object(pairs.collect())));
    scene.add_secret(secret("shop", "key-provisioner", "password", "c2VzYW1l"));
    let uid = scene.add_claim(claim("data", "fast"));
    let volume = scene.volume(&format!("pvc-{uid}")).await;
    let read: Vec<_> =
        scene.api.requests_of(&Matcher::any().resource("secrets")).iter().map(|one| one.summary()).collect();
    assert_eq!(read, ["get secrets shop/key-provisioner"]);
    assert_eq!(
        volume["metadata"]["annotations"]["volume.kubernetes.io/controller-modify-secret-name"],
        "key-controller-modify"
    );
    assert_eq!(volume["spec"]["csi"]["nodeStageSecretRef"]["name"], "key-node-stage");
}

#[tokio::test(start_paused = true)]
async fn a_slow_create_volume_is_announced() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::answer().after(Duration::from_secs(5)));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    let text = scene.event("Provisioning").await;
    assert_eq!(text, "External provisioner is provisioning volume for claim \"shop/data\"");
}

#[tokio::test(start_paused = true)]
async fn what_the_driver_answers_is_the_size_of_the_volume() {
    let gib = 1 << 30;
    let cases = [(0, "1Gi"), (gib, "1Gi"), (gib + 1, "1073741825"), (2 * gib, "2Gi")];
    assert_eq!(cases.len(), 4);
    for (answered, written) in cases {
        let scene = Scene::start().await;
        scene.add_class(class("fast", json!({})));
        scene.driver.script(Rpc::CreateVolume, answer_of_size(answered));
        let uid = scene.add_claim(claim("data", "fast"));
        let volume = scene.volume(&format!("pvc-{uid}")).await;
        assert_eq!(volume["spec"]["capacity"]["storage"], written, "driver answered {answered}");
    }
}

fn answer_of_size(bytes: i64) -> Step {
    Step::respond(move |_: &CreateVolumeRequest| {
        let volume = Volume { volume_id: "v".into(), capacity_bytes: bytes, ..Volume::default() };
        Ok(CreateVolumeResponse { volume: Some(volume) })
    })
}

#[tokio::test(start_paused = true)]
async fn a_volume_that_came_out_too_small_is_deleted_and_made_again() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, answer_of_size((1 << 30) - 1));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    let deleted = scene.driver.requests::<DeleteVolumeRequest>();
    assert_eq!(deleted.iter().map(|request| request.volume_id.as_str()).collect::<Vec<_>>(), ["v"]);
    assert_eq!(scene.count(Rpc::CreateVolume), 2);
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("1073741823 bytes where 1073741824 were requested"), "{text}");
}

#[tokio::test(start_paused = true)]
async fn an_answer_without_a_volume_is_an_error_and_is_asked_again() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let without_id = Volume { capacity_bytes: 1 << 30, ..Volume::default() };
    for volume in [None, Some(without_id)] {
        let answer = CreateVolumeResponse { volume };
        scene.driver.script(Rpc::CreateVolume, Step::respond(move |_: &CreateVolumeRequest| Ok(answer)));
    }
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert!(scene.event("ProvisioningFailed").await.contains("without a volume"));
    assert_eq!(scene.count(Rpc::CreateVolume), 3);
}

#[tokio::test(start_paused = true)]
async fn the_volume_object_is_written_again_after_a_refusal() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    let refused = Reaction::Refuse(Status::new(500, "InternalError", "etcd is busy"));
    scene.api.react(Matcher::of("create", "persistentvolumes").times(3), refused);
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1, "the driver is not asked again for what it has done");
    assert_eq!(scene.count(Rpc::DeleteVolume), 0);
    assert!(scene.event("ProvisioningFailed").await.contains("etcd is busy"));
    scene.event("ProvisioningSucceeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_lost_answer_to_the_write_of_the_volume_is_success() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.api.react(Matcher::of("create", "persistentvolumes").once(), Reaction::LoseAnswer);
    scene.add_claim(claim("data", "fast"));
    scene.event("ProvisioningSucceeded").await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    assert_eq!(scene.api.list::<PersistentVolume>().len(), 1);
}

/// The volume controller may see the object before this process has read the answer to its write.
#[tokio::test(start_paused = true)]
async fn a_claim_bound_before_the_answer_to_the_write_is_told_of_its_volume() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.api.react(Matcher::of("create", "persistentvolumes").once(), Reaction::DelayAnswer(Duration::from_secs(3)));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.bind("data", &name);
    scene.event("ProvisioningSucceeded").await;
}

#[tokio::test(start_paused = true)]
async fn a_volume_name_taken_by_another_claim_is_no_success() {
    let scene = Scene::with(ProvisioningFlags { volume_name_prefix: "vol".to_owned(), ..flags() }, |_| ()).await;
    scene.add_class(class("fast", json!({})));
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    let name = format!("vol-{uid}");
    let other = json!({ "metadata": { "name": name }, "spec": { "csi": { "driver": "other", "volumeHandle": "h" } } });
    scene.add_volume(other);
    release.release();
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("exists and is for another claim"), "{text}");
    assert!(scene.events("ProvisioningSucceeded").is_empty());
    scene.api.remove::<PersistentVolume>(None, &name);
    scene.event("ProvisioningSucceeded").await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
}

#[tokio::test(start_paused = true)]
async fn a_claim_updated_while_its_volume_is_being_written_gets_one_volume() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.api.react(Matcher::of("create", "persistentvolumes").once(), Reaction::DelayAnswer(Duration::from_secs(3)));
    scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    for round in 0..20 {
        let change = json!({ "metadata": { "annotations": { "round": round.to_string() } } });
        scene.api.merge::<PersistentVolumeClaim>("shop", "data", &change);
        scene.pass(Duration::from_millis(500)).await;
    }
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    assert_eq!(scene.writes(), ["create persistentvolumes"]);
}

#[tokio::test(start_paused = true)]
async fn a_term_that_drains_lets_the_call_in_flight_end_and_saves_its_volume() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::answer().after(Duration::from_secs(7)));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.begin_stop();
    scene.add_claim(claim("late", "fast"));
    let (api, driver) = scene.stop().await;
    assert!(api.get_json::<PersistentVolume>(None, &format!("pvc-{uid}")).is_some());
    assert_eq!(driver.calls_of(Rpc::CreateVolume).len(), 1, "nothing is started while draining");
}

#[tokio::test(start_paused = true)]
async fn outcomes_are_counted_by_class() {
    let scene = Scene::start().await;
    scene.add_class(class("fast", json!({})));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "no"));
    let uid = scene.add_claim(claim("data", "fast"));
    scene.volume(&format!("pvc-{uid}")).await;
    scene.event("ProvisioningSucceeded").await;
    let text = prometheus::TextEncoder::new().encode_to_string(&scene.registry.gather()).unwrap();
    for line in [
        r#"controller_persistentvolumeclaim_provision_total{class="fast",source=""} 1"#,
        r#"controller_persistentvolumeclaim_provision_failed_total{class="fast",source=""} 1"#,
        r#"controller_persistentvolumeclaim_provision_duration_seconds_count{class="fast",source=""} 1"#,
    ] {
        assert!(text.contains(line), "{line} is not in\n{text}");
    }
}
