//! Our finalizer on the claims that are cloned, over all ways a clone can end.

use std::time::Duration;

use csi_proto::csi::v1::CreateVolumeRequest;
use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use storage_kube::wire::VolumeSnapshot;
use tonic::Code;

use super::objects::{DRIVER, class, with};
use super::scene::{PATIENCE, Scene, flags};
use super::source_objects::{
    CLONING, RESTORING, add_snapshot, add_source, add_source_named, claim_finalizers, clone_of, fills, puts, restore,
    snapshot_finalizers,
};

async fn scene() -> Scene {
    let scene = Scene::with(flags(), fills).await;
    scene.add_class(class("fast", json!({})));
    add_source(&scene.api, &json!({ "metadata": { "finalizers": ["kubernetes.io/pvc-protection"] } }), &json!({}));
    scene
}

async fn released(api: &FakeApiServer, name: &str) {
    api.until(&format!("claim {name} to be released"), PATIENCE, |api| {
        let finalizers = claim_finalizers(api, name);
        finalizers.is_none_or(|all| !all.iter().any(|one| one == CLONING)).then_some(())
    })
    .await;
}

#[tokio::test(start_paused = true)]
async fn a_source_is_protected_before_the_call_and_released_after_it() {
    let scene = scene().await;
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let uid = scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), ["kubernetes.io/pvc-protection", CLONING]);
    release.release();
    scene.volume(&format!("pvc-{uid}")).await;
    released(&scene.api, "source").await;
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), ["kubernetes.io/pvc-protection"], "others are kept");
}

/// The first row of the clone protection table: a clone in flight keeps its source.
#[tokio::test(start_paused = true)]
async fn a_source_that_is_deleted_stays_until_its_clone_is_made() {
    let scene = scene().await;
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "source");
    scene.api.merge::<PersistentVolumeClaim>("shop", "source", &json!({ "metadata": { "finalizers": [CLONING] } }));
    scene.pass(Duration::from_secs(5)).await;
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), [CLONING]);
    release.release();
    scene.api.until("the source to go", PATIENCE, |api| claim_finalizers(api, "source").is_none().then_some(())).await;
}

/// Two clones: one takes its time, one fails for ever. The source goes with the last that is in flight.
#[tokio::test(start_paused = true)]
async fn a18_a_source_goes_when_no_clone_is_in_flight_although_one_fails_for_ever() {
    let scene = scene().await;
    let slow = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&slow));
    scene.driver.script_always(Rpc::CreateVolume, || Step::fail(Code::Internal, "the backend is on fire"));
    let uid = scene.add_claim(clone_of("slow", "source"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.add_claim(clone_of("failing", "source"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "source");
    scene.pass(Duration::from_secs(5)).await;
    assert!(claim_finalizers(&scene.api, "source").unwrap().contains(&CLONING.to_owned()), "the slow clone needs it");
    scene.api.delete::<PersistentVolumeClaim>("shop", "slow");
    scene.pass(Duration::from_secs(1)).await;
    assert!(claim_finalizers(&scene.api, "source").unwrap().contains(&CLONING.to_owned()), "it is still in flight");
    slow.release();
    scene.volume(&format!("pvc-{uid}")).await;
    released(&scene.api, "source").await;
    scene.pass(Duration::from_hours(2)).await;
    assert_eq!(
        claim_finalizers(&scene.api, "source").unwrap(),
        ["kubernetes.io/pvc-protection"],
        "nor is it put on again"
    );
}

/// The clone has no answer yet, is deleted, and then fails for good.
#[tokio::test(start_paused = true)]
async fn a18_a_source_is_held_by_a_clone_without_claim_until_its_final_answer() {
    let scene = scene().await;
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::DeadlineExceeded, "slow"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Aborted, "pending"));
    scene.driver.script(Rpc::CreateVolume, Step::fail(Code::Internal, "broken"));
    scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.api.delete::<PersistentVolumeClaim>("shop", "source");
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 2).await;
    assert!(claim_finalizers(&scene.api, "source").unwrap().contains(&CLONING.to_owned()));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 3).await;
    released(&scene.api, "source").await;
}

