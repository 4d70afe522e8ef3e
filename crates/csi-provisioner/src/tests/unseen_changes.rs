//! The cache of claims is behind that of volumes, or the other way round: what is not seen must not be done twice.

use std::time::Duration;

use fake_apiserver::{Matcher, Reaction, Status};
use fake_driver::Rpc;
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::json;

use super::node_deployment::scene_of;
use super::objects::{DRIVER, claim, class};
use super::scene::Scene;

/// From here on the caches of this kind stand still, although their watch seems to be there.
async fn hang(scene: &Scene, plural: &str) {
    scene.pass(Duration::from_secs(1)).await;
    for verb in ["watch", "list"] {
        scene.api.react(Matcher::of(verb, plural), Reaction::Hang);
    }
    scene.api.break_watches();
    scene.pass(Duration::from_secs(1)).await;
}

/// A claim whose volume is made and shown by both caches; the volume's name.
async fn provisioned(scene: &Scene) -> String {
    scene.add_class(class("fast", json!({})));
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    scene.volume(&name).await;
    scene.pass(Duration::from_secs(1)).await;
    name
}

#[tokio::test(start_paused = true)]
async fn k4_a_claim_that_was_bound_and_deleted_unseen_is_not_provisioned_again_when_its_volume_goes() {
    for deleted in [true, false] {
        let scene = Scene::start().await;
        let name = provisioned(&scene).await;
        hang(&scene, "persistentvolumeclaims").await;
        scene.bind("data", &name);
        if deleted {
            scene.api.delete::<PersistentVolumeClaim>("shop", "data");
            // Another claim of the name is none of the old one's business.
            scene.add_claim(claim("data", "slow"));
        }
        scene.release(&name);
        scene.volume_gone(&name).await;
        scene.pass(Duration::from_mins(40)).await;
        assert_eq!((scene.count(Rpc::CreateVolume), scene.count(Rpc::DeleteVolume)), (1, 1), "deleted {deleted}");
        assert!(scene.driver.volumes().is_empty(), "deleted {deleted}");
    }
}

#[tokio::test(start_paused = true)]
async fn k4_a_claim_that_cannot_be_read_is_not_provisioned_before_it_can() {
    let scene = Scene::start().await;
    let name = provisioned(&scene).await;
    let down = Reaction::Refuse(Status::internal_error("etcd"));
    scene.api.react(Matcher::of("get", "persistentvolumeclaims").times(6), down);
    scene.api.remove::<PersistentVolume>(None, &name);
    scene.pass(Duration::from_secs(20)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 1);
    scene.driver.wait_for_calls(Rpc::CreateVolume, 2).await;
    scene.volume(&name).await;
}

/// The volume of another node leaves the view of this one when it is bound, before the claim says so.
#[tokio::test(start_paused = true)]
async fn k4_a_volume_that_leaves_the_view_of_a_node_has_not_vanished() {
    let scene = scene_of("foo").await;
    let uid = scene.add_claim(claim("data", "fast"));
    let name = format!("pvc-{uid}");
    let expressions = json!([{ "key": "zone", "operator": "In", "values": ["bar"] }]);
    scene.add_volume(json!({
        "metadata": { "name": name, "annotations": { "pv.kubernetes.io/provisioned-by": DRIVER } },
        "spec": {
            "claimRef": { "namespace": "shop", "name": "data", "uid": uid },
            "csi": { "driver": DRIVER, "volumeHandle": "h" },
            "nodeAffinity": { "required": { "nodeSelectorTerms": [{ "matchExpressions": expressions }] } },
        },
        "status": { "phase": "Pending" },
    }));
    scene.pass(Duration::from_secs(1)).await;
    scene.api.merge::<PersistentVolume>(None, &name, &json!({ "status": { "phase": "Bound" } }));
    scene.pass(Duration::from_mins(40)).await;
    assert_eq!(scene.writes(), Vec::<String>::new());
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

/// The volume was there and gone while its watch was interrupted, and the next list does not have it.
#[tokio::test(start_paused = true)]
async fn k5_a_volume_that_was_there_and_gone_unseen_is_made_again() {
    let scene = Scene::start().await;
    hang(&scene, "persistentvolumes").await;
    let name = provisioned(&scene).await;
    scene.api.remove::<PersistentVolume>(None, &name);
    scene.api.clear_reactions();
    scene.api.compact();
    scene.api.expire_watches();
    scene.pass(Duration::from_mins(2)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 2);
    scene.volume(&name).await;
    scene.bind("data", &name);
    scene.pass(Duration::from_mins(40)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 2);
}

/// The memory of a volume is believed as long as something speaks for it, and nothing is asked that a cache shows.
#[tokio::test(start_paused = true)]
async fn k5_a_claim_that_has_its_volume_is_provisioned_once_however_long_it_is_not_bound() {
    for (case, reads) in [("cache shows the volume", 0), ("API server has it", 40), ("object is not written", 0)] {
        let scene = Scene::start().await;
        scene.add_class(class("fast", json!({})));
        match case {
            "API server has it" => hang(&scene, "persistentvolumes").await,
            "object is not written" => {
                let down = Reaction::Refuse(Status::internal_error("etcd"));
                scene.api.react(Matcher::of("create", "persistentvolumes"), down);
            }
            _ => {}
        }
        scene.add_claim(claim("data", "fast"));
        scene.pass(Duration::from_mins(40)).await;
        assert_eq!(scene.count(Rpc::CreateVolume), 1, "{case}");
        for plural in ["persistentvolumeclaims", "persistentvolumes"] {
            let read = scene.api.requests_of(&Matcher::of("get", plural)).len();
            assert!(read <= reads, "{case}: {read} of {plural}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn k5_nothing_is_asked_about_a_claim_that_is_bound() {
    let scene = Scene::start().await;
    let name = provisioned(&scene).await;
    scene.bind("data", &name);
    scene.pass(Duration::from_mins(40)).await;
    let asked = scene.api.requests().into_iter().filter(|request| request.verb == "get").count();
    assert_eq!((asked, scene.count(Rpc::CreateVolume)), (0, 1));
}
