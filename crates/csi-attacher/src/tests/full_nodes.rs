//! Nodes that have as many volumes as they take, while volumes leave them and others come.

use std::time::Duration;

use fake_driver::{Rpc, Step};
use serde_json::{Value, json};
use tonic::Code;

use super::objects::{attached, attachment_of, node, volume_named, with};
use super::scene::{Config, Scene, config};
use crate::attachment::node_detaches::LONGEST_WAIT;

/// A node that takes so many volumes of the driver.
fn node_for(name: &str, count: u32) -> Value {
    let mut node = node(name, name);
    node["spec"]["drivers"][1]["allocatable"] = json!({ "count": count });
    node
}

fn add(scene: &Scene, names: &[String], node: &str, is_attached: bool) {
    for name in names {
        scene.add_volume(volume_named(name, name));
        let attachment = attachment_of(name, name, node);
        scene.add_attachment(if is_attached { attached(attachment, node) } else { attachment });
    }
}

fn names(prefix: &str, count: usize) -> Vec<String> {
    (0..count).map(|number| format!("{prefix}-{number}")).collect()
}

/// `node1` with as many volumes as it takes, all of which are about to be detached.
async fn full_node(count: usize) -> Scene {
    let scene = Scene::with(Config { worker_threads: 100, ..config() }, |_| ()).await;
    scene.add_node(node_for("node1", u32::try_from(count).unwrap()));
    let old = names("old", count);
    add(&scene, &old, "node1", true);
    scene.pass(Duration::from_millis(100)).await;
    scene
}

fn delete(scene: &Scene, names: &[String]) {
    for name in names {
        scene.delete_attachment(name);
    }
}

/// How many unpublish calls had ended when each publish call was sent.
fn room_at_each_publish(scene: &Scene) -> Vec<usize> {
    let ends: Vec<_> =
        scene.driver.calls_of(Rpc::ControllerUnpublishVolume).into_iter().map(|call| call.ended).collect();
    let publishes = scene.driver.calls_of(Rpc::ControllerPublishVolume);
    let ended = |at| ends.iter().filter(|end| end.is_some_and(|end| end <= at)).count();
    publishes.iter().map(|call| ended(call.started)).collect()
}

/// Eight go and eight come: no call is sent that the driver would have to refuse.
#[tokio::test(start_paused = true)]
async fn n2_a_first_attach_to_a_full_node_waits_for_a_detach_of_it() {
    let scene = full_node(8).await;
    // They end one after the other.
    let number = std::sync::atomic::AtomicU64::new(0);
    scene.driver.script_always(Rpc::ControllerUnpublishVolume, move || {
        let number = number.fetch_add(1, std::sync::atomic::Ordering::Relaxed);
        Step::answer().after(Duration::from_secs(6 + number))
    });
    delete(&scene, &names("old", 8));
    scene.pass(Duration::from_millis(100)).await;
    let new = names("new", 8);
    add(&scene, &new, "node1", false);
    for name in &new {
        scene.attached(name).await;
    }
    let room = room_at_each_publish(&scene);
    let is_enough = room.iter().enumerate().all(|(before, ended)| *ended > before);
    assert!(room.len() == 8 && is_enough, "{room:?}");
    assert!(!scene.writes().contains(&"attachError".to_owned()), "{:?}", scene.writes());
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.term().node_detaches.len(), 0);
}

/// Another node has room, or no limit, or no detach: nothing is waited for there.
#[tokio::test(start_paused = true)]
async fn n2_slow_detaches_of_a_full_node_hold_up_no_other_node() {
    let scene = full_node(4).await;
    scene.driver.script_always(Rpc::ControllerUnpublishVolume, Step::hang);
    scene.add_node(node_for("roomy", 2));
    scene.add_node(node("unlimited", "unlimited"));
    scene.add_node(node_for("full", 0));
    delete(&scene, &names("old", 4));
    add(&scene, &names("leaving", 1), "roomy", true);
    scene.delete_attachment("leaving-0");
    scene.pass(Duration::from_millis(100)).await;
    let before = tokio::time::Instant::now();
    for node in ["roomy", "unlimited", "full"] {
        let new = names(&format!("to-{node}"), 1);
        add(&scene, &new, node, false);
        scene.attached(&new[0]).await;
    }
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
}

/// Whether there is room the driver knows.
#[tokio::test(start_paused = true)]
async fn n2_a_detach_that_does_not_end_is_not_waited_for_for_ever() {
    let scene = full_node(2).await;
    scene.driver.script_always(Rpc::ControllerUnpublishVolume, Step::hang);
    delete(&scene, &names("old", 2));
    scene.pass(Duration::from_millis(100)).await;
    let before = tokio::time::Instant::now();
    add(&scene, &names("new", 1), "node1", false);
    scene.attached("new-0").await;
    let waited = before.elapsed();
    assert!(waited >= LONGEST_WAIT && waited < LONGEST_WAIT + Duration::from_secs(1), "{waited:?}");
}

/// Without a limit in the CSINode, or with one that is wrong, the driver says that there is no room.
#[tokio::test(start_paused = true)]
async fn n2_what_was_refused_for_want_of_room_is_tried_again_when_a_detach_of_the_node_ends() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_node(node("node1", "node1"));
    scene.add_node(node("node2", "node2"));
    add(&scene, &names("old", 1), "node1", true);
    add(&scene, &names("other", 1), "node2", true);
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::ResourceExhausted, "full"));
    add(&scene, &names("new", 1), "node1", false);
    // Calls after 0, 1, 3, 7, 15, 31 and 63 s, and not before 127 s again.
    scene.pass(Duration::from_secs(70)).await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, Step::answer);
    scene.delete_attachment("other-0");
    scene.gone("other-0").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 7, "a detach of another node says nothing");
    let before = tokio::time::Instant::now();
    scene.delete_attachment("old-0");
    scene.attached("new-0").await;
    assert!(before.elapsed() < Duration::from_secs(1), "{:?}", before.elapsed());
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.term().node_detaches.len(), 0);
}

/// One detach makes room for one.
#[tokio::test(start_paused = true)]
async fn n2_each_detach_is_followed_by_one_try_of_what_was_refused() {
    let scene = Scene::with(config(), |_| ()).await;
    scene.add_node(node("node1", "node1"));
    add(&scene, &names("old", 1), "node1", true);
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::ResourceExhausted, "full"));
    add(&scene, &names("new", 3), "node1", false);
    scene.pass(Duration::from_secs(70)).await;
    let before = scene.count(Rpc::ControllerPublishVolume);
    scene.delete_attachment("old-0");
    scene.gone("old-0").await;
    scene.pass(Duration::from_secs(1)).await;
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), before + 1);
}

/// What waits for room and is deleted waits no more.
#[tokio::test(start_paused = true)]
async fn n2_a_deleted_attachment_leaves_the_waiting() {
    let scene = full_node(1).await;
    scene.driver.script_always(Rpc::ControllerUnpublishVolume, || Step::answer().after(Duration::from_secs(10)));
    let other = json!({ "metadata": { "finalizers": ["other"] } });
    scene.delete_attachment("old-0");
    scene.pass(Duration::from_millis(100)).await;
    scene.add_volume(volume_named("new", "new"));
    scene.add_attachment(with(attachment_of("new", "new", "node1"), other));
    scene.pass(Duration::from_secs(1)).await;
    scene.delete_attachment("new");
    scene.gone("old-0").await;
    scene.pass(Duration::from_mins(5)).await;
    assert_eq!((scene.count(Rpc::ControllerPublishVolume), scene.term().node_detaches.len()), (0, 0));
}