/// Secret missing: the finalizer is on, and no call was made.
#[tokio::test(start_paused = true)]
async fn a17_a_claim_whose_creation_never_reached_the_driver_holds_no_snapshot() {
    let scene = Scene::with(flags(), fills).await;
    let parameters = json!({
        "csi.storage.k8s.io/provisioner-secret-name": "missing",
        "csi.storage.k8s.io/provisioner-secret-namespace": "shop",
    });
    scene.add_class(class("fast", parameters));
    add_snapshot(&scene.api, &json!({}), &json!({}));
    scene.add_claim(restore("data", "monday"));
    scene.event("ProvisioningFailed").await;
    scene.api.delete::<VolumeSnapshot>("shop", "monday");
    scene
        .api
        .until("the snapshot to go", Duration::from_secs(1), |api| {
            snapshot_finalizers(api, "monday").is_none().then_some(())
        })
        .await;
    scene.pass(Duration::from_hours(1)).await;
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
    assert!(scene.events("ProvisioningFailed").iter().any(|text| text.contains("no such snapshot")));
}

/// The driver is away: a first call that waits for it has not been sent.
#[tokio::test(start_paused = true)]
async fn a17_a_deleted_claim_whose_first_call_waits_for_the_driver_lets_its_snapshot_go() {
    let scene = Scene::with(flags(), fills).await;
    scene.add_class(class("fast", json!({})));
    add_snapshot(&scene.api, &json!({}), &json!({}));
    scene.driver.stop().await;
    scene.add_claim(restore("data", "monday"));
    scene.pass(Duration::from_secs(2)).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "data");
    scene.api.delete::<VolumeSnapshot>("shop", "monday");
    scene
        .api
        .until("the snapshot to go", Duration::from_mins(1), |api| {
            snapshot_finalizers(api, "monday").is_none().then_some(())
        })
        .await;
}

/// A term begins with these claims, of which `source` carries the finalizer. The source's finalizers after an hour.
async fn after_a_crash(source: Value, volume: Value, others: Vec<Value>) -> (Scene, Option<Vec<String>>) {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            add_source(api, &with(json!({ "metadata": { "finalizers": [CLONING, "other"] } }), &source), &volume);
            api.delete::<PersistentVolumeClaim>("shop", "source");
            for claim in others {
                api.create_json::<PersistentVolumeClaim>(claim);
            }
        },
    )
    .await;
    scene.pass(Duration::from_hours(1)).await;
    let finalizers = claim_finalizers(&scene.api, "source");
    (scene, finalizers)
}

/// The clone protection table, on what an earlier process has left. Its class is missing, so that nothing is decided about
/// the clones.
#[tokio::test(start_paused = true)]
async fn what_a_crash_has_left_protected_is_released_unless_a_clone_waits() {
    let nothing = || json!({});
    let elsewhere = with(clone_of("data", "source"), &json!({ "metadata": { "namespace": "bakery" } }));
    let bound = json!({ "spec": { "volumeName": "pv-data" }, "status": { "phase": "Bound" } });
    let of_other_driver = json!({ "metadata": { "annotations": {
        "volume.kubernetes.io/storage-provisioner": "other", "volume.beta.kubernetes.io/storage-provisioner": "other" } } });
    let static_claim = json!({ "metadata": { "annotations": null } });
    let foreign_volume = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "other" } },
        "spec": { "csi": { "driver": "other" } },
    });
    let no_finalizer = json!({ "metadata": { "finalizers": ["other"] } });
    let cases = [
        ("Pending clone", nothing(), nothing(), vec![clone_of("data", "source")], true),
        (
            "Pending clone by dataSourceRef",
            nothing(),
            nothing(),
            vec![with(clone_of("data", "source"), &json!({ "spec": { "dataSource": null } }))],
            true,
        ),
        ("Pending clone in another namespace", nothing(), nothing(), vec![elsewhere], false),
        ("Pending clone of another claim", nothing(), nothing(), vec![clone_of("data", "original")], false),
        ("no clones", nothing(), nothing(), vec![], false),
        ("bound clone", nothing(), nothing(), vec![with(clone_of("data", "source"), &bound)], false),
        ("no finalizer", no_finalizer, nothing(), vec![], false),
        ("made by hand", static_claim, nothing(), vec![], false),
        ("of another driver", of_other_driver, foreign_volume, vec![], true),
    ];
    assert_eq!(cases.len(), 9);
    for (case, source, volume, others, kept) in cases {
        let (scene, finalizers) = after_a_crash(source, volume, others).await;
        let kept_now = finalizers.unwrap().contains(&CLONING.to_owned());
        assert_eq!(kept_now, kept, "{case}");
        let expected = usize::from(!kept && case != "no finalizer");
        assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [0, expected], "{case}");
    }
}

/// Whether it is being deleted or not: the next clone puts it on again.
#[tokio::test(start_paused = true)]
async fn what_a_crash_has_left_protected_is_released_before_it_is_deleted() {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            add_source(api, &json!({ "metadata": { "finalizers": [CLONING] } }), &json!({}));
        },
    )
    .await;
    released(&scene.api, "source").await;
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), [""; 0]);
}

