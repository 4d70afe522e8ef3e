//! Gate `AnnotateFsResize`: how big the file system was stays known until the node has grown it.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};

use super::growth::{GI, ONE_TRY, grows};
use super::objects::{CLAIM, NAMESPACE, VOLUME, claim, volume};
use super::scene::{Config, Scene, config};

const NOTE: &str = "volume.alpha.kubernetes.io/pre-resize-capacity";

async fn annotating() -> Scene {
    let scene = Scene::with(Config { annotates: true, ..config() }, |_| ()).await;
    grows(&scene.driver, true);
    scene
}

fn noted(mut volume: Value, size: &str) -> Value {
    volume["metadata"]["annotations"] = json!({ NOTE: size, "other": "stays" });
    volume
}

impl Scene {
    fn note(&self) -> Option<String> {
        self.volume_json()["metadata"]["annotations"][NOTE].as_str().map(str::to_owned)
    }

    /// The kubelet has grown the file system.
    fn node_done(&self, size: &str) {
        self.merge_claim(&json!({ "status": {
            "capacity": { "storage": size }, "allocatedResourceStatuses": null, "conditions": null,
        } }));
    }
}

#[tokio::test(start_paused = true)]
async fn the_note_is_written_with_the_size_and_goes_when_the_node_is_through() {
    let scene = annotating().await;
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    let patches = scene.api.requests_of(&Matcher::of("patch", "persistentvolumes"));
    assert_eq!(patches.len(), 1);
    assert_eq!(patches[0].body["metadata"]["annotations"][NOTE], "1Gi");
    assert_eq!(patches[0].body["spec"]["capacity"]["storage"], "2Gi");
    scene.pass(Duration::from_mins(30)).await;
    assert_eq!(scene.note().as_deref(), Some("1Gi"), "the node has not done it");
    scene.node_done("2Gi");
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.note(), None);
    assert_eq!(scene.asked().len(), 1);
}

#[tokio::test(start_paused = true)]
async fn the_first_of_several_sizes_counts() {
    let scene = annotating().await;
    scene.add_pair(claim("3Gi", "1Gi"), noted(volume("2Gi"), "512Mi"));
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.asked(), [3 * GI]);
    assert_eq!(scene.note().as_deref(), Some("512Mi"));
}

/// The node was through, and the claim asks for more before the note has gone.
#[tokio::test(start_paused = true)]
async fn a_note_that_is_over_makes_room_for_the_next() {
    let scene = annotating().await;
    scene.add_pair(claim("3Gi", "2Gi"), noted(volume("2Gi"), "1Gi"));
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.note().as_deref(), Some("2Gi"));
}

#[tokio::test(start_paused = true)]
async fn without_need_of_the_node_or_without_the_gate_nothing_is_noted() {
    for annotates in [true, false] {
        let scene = Scene::with(Config { annotates, ..config() }, |_| ()).await;
        grows(&scene.driver, !annotates);
        scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
        scene.pass(ONE_TRY).await;
        assert_eq!(scene.asked().len(), 1);
        assert_eq!(scene.note(), None);
        let watched = scene
            .api
            .requests()
            .iter()
            .any(|request| request.resource == "persistentvolumes" && matches!(request.verb, "list" | "watch"));
        assert_eq!(watched, annotates, "volumes are watched for their notes alone");
    }
}

/// A note from before the start, or one that could not be taken off at first.
#[tokio::test(start_paused = true)]
async fn a_note_that_is_over_goes_whenever_it_is_found() {
    let scene = annotating().await;
    let down = Reaction::Refuse(Status::internal_error("down"));
    scene.api.react(Matcher::of("patch", "persistentvolumes").times(2), down);
    scene.add_pair(claim("2Gi", "2Gi"), noted(volume("2Gi"), "1Gi"));
    scene.pass(ONE_TRY).await;
    assert!(scene.note().is_some());
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.note(), None);
    assert_eq!(scene.volume_json()["metadata"]["annotations"]["other"], "stays");
}

#[tokio::test(start_paused = true)]
async fn notes_of_others_and_of_claims_that_wait_are_left() {
    let mut foreign = volume("2Gi");
    foreign["spec"]["csi"]["driver"] = json!("other.example.com");
    let mut waiting = claim("2Gi", "1Gi");
    waiting["status"]["allocatedResourceStatuses"] = json!({ "storage": "NodeResizePending" });
    let cases = [
        ("of another driver", claim("2Gi", "2Gi"), foreign),
        ("waits for its node", waiting, volume("2Gi")),
        ("has less than the volume, and asks for no more", claim("1Gi", "1Gi"), volume("2Gi")),
    ];
    for (what, claim, volume) in cases {
        let scene = annotating().await;
        scene.add_pair(claim, noted(volume, "1Gi"));
        scene.pass(Duration::from_hours(1)).await;
        assert!(scene.note().is_some() && scene.patches().is_empty(), "{what}");
    }
}

/// The claim is deleted before the node has grown the file system; the volume is kept and used again.
#[tokio::test(start_paused = true)]
async fn g9_a_volume_that_is_used_again_keeps_the_note_until_its_file_system_has_grown() {
    let scene = annotating().await;
    scene.add_pair(claim("2Gi", "1Gi"), volume("1Gi"));
    scene.pass(ONE_TRY).await;
    scene.api.remove::<PersistentVolumeClaim>(NAMESPACE, CLAIM);
    scene.pass(Duration::from_mins(1)).await;
    assert_eq!(scene.note().as_deref(), Some("1Gi"), "nobody has grown the file system");

    // kube-controller-manager binds the next claim with the size in the note.
    let next = scene.api.create_json::<PersistentVolumeClaim>(claim("2Gi", "1Gi"));
    let uid = &next["metadata"]["uid"];
    scene.api.merge::<PersistentVolume>(None, VOLUME, &json!({ "spec": { "claimRef": { "uid": uid } } }));
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(scene.sizes()[2].as_deref(), Some("NodeResizePending"), "the node is told again");
    assert_eq!(scene.note().as_deref(), Some("1Gi"));
    scene.node_done("2Gi");
    scene.pass(ONE_TRY).await;
    assert_eq!(scene.note(), None);
}
