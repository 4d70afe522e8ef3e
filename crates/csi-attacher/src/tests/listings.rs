//! What the driver lists beside what the statuses say: contract 8.4, and what a listing may not be taken for.

use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use csi_proto::csi::v1::list_volumes_response::{Entry, VolumeStatus};
use csi_proto::csi::v1::{ListVolumesRequest, ListVolumesResponse, Volume};
use fake_driver::{Release, Rpc, Step};
use k8s_openapi::api::storage::v1::{CSINode, VolumeAttachment};
use serde_json::{Value, json};
use tonic::{Code, Status};
use tracing::Level;

use super::objects::{attached, attachment, attachment_of, node, volume, volume_named, with};
use super::scene::{Config, Scene, config, lists};
use super::secrets::Lines;
use crate::attachment::detach::AWAITS_DELETION;

const ROUND: Duration = Duration::from_mins(1);

fn calls(scene: &Scene) -> (usize, usize) {
    (scene.count(Rpc::ControllerPublishVolume), scene.count(Rpc::ControllerUnpublishVolume))
}

fn entry(handle: &str, nodes: Option<&[&str]>) -> Entry {
    Entry {
        volume: Some(Volume { volume_id: handle.to_owned(), ..Volume::default() }),
        status: nodes
            .map(|nodes| VolumeStatus { published_node_ids: nodes.iter().map(|&node| node.to_owned()).collect() }),
    }
}

fn page(entries: Vec<Entry>, next_token: &str) -> ListVolumesResponse {
    ListVolumesResponse { entries, next_token: next_token.to_owned() }
}

/// Answers each ListVolumes with what `pages` makes of its token.
fn script(scene: &Scene, pages: fn(&ListVolumesRequest) -> Result<ListVolumesResponse, Status>) {
    scene.driver.script_always(Rpc::ListVolumes, move || Step::respond(pages));
}

/// An attached volume that the driver does not list.
async fn one_missing() -> Scene {
    let scene = Scene::listing().await;
    scene.add_attachment(attached(attachment(), "nodeID1"));
    scene
}

#[tokio::test(start_paused = true)]
async fn what_the_driver_lists_otherwise_is_called_once_more() {
    // attachment, deleted, published at, without CSINode; publish and unpublish calls, writes
    type Row = (&'static str, Option<Value>, bool, Option<&'static str>, bool, (usize, usize), &'static [&'static str]);
    let deleting_unheld = with(attachment(), json!({ "metadata": { "finalizers": ["other"] } }));
    let rows: Vec<Row> = vec![
        ("attached, not listed", Some(attached(attachment(), "nodeID1")), false, None, false, (1, 0), &[]),
        ("attached and listed", Some(attached(attachment(), "n")), false, Some("n"), true, (0, 0), &[]),
        ("let go, still listed", Some(deleting_unheld), true, Some("nodeID1"), false, (0, 1), &[]),
        ("no attachments", None, false, Some("nodeID1"), false, (0, 0), &[]),
    ];
    assert_eq!(rows.len(), 4);
    for (case, attachment, deleted, published, no_node, expected, writes) in rows {
        let scene = Scene::with(config(), lists).await;
        scene.add_volume(volume());
        if let Some(node) = published {
            scene.driver.publish("handle1", node);
        }
        if let Some(attachment) = attachment {
            scene.add_attachment(attachment);
            if deleted {
                scene.delete_attachment("pv1-node1");
            }
        }
        if !no_node {
            scene.add_node(node("node1", "nodeID1"));
        }
        scene.pass(ROUND * 10).await;
        assert_eq!(calls(&scene), expected, "{case}");
        assert_eq!(scene.writes(), writes, "{case}");
    }
}