/// The source is being deleted, and waits for a clone that a crash has interrupted: both must come to their end.
#[tokio::test(start_paused = true)]
async fn a_clone_that_a_crash_has_interrupted_goes_on_and_lets_its_source_go() {
    let (scene, finalizers) = after_a_crash(json!({}), json!({}), vec![clone_of("data", "source")]).await;
    assert!(finalizers.unwrap().contains(&CLONING.to_owned()));
    scene.add_class(class("fast", json!({})));
    scene.driver.wait_for_ended_calls(Rpc::CreateVolume, 1).await;
    assert!(scene.driver.requests::<CreateVolumeRequest>()[0].volume_content_source.is_some());
    released(&scene.api, "source").await;
}

/// A clone that waits for its first consumer has never been asked for.
#[tokio::test(start_paused = true)]
async fn a_clone_without_a_node_holds_nothing() {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            let late = json!({ "volumeBindingMode": "WaitForFirstConsumer" });
            api.create_json::<k8s_openapi::api::storage::v1::StorageClass>(with(class("fast", json!({})), &late));
            add_source(api, &json!({ "metadata": { "finalizers": [CLONING] } }), &json!({}));
            api.create_json::<PersistentVolumeClaim>(clone_of("data", "source"));
        },
    )
    .await;
    released(&scene.api, "source").await;
}

/// The interrupted clone's claim is deleted: nothing waits any more.
#[tokio::test(start_paused = true)]
async fn a_source_of_an_earlier_term_goes_with_the_last_claim_that_waits() {
    let (scene, _) = after_a_crash(json!({}), json!({}), vec![clone_of("a", "source"), clone_of("b", "source")]).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "a");
    scene.pass(Duration::from_mins(1)).await;
    assert!(claim_finalizers(&scene.api, "source").unwrap().contains(&CLONING.to_owned()));
    scene.api.delete::<PersistentVolumeClaim>("shop", "b");
    scene
        .api
        .until("the source to be released", Duration::from_secs(1), |api| {
            claim_finalizers(api, "source").is_none_or(|all| !all.contains(&CLONING.to_owned())).then_some(())
        })
        .await;
}

/// Hundreds of clones of other sources wait; the end of one source costs two requests and no list.
#[tokio::test(start_paused = true)]
async fn c5_releasing_a_source_asks_for_no_other_claim() {
    let scene = scene().await;
    for number in 0..200 {
        scene.add_claim(clone_of(&format!("waiting-{number}"), &format!("missing-{}", number % 10)));
    }
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.api.delete::<PersistentVolumeClaim>("shop", "source");
    scene.pass(Duration::from_millis(10)).await;
    scene.api.clear_requests();
    release.release();
    released(&scene.api, "source").await;
    let of_claims = scene.api.requests_of(&Matcher::any().resource("persistentvolumeclaims").name("source"));
    let of_claims: Vec<_> = of_claims.iter().map(|request| request.verb).collect();
    assert_eq!(of_claims, ["get", "update"]);
    assert!(scene.api.requests().iter().all(|request| request.verb != "list"));
}

#[tokio::test(start_paused = true)]
async fn a_hundred_clones_at_once_put_one_finalizer_on_and_take_it_off_once() {
    let scene = scene().await;
    let release = Release::new();
    let held = release.clone();
    scene.driver.script_always(Rpc::CreateVolume, move || Step::answer().held_by(&held));
    let uids: Vec<_> = (0..100).map(|n| scene.add_claim(clone_of(&format!("data-{n}"), "source"))).collect();
    scene.driver.wait_for_calls(Rpc::CreateVolume, 100).await;
    assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [1, 0]);
    release.release();
    for uid in uids {
        scene.volume(&format!("pvc-{uid}")).await;
    }
    released(&scene.api, "source").await;
    assert_eq!(puts(&scene.api, "persistentvolumeclaims", CLONING), [1, 1]);
}

/// Others change the source at the same time.
#[tokio::test(start_paused = true)]
async fn a_conflict_is_looked_at_again_and_changes_of_others_are_kept() {
    let scene = scene().await;
    let conflict = Status::new(409, "Conflict", "the object has been modified");
    scene.api.react(Matcher::of("update", "persistentvolumeclaims").times(2), Reaction::Refuse(conflict));
    let uid = scene.add_claim(clone_of("data", "source"));
    scene.volume(&format!("pvc-{uid}")).await;
    released(&scene.api, "source").await;
    assert!(scene.events("ProvisioningFailed").is_empty());
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), ["kubernetes.io/pvc-protection"]);
}

