//! How many calls are in flight, and whose turn it is.

use std::time::Duration;

use fake_driver::{Release, Rpc, Step};

use super::objects::{attached, attachment_of, node, volume_named};
use super::scene::{Config, Scene, config};

async fn scene(worker_threads: usize) -> Scene {
    let scene = Scene::with(Config { worker_threads, ..config() }, |_| ()).await;
    scene.add_node(node("node1", "nodeID1"));
    scene
}

fn add(scene: &Scene, prefix: &str, count: usize, is_attached: bool) -> Vec<String> {
    let names: Vec<String> = (0..count).map(|number| format!("{prefix}-{number}")).collect();
    for name in &names {
        scene.add_volume(volume_named(name, name));
        let attachment = attachment_of(name, name, "node1");
        scene.add_attachment(if is_attached { attached(attachment, "nodeID1") } else { attachment });
    }
    names
}

/// The most calls that were in flight at one moment.
fn most_at_once(scene: &Scene) -> usize {
    let calls = scene.driver.calls();
    let ours = |rpc| [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume].contains(&rpc);
    let calls: Vec<_> = calls.iter().filter(|call| ours(call.rpc)).collect();
    let running_at =
        |at| calls.iter().filter(|call| call.started <= at && call.ended.is_none_or(|ended| ended > at)).count();
    calls.iter().map(|call| running_at(call.started)).max().unwrap_or(0)
}

/// A thousand detaches that hang do not hold up a hundred new pods.
#[tokio::test(start_paused = true)]
async fn d6_slow_detaches_do_not_hold_up_first_attaches() {
    let scene = scene(10).await;
    let old = add(&scene, "old", 1000, true);
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.script_always(Rpc::ControllerUnpublishVolume, Step::hang);
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::answer().after(Duration::from_millis(50)));
    for name in &old {
        scene.delete_attachment(name);
    }
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 9).await;
    scene.pass(Duration::from_secs(40)).await;
    let before = tokio::time::Instant::now();
    let new = add(&scene, "new", 100, false);
    for name in &new {
        scene.attached(name).await;
    }
    // One slot of 50 ms a call at the least.
    assert!(before.elapsed() < Duration::from_secs(6), "{:?}", before.elapsed());
    assert_eq!(most_at_once(&scene), 10);
}

/// What fails is ordinary work: it does not take the slot that is kept for others.
#[tokio::test(start_paused = true)]
async fn d6_attaches_that_fail_do_not_hold_up_first_attaches() {
    let scene = scene(3).await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, Step::hang);
    // More than there is time for within the longest backoff: all slots are always taken.
    add(&scene, "failing", 200, false);
    scene.pass(Duration::from_mins(40)).await;
    assert_eq!(scene.driver.running(Rpc::ControllerPublishVolume), 2);
    scene.driver.script_always(Rpc::ControllerPublishVolume, Step::answer);
    let before = tokio::time::Instant::now();
    let new = add(&scene, "new", 1, false);
    scene.attached(&new[0]).await;
    assert!(before.elapsed() <= Duration::from_secs(1), "{:?}", before.elapsed());
}

/// A key may have come into the urgent lane and be something else by the time it is taken.
#[tokio::test(start_paused = true)]
async fn d6_what_is_no_first_attach_by_now_leaves_the_urgent_lane() {
    let scene = scene(1).await;
    let old = add(&scene, "old", 1, true);
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::hang());
    scene.delete_attachment(&old[0]);
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 1).await;
    let name = storage_kube::names::AttachmentName::from(old[0].as_str());
    let outcome = crate::attachment::sync_attachment(scene.term(), name, controller_runtime::Lane::Urgent).await;
    assert_eq!(outcome, controller_runtime::Outcome::RetryAfter(Duration::ZERO));
}

#[tokio::test(start_paused = true)]
async fn d8_worker_threads_is_the_number_of_calls_in_flight() {
    for (threads, count) in [(1, 20), (2, 20), (100, 150)] {
        let scene = scene(threads).await;
        let old = add(&scene, "old", count, true);
        scene.pass(Duration::from_secs(1)).await;
        let release = Release::new();
        for rpc in [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume] {
            let release = release.clone();
            scene.driver.script_always(rpc, move || Step::answer().held_by(&release));
        }
        let new = add(&scene, "new", count, false);
        for name in &old {
            scene.delete_attachment(name);
        }
        scene.pass(Duration::from_secs(5)).await;
        let running =
            scene.driver.running(Rpc::ControllerPublishVolume) + scene.driver.running(Rpc::ControllerUnpublishVolume);
        assert_eq!(running, threads);
        release.release();
        for name in &new {
            scene.attached(name).await;
        }
        for name in &old {
            scene.gone(name).await;
        }
        assert_eq!(most_at_once(&scene), threads);
    }
}