/// A thousand attached volumes and another driver's in the cluster: ten minutes without a call.
#[tokio::test(start_paused = true)]
async fn d11_what_is_attached_is_not_published_again() {
    let scene = Scene::listing().await;
    for number in 0..1000 {
        let name = format!("va-{number}");
        scene.add_volume(volume_named(&name, &name));
        scene.driver.publish(&name, "nodeID1");
        scene.add_attachment(attached(attachment_of(&name, &name, "node1"), "nodeID1"));
        let other =
            with(attachment_of(&format!("other-{number}"), &name, "node1"), json!({ "spec": { "attacher": "other" } }));
        scene.add_attachment(other);
    }
    scene.pass(Duration::from_mins(10)).await;
    assert!(scene.count(Rpc::ListVolumes) >= 10);
    assert_eq!(calls(&scene), (0, 0));
    assert!(scene.writes().is_empty());
}

/// Five ways in which a listing can be wrong; in each the volume is in fact published, or nothing is known of it.
#[tokio::test(start_paused = true)]
async fn d12_a_listing_that_is_not_complete_says_nothing() {
    type Pages = fn(&ListVolumesRequest) -> Result<ListVolumesResponse, Status>;
    let rows: [(&str, Pages); 6] = [
        ("pages although all was asked for", |request| {
            Ok(match request.starting_token.as_str() {
                "" => page(vec![entry("other", Some(&[]))], "2"),
                _ => page(vec![entry("handle1", Some(&["nodeID1"]))], ""),
            })
        }),
        ("a token again and again", |_| Ok(page(vec![entry("other", Some(&[]))], "again"))),
        ("tokens in a circle", |request| Ok(page(vec![], if request.starting_token == "a" { "b" } else { "a" }))),
        ("an expired token", |request| match request.starting_token.as_str() {
            "" => Ok(page(vec![entry("other", Some(&[]))], "2")),
            _ => Err(Status::aborted("the token has expired")),
        }),
        ("an empty page with a token", |request| {
            Ok(match request.starting_token.as_str() {
                "" => page(vec![], "2"),
                _ => page(vec![entry("handle1", Some(&["nodeID1"]))], ""),
            })
        }),
        ("entries without status", |_| Ok(page(vec![entry("handle1", None), Entry::default()], ""))),
    ];
    assert_eq!(rows.len(), 6);
    for (case, pages) in rows {
        let scene = one_missing().await;
        script(&scene, pages);
        scene.pass(ROUND * 10).await;
        assert!(scene.count(Rpc::ListVolumes) >= 10, "{case}");
        assert_eq!(calls(&scene), (0, 0), "{case}");
        assert!(scene.writes().is_empty(), "{case}");
    }
}

/// The answer is larger than what gRPC takes by default.
#[tokio::test(start_paused = true)]
async fn d12_twenty_thousand_entries_in_one_answer_are_read() {
    let scene = one_missing().await;
    script(&scene, |_| {
        let padding = "x".repeat(300);
        let mut entries: Vec<Entry> = (0..20_000).map(|n| entry(&format!("{padding}-{n}"), Some(&["n"]))).collect();
        entries.push(entry("handle1", Some(&[])));
        Ok(page(entries, ""))
    });
    scene.pass(ROUND).await;
    scene.driver.wait_for_calls(Rpc::ControllerPublishVolume, 1).await;
}

#[tokio::test(start_paused = true)]
async fn d12_a_listing_that_takes_too_long_says_nothing() {
    let scene = one_missing().await;
    scene.driver.script_always(Rpc::ListVolumes, || {
        let pages = |request: &ListVolumesRequest| {
            let number: u32 = request.starting_token.parse().unwrap_or(0);
            Ok(page(vec![], &(number + 1).to_string()))
        };
        Step::respond(pages).after(Duration::from_secs(1))
    });
    scene.pass(ROUND * 10).await;
    assert_eq!(calls(&scene), (0, 0));
}