#[tokio::test(start_paused = true)]
async fn a_finalizer_that_cannot_be_put_on_keeps_the_call_from_being_made() {
    let scene = scene().await;
    let refusal = Status::forbidden("persistentvolumeclaims is forbidden");
    scene.api.react(Matcher::of("update", "persistentvolumeclaims"), Reaction::Refuse(refusal));
    scene.add_claim(clone_of("data", "source"));
    let text = scene.event("ProvisioningFailed").await;
    assert!(text.contains("shop/source") && text.contains(CLONING), "{text}");
    assert_eq!(scene.count(Rpc::CreateVolume), 0);
}

/// The right to change snapshots is optional in upstream's rules.
#[tokio::test(start_paused = true)]
async fn a_snapshot_that_may_not_be_changed_is_restored_all_the_same() {
    let scene = Scene::with(flags(), fills).await;
    scene.add_class(class("fast", json!({})));
    add_snapshot(&scene.api, &json!({}), &json!({}));
    let refusal = Status::forbidden("volumesnapshots is forbidden");
    scene.api.react(Matcher::of("update", "volumesnapshots"), Reaction::Refuse(refusal));
    let uid = scene.add_claim(restore("data", "monday"));
    scene.volume(&format!("pvc-{uid}")).await;
    assert_eq!(snapshot_finalizers(&scene.api, "monday").unwrap(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn a_snapshot_is_protected_before_the_call_and_released_after_it() {
    for change in [json!({}), json!({ "spec": { "dataSource": null } })] {
        let scene = Scene::with(flags(), fills).await;
        scene.add_class(class("fast", json!({})));
        add_snapshot(&scene.api, &json!({ "metadata": { "finalizers": ["other"] } }), &json!({}));
        let release = Release::new();
        scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
        let uid = scene.add_claim(with(restore("data", "monday"), &change));
        scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
        assert_eq!(snapshot_finalizers(&scene.api, "monday").unwrap(), ["other", RESTORING]);
        release.release();
        scene.volume(&format!("pvc-{uid}")).await;
        scene.pass(Duration::from_secs(1)).await;
        assert_eq!(snapshot_finalizers(&scene.api, "monday").unwrap(), ["other"]);
    }
}

/// The source is taken away by force under a clone in flight, and another driver's claim gets its name.
#[tokio::test(start_paused = true)]
async fn a_source_made_anew_for_another_driver_keeps_that_drivers_finalizer() {
    let scene = scene().await;
    let release = Release::new();
    scene.driver.script(Rpc::CreateVolume, Step::answer().held_by(&release));
    let uid = scene.add_claim(clone_of("data", "source"));
    scene.driver.wait_for_calls(Rpc::CreateVolume, 1).await;
    scene.api.remove::<PersistentVolumeClaim>("shop", "source");
    scene.api.remove::<PersistentVolume>(None, "pv-source");
    let theirs = json!({ "metadata": { "finalizers": [CLONING], "annotations": {
        "volume.kubernetes.io/storage-provisioner": "other", "volume.beta.kubernetes.io/storage-provisioner": "other" } } });
    let their_volume = json!({
        "metadata": { "annotations": { "pv.kubernetes.io/provisioned-by": "other" } },
        "spec": { "csi": { "driver": "other" } },
    });
    add_source(&scene.api, &theirs, &their_volume);
    release.release();
    scene.volume(&format!("pvc-{uid}")).await;
    scene.pass(Duration::from_mins(20)).await;
    assert_eq!(claim_finalizers(&scene.api, "source").unwrap(), [CLONING]);
}

/// One watch serves both kinds of claims; bound claims without the finalizer cost nothing.
#[tokio::test(start_paused = true)]
async fn bound_claims_are_kept_only_while_they_carry_the_finalizer() {
    let scene = Scene::configured(
        |_| (),
        fills,
        |api| {
            for number in 0..500 {
                add_source_named(api, &format!("bound-{number}"), &json!({}), &json!({}));
            }
            let foreign = json!({
                "metadata": { "finalizers": [CLONING], "annotations": null },
                "spec": { "volumeName": "somebody-elses" },
            });
            add_source_named(api, "foreign", &foreign, &json!({}));
        },
    )
    .await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.term().caches.claims.len(), 1, "{DRIVER}");
    assert!(puts(&scene.api, "persistentvolumeclaims", CLONING) == [0, 0], "it is another driver's");
}