/// With one thread detaches and attaches take turns: neither waits for ever.
#[tokio::test(start_paused = true)]
async fn with_one_thread_all_get_their_turn() {
    let scene = scene(1).await;
    let old = add(&scene, "old", 30, true);
    scene.pass(Duration::from_secs(1)).await;
    for rpc in [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume] {
        scene.driver.script_always(rpc, || Step::answer().after(Duration::from_secs(1)));
    }
    for name in &old {
        scene.delete_attachment(name);
    }
    let new = add(&scene, "new", 30, false);
    scene.pass(Duration::from_secs(70)).await;
    for name in &new {
        assert_eq!(scene.attachment(name).unwrap()["status"]["attached"], true);
    }
    assert!(old.iter().all(|name| scene.attachment(name).is_none()));
    assert_eq!(most_at_once(&scene), 1);
}

/// What is undone at the id a node had before is a call like any other.
#[tokio::test(start_paused = true)]
async fn with_one_thread_a_node_that_has_another_id_is_left_and_attached_one_call_at_a_time() {
    let scene = scene(1).await;
    let mut names = add(&scene, "new", 5, false);
    for number in 0..5 {
        let name = format!("moved-{number}");
        scene.add_volume(volume_named(&name, &name));
        let tried = super::objects::with(
            attached(attachment_of(&name, &name, "node1"), "old"),
            serde_json::json!({ "status": { "attached": false } }),
        );
        scene.add_attachment(tried);
        names.push(name);
    }
    for rpc in [Rpc::ControllerPublishVolume, Rpc::ControllerUnpublishVolume] {
        scene.driver.script_always(rpc, || Step::answer().after(Duration::from_secs(1)));
    }
    for name in &names {
        scene.attached(name).await;
    }
    assert_eq!(most_at_once(&scene), 1);
    assert_eq!((scene.count(Rpc::ControllerPublishVolume), scene.count(Rpc::ControllerUnpublishVolume)), (10, 5));
}

/// A detach that waits for its turn when the process is to end.
#[tokio::test(start_paused = true)]
async fn a_term_that_drains_starts_no_detach() {
    let scene = scene(1).await;
    let old = add(&scene, "old", 3, true);
    scene.pass(Duration::from_secs(1)).await;
    scene.driver.script(Rpc::ControllerUnpublishVolume, Step::answer().after(Duration::from_secs(5)));
    for name in &old {
        scene.delete_attachment(name);
    }
    scene.driver.wait_for_calls(Rpc::ControllerUnpublishVolume, 1).await;
    scene.pass(Duration::from_secs(1)).await;
    let registry = scene.registry.clone();
    let (api, driver) = scene.stop().await;
    assert_eq!(driver.calls_of(Rpc::ControllerUnpublishVolume).len(), 1);
    assert_eq!(api.list::<k8s_openapi::api::storage::v1::VolumeAttachment>().len(), 2);
    let families = registry.gather();
    let wait = families.iter().find(|family| family.name() == "csi_attacher_call_wait_seconds").unwrap();
    assert_eq!(wait.get_metric()[0].get_histogram().get_sample_count(), 1, "no other had a slot");
}

#[tokio::test(start_paused = true)]
async fn d7_metrics_tell_of_calls_in_flight_and_waiting() {
    let scene = scene(2).await;
    let release = Release::new();
    let held = release.clone();
    scene.driver.script_always(Rpc::ControllerPublishVolume, move || Step::answer().held_by(&held));
    let new = add(&scene, "new", 12, false);
    scene.pass(Duration::from_secs(5)).await;
    let value = |name: &str| {
        let families = scene.registry.gather();
        let family = families.iter().find(|family| family.name() == name).expect(name);
        family.get_metric()[0].get_gauge().get_value()
    };
    assert_eq!((value("csi_attacher_calls_in_flight"), value("csi_attacher_calls_waiting")), (2.0, 10.0));
    release.release();
    for name in &new {
        scene.attached(name).await;
    }
    assert_eq!((value("csi_attacher_calls_in_flight"), value("csi_attacher_calls_waiting")), (0.0, 0.0));
}