#[tokio::test(start_paused = true)]
async fn pages_are_as_large_as_asked_for() {
    let scene = Scene::with(Config { max_entries: 500, ..config() }, lists).await;
    scene.pass(ROUND).await;
    let requests: Vec<ListVolumesRequest> = scene.driver.requests();
    assert!(!requests.is_empty() && requests.iter().all(|request| request.max_entries == 500));
}

/// One listing is a guess, two that agree are not.
#[tokio::test(start_paused = true)]
async fn d13_a_mismatch_counts_when_two_listings_agree() {
    let scene = one_missing().await;
    scene.pass(Duration::from_secs(30)).await;
    assert_eq!(scene.count(Rpc::ListVolumes), 1);
    scene.pass(Duration::from_secs(25)).await;
    assert_eq!(calls(&scene), (0, 0), "one listing");
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(calls(&scene), (1, 0), "two listings");
}

#[tokio::test(start_paused = true)]
async fn d13_listings_that_disagree_count_for_nothing() {
    let scene = one_missing().await;
    let rounds = AtomicUsize::new(0);
    scene.driver.script_always(Rpc::ListVolumes, move || {
        let missing = rounds.fetch_add(1, Ordering::Relaxed).is_multiple_of(2);
        let nodes: &'static [&'static str] = if missing { &[] } else { &["nodeID1"] };
        Step::respond(move |_: &ListVolumesRequest| Ok(page(vec![entry("handle1", Some(nodes))], "")))
    });
    scene.pass(ROUND * 20).await;
    assert_eq!(calls(&scene), (0, 0));
}

/// The listing was made before our call: what it shows is from before.
#[tokio::test(start_paused = true)]
async fn d13_a_listing_that_began_before_our_last_call_ended_does_not_count() {
    let scene = Scene::listing().await;
    let (first, second) = (Release::new(), Release::new());
    let stale = || Step::respond(|_: &ListVolumesRequest| Ok(page(vec![], "")));
    scene.driver.wait_for_ended_calls(Rpc::ListVolumes, 1).await;
    scene.driver.script(Rpc::ListVolumes, stale().held_by(&first));
    scene.driver.script(Rpc::ListVolumes, stale().held_by(&second));
    scene.pass(ROUND).await;
    scene.driver.wait_for_calls(Rpc::ListVolumes, 2).await;
    // Listed as not published while it is being attached.
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    first.release();
    scene.pass(ROUND).await;
    scene.driver.wait_for_calls(Rpc::ListVolumes, 3).await;
    second.release();
    scene.pass(Duration::from_secs(10)).await;
    assert_eq!(calls(&scene), (1, 0), "the first of the two is from before the call");
    scene.pass(ROUND * 5).await;
    assert_eq!(calls(&scene), (1, 0));
}

/// Between the listings and the run the attachment is deleted: the mismatch is about what was before.
#[tokio::test(start_paused = true)]
async fn d13_a_mismatch_that_does_not_hold_any_more_is_dropped() {
    let scene = one_missing().await;
    scene.driver.wait_for_ended_calls(Rpc::ListVolumes, 1).await;
    scene.driver.script(Rpc::ListVolumes, Step::answer().after(Duration::from_secs(5)));
    scene.pass(ROUND).await;
    scene.driver.wait_for_calls(Rpc::ListVolumes, 2).await;
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    scene.pass(ROUND * 3).await;
    assert_eq!(calls(&scene), (0, 1));
}

/// The publish context of the repeated call replaces the one in the status.
#[tokio::test(start_paused = true)]
async fn a_repeated_publish_saves_what_has_changed() {
    let scene = Scene::listing().await;
    let before = json!({ "status": { "attachmentMetadata": { "dev": "sda", "old": "x" } } });
    scene.add_attachment(with(attached(attachment(), "nodeID1"), before));
    scene.driver.script(
        Rpc::ControllerPublishVolume,
        Step::respond(|_: &csi_proto::csi::v1::ControllerPublishVolumeRequest| {
            Ok(csi_proto::csi::v1::ControllerPublishVolumeResponse {
                publish_context: [("dev".to_owned(), "sdb".to_owned())].into(),
            })
        }),
    );
    let found = scene.status("pv1-node1", |status| status["attachmentMetadata"]["dev"] == "sdb").await;
    assert_eq!(found["status"], json!({ "attached": true, "attachmentMetadata": { "dev": "sdb" } }));
}

/// Node and pod are gone, and the driver lists the volume nowhere: kube-controller-manager, which alone can tell that nobody
/// wants it there any more, would forget an attachment that says `attached=false` and never delete it.
#[tokio::test(start_paused = true)]
async fn n11_an_attachment_that_nobody_has_deleted_stays_attached_without_its_node() {
    let (lines, _guard) = Lines::capture(Level::INFO);
    let scene = Scene::listing().await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    scene.pass(ROUND * 3).await;
    scene.api.remove::<CSINode>(None, "node1");
    scene.driver.unpublish("handle1", "nodeID1");
    let writes = scene.writes();
    // Less than until the next resync, which tells it again.
    scene.pass(ROUND * 6).await;
    assert_eq!((calls(&scene), scene.writes()), ((1, 0), writes));
    assert_eq!(scene.attachment("pv1-node1").unwrap()["status"]["attached"], true);
    assert_eq!(lines.text().matches(AWAITS_DELETION).count(), 1, "one line says what is waited for");
    // The force-detach.
    scene.delete_attachment("pv1-node1");
    scene.gone("pv1-node1").await;
    assert_eq!(scene.unpublished()[0].node_id, "nodeID1");
}

/// Whatever the listing and the node say.
#[tokio::test(start_paused = true)]
async fn n11_no_listing_and_no_node_takes_attached_away() {
    type Act = fn(&Scene);
    let rows: [(&str, Act); 4] = [
        ("still listed", |scene| scene.api.remove::<CSINode>(None, "node1")),
        ("no listing", |scene| {
            scene.api.remove::<CSINode>(None, "node1");
            scene.driver.unpublish("handle1", "nodeID1");
            scene.driver.script_always(Rpc::ListVolumes, || Step::fail(Code::Unavailable, "down"));
        }),
        ("the CSINode is there, without the driver", |scene| {
            scene.driver.unpublish("handle1", "nodeID1");
            scene.api.merge::<CSINode>(None, "node1", &json!({ "spec": { "drivers": [] } }));
        }),
        ("the object of the volume is gone too", |scene| {
            scene.api.remove::<k8s_openapi::api::core::v1::PersistentVolume>(None, "pv1");
            scene.api.remove::<CSINode>(None, "node1");
            scene.driver.unpublish("handle1", "nodeID1");
        }),
    ];
    for (case, act) in rows {
        let scene = Scene::listing().await;
        scene.add_attachment(attachment());
        scene.attached("pv1-node1").await;
        scene.pass(ROUND * 3).await;
        let writes = scene.writes();
        act(&scene);
        scene.pass(ROUND * 10).await;
        let found = scene.api.get::<VolumeAttachment>(None, "pv1-node1").unwrap();
        assert!(found.status.unwrap().attached, "{case}");
        assert_eq!((calls(&scene), scene.writes()), ((1, 0), writes), "{case}");
    }
}

/// The very first listing may have begun before our first call.
#[tokio::test(start_paused = true)]
async fn d13_a_call_during_the_first_listing_counts_too() {
    let scene = Scene::listing().await;
    let stale = || Step::respond(|_: &ListVolumesRequest| Ok(page(vec![], "")));
    scene.driver.script(Rpc::ListVolumes, stale().after(Duration::from_secs(10)));
    scene.driver.script(Rpc::ListVolumes, stale());
    scene.driver.wait_for_calls(Rpc::ListVolumes, 1).await;
    scene.add_attachment(attachment());
    scene.attached("pv1-node1").await;
    assert_eq!(scene.count(Rpc::ListVolumes), 1, "it is still on its way");
    scene.pass(ROUND * 5).await;
    assert_eq!(calls(&scene), (1, 0));
}

/// A repair that fails leaves no error on an attachment that is as it should be.
#[tokio::test(start_paused = true)]
async fn a_repeated_publish_that_fails_leaves_no_error_behind() {
    let scene = one_missing().await;
    scene.driver.script(Rpc::ControllerPublishVolume, Step::fail(Code::Internal, "no"));
    scene.pass(ROUND * 10).await;
    assert_eq!(calls(&scene), (2, 0), "two more listings, and once more");
    assert!(scene.writes().is_empty(), "{:?}", scene.writes());
}

/// A listing that fails in between neither counts nor takes anything away; what two have shown is acted on once.
#[tokio::test(start_paused = true)]
async fn d12_a_failed_listing_between_two_that_agree_says_nothing() {
    let scene = one_missing().await;
    let round = AtomicUsize::new(0);
    scene.driver.script_always(Rpc::ListVolumes, move || match round.fetch_add(1, Ordering::Relaxed) {
        0 | 2 => Step::respond(|_: &ListVolumesRequest| Ok(page(vec![], ""))),
        3.. => Step::respond(|_: &ListVolumesRequest| Ok(page(vec![entry("handle1", Some(&["nodeID1"]))], ""))),
        _ => Step::fail(Code::Unavailable, "down"),
    });
    scene.pass(ROUND + Duration::from_secs(30)).await;
    assert_eq!((scene.count(Rpc::ListVolumes), calls(&scene)), (2, (0, 0)));
    scene.pass(ROUND).await;
    assert_eq!((scene.count(Rpc::ListVolumes), calls(&scene)), (3, (1, 0)));
    scene.pass(ROUND * 10).await;
    assert_eq!(calls(&scene), (1, 0));
}

/// Its object is gone, so there is nothing to publish.
#[tokio::test(start_paused = true)]
async fn a_volume_without_an_object_is_not_published_again() {
    let scene = one_missing().await;
    scene.pass(Duration::from_secs(1)).await;
    scene.api.remove::<k8s_openapi::api::core::v1::PersistentVolume>(None, "pv1");
    scene.pass(ROUND * 5).await;
    assert_eq!((calls(&scene), scene.writes()), ((0, 0), vec![]));
}

/// The node is back under its name before the two listings count: the volume is to be attached there again.
#[tokio::test(start_paused = true)]
async fn d1_a_node_that_is_back_is_not_taken_for_gone() {
    let scene = one_missing().await;
    scene.pass(Duration::from_secs(30)).await;
    scene.api.remove::<CSINode>(None, "node1");
    scene.pass(Duration::from_secs(10)).await;
    scene.add_node(node("node1", "nodeID1"));
    scene.pass(ROUND).await;
    assert_eq!(calls(&scene), (1, 0));
    assert!(scene.writes().is_empty(), "{:?}", scene.writes());
}

/// Listed at neither id of its node, the volume is published where the node is by now, and the id is noted before.
#[tokio::test(start_paused = true)]
async fn n12_a_repeated_publish_is_at_the_present_id() {
    let scene = Scene::listing().await;
    scene.add_attachment(attached(attachment(), "old"));
    scene.pass(ROUND * 5).await;
    assert_eq!(scene.published().iter().map(|call| call.node_id.as_str()).collect::<Vec<_>>(), ["nodeID1"]);
    assert_eq!((scene.count(Rpc::ControllerUnpublishVolume), scene.writes()), (0, vec!["hold".to_owned()]));
    let found = scene.attachment("pv1-node1").unwrap();
    assert_eq!(found["metadata"]["annotations"]["csi.alpha.kubernetes.io/node-id"], "nodeID1");
}

/// A new version of the driver lists its volumes under new node ids.
#[tokio::test(start_paused = true)]
async fn n12_a_listing_with_either_id_of_the_node_is_enough() {
    for listed in ["before", "nodeID1"] {
        let scene = Scene::listing().await;
        scene.driver.publish("handle1", listed);
        scene.add_attachment(attached(attachment(), "before"));
        scene.pass(ROUND * 10).await;
        assert_eq!((calls(&scene), scene.writes()), ((0, 0), vec![]), "{listed}");
    }
}

/// The attachment is let go and held by somebody else; the driver still lists the volume at one id of the node.
#[tokio::test(start_paused = true)]
async fn n12_what_is_still_listed_at_either_id_is_detached_again() {
    for listed in ["before", "nodeID1"] {
        let scene = Scene::listing().await;
        scene.driver.publish("handle1", listed);
        let others = json!({ "metadata": { "finalizers": ["other"] } });
        scene.add_attachment(with(attached(attachment(), "before"), others));
        scene.delete_attachment("pv1-node1");
        scene.pass(ROUND * 10).await;
        assert_eq!(scene.unpublished_at(), ["before", "nodeID1"], "{listed}");
        assert!(scene.driver.published_nodes("handle1").is_empty(), "{listed}");
    }
}

/// Another attachment has it there: the driver rightly lists it.
#[tokio::test(start_paused = true)]
async fn n1_what_is_listed_for_another_attachment_is_left_alone() {
    let scene = Scene::listing().await;
    scene.driver.publish("handle1", "nodeID1");
    scene.add_node(node("node2", "nodeID1"));
    scene.add_attachment(attached(attachment_of("pv1-node2", "pv1", "node2"), "nodeID1"));
    let others = json!({ "metadata": { "finalizers": ["other"] } });
    scene.add_attachment(with(attached(attachment(), "nodeID1"), others));
    scene.delete_attachment("pv1-node1");
    scene.pass(ROUND * 10).await;
    assert_eq!(calls(&scene), (0, 0));
}

/// Listed as published by a listing from before the detach, and by another one that is no newer at the driver.
#[tokio::test(start_paused = true)]
async fn d13_a_listing_from_before_our_detach_does_not_count() {
    let scene = Scene::listing().await;
    scene.driver.publish("handle1", "nodeID1");
    let others = json!({ "metadata": { "finalizers": [super::objects::FINALIZER, "other"] } });
    scene.add_attachment(with(attached(attachment(), "nodeID1"), others));
    scene.driver.wait_for_ended_calls(Rpc::ListVolumes, 1).await;
    let stale = || Step::respond(|_: &ListVolumesRequest| Ok(page(vec![entry("handle1", Some(&["nodeID1"]))], "")));
    let release = Release::new();
    scene.driver.script(Rpc::ListVolumes, stale().held_by(&release));
    scene.driver.script(Rpc::ListVolumes, stale());
    scene.pass(ROUND).await;
    scene.driver.wait_for_calls(Rpc::ListVolumes, 2).await;
    scene.delete_attachment("pv1-node1");
    scene.status("pv1-node1", |status| status["attached"] == false).await;
    release.release();
    scene.pass(ROUND * 5).await;
    assert!(scene.count(Rpc::ListVolumes) >= 4);
    assert_eq!(calls(&scene), (0, 1));
}

/// Both capabilities are needed: volumes without their nodes say nothing.
#[tokio::test(start_paused = true)]
async fn a_driver_that_does_not_list_published_nodes_is_not_asked() {
    use csi_proto::csi::v1::controller_service_capability::rpc::Type as ControllerRpc;
    for capability in [None, Some(ControllerRpc::ListVolumes), Some(ControllerRpc::ListVolumesPublishedNodes)] {
        let scene = Scene::with(config(), |driver| driver.controller_capabilities.extend(capability)).await;
        scene.add_attachment(attached(attachment(), "nodeID1"));
        scene.pass(ROUND * 10).await;
        assert_eq!((scene.count(Rpc::ListVolumes), calls(&scene)), (0, (0, 0)));
    }
}
