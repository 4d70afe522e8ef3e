//! From the driver's answers and kubelet's calls to sockets.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::collections::BTreeMap;
use std::os::unix::net::UnixListener;
use std::time::Duration;

use csi_proto::csi::v1::{NodeGetInfoResponse, Topology};
use fake_driver::{FakeDriver, Release, Rpc, Step};
use tokio::time::{Instant, sleep};
use tonic::Code;

use super::scene::{ENDPOINT, Scene, inode, until};
use crate::error::Error;
use crate::registration::{TO_DECIDE, TO_NOTICE};

const SECOND: Duration = Duration::from_secs(1);

fn node(id: &str, zone: &str) -> NodeGetInfoResponse {
    let segments = BTreeMap::from([("zone".to_owned(), zone.to_owned())]);
    NodeGetInfoResponse {
        node_id: id.to_owned(),
        accessible_topology: Some(Topology { segments }),
        ..Default::default()
    }
}

#[tokio::test(start_paused = true)]
async fn kubelet_is_told_type_name_endpoint_and_one_version() {
    let scene = Scene::new().await;
    let mut running = scene.start();
    let mut kubelet = scene.kubelet().await;
    for _ in 0..2 {
        let info = kubelet.get_info().await;
        assert_eq!(info.r#type, "CSIPlugin");
        assert_eq!(info.name, "fake.csi.example.com");
        assert_eq!(info.endpoint, ENDPOINT);
        assert_eq!(info.supported_versions, ["1.0.0"]);
    }
    kubelet.notify(None).await;
    assert!(running.is_running());
    assert_eq!(scene.driver.calls_of(Rpc::Probe).len(), 0, "the driver is not probed");
    running.stop().await;
    assert_eq!(scene.files(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn f7_the_driver_is_waited_for_without_limit() {
    let scene = Scene::with(FakeDriver::stopped());
    let mut running = scene.start();
    sleep(Duration::from_hours(2)).await;
    assert!(running.is_running());
    scene.driver.start_again().await;
    scene.kubelet().await.register().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f7_nothing_ends_by_itself_after_a_registration() {
    let scene = Scene::new().await;
    let mut running = scene.start();
    scene.kubelet().await.register().await;
    let before = inode(&scene.socket());
    sleep(Duration::from_hours(24)).await;
    assert!(running.is_running());
    assert_eq!(inode(&scene.socket()), before);
    assert_eq!(scene.driver.calls().len(), 2, "one GetPluginInfo and one NodeGetInfo");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_is_slow_or_fails_is_asked_again() {
    let scene = Scene::new().await;
    scene.driver.script(Rpc::GetPluginInfo, Step::answer().after(3 * SECOND));
    scene.driver.script(Rpc::GetPluginInfo, Step::fail(Code::Internal, "not yet"));
    let started = Instant::now();
    let running = scene.start();
    scene.kubelet().await;
    assert_eq!(scene.driver.calls_of(Rpc::GetPluginInfo).len(), 3);
    // The deadline, and pauses of one and two seconds.
    assert_eq!(started.elapsed().as_secs(), 4);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_without_a_name_ends_the_start_with_an_error() {
    let scene = Scene::new().await;
    scene.driver.configure(|identity| identity.name.clear());
    let error = scene.start().end().await.unwrap_err();
    assert!(matches!(error, Error::EmptyName { .. }), "{error}");
    assert!(error.to_string().contains("driver name is empty"), "{error}");
}

#[tokio::test(start_paused = true)]
async fn a_name_that_is_no_file_name_ends_the_start_with_an_error() {
    for name in ["a/b", &"d".repeat(108)] {
        let scene = Scene::new().await;
        scene.driver.configure(|identity| name.clone_into(&mut identity.name));
        let error = scene.start().end().await.unwrap_err();
        assert!(matches!(error, Error::Name { .. } | Error::PathTooLong { .. }), "{error}");
        assert_eq!(scene.files(), [""; 0]);
    }
}

#[tokio::test(start_paused = true)]
async fn a_stale_socket_is_removed_as_soon_as_the_name_is_known() {
    let scene = Scene::new().await;
    let release = Release::new();
    scene.driver.script(Rpc::NodeGetInfo, Step::answer().held_by(&release));
    drop(UnixListener::bind(scene.socket()).unwrap());
    let running = scene.start();
    until("the stale socket to go", || !scene.socket().exists()).await;
    release.release();
    scene.kubelet().await.register().await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_node_service_that_does_not_answer_does_not_hold_up_the_registration() {
    let scene = Scene::new().await;
    scene.driver.script_always(Rpc::NodeGetInfo, || Step::answer().after(5 * SECOND));
    let running = scene.start();
    scene.kubelet().await.register().await;
    let before = inode(&scene.socket());
    // Asked with more time each time, until it answers; then never again.
    sleep(Duration::from_hours(1)).await;
    assert_eq!(scene.driver.calls_of(Rpc::NodeGetInfo).len(), 4);
    assert_eq!(inode(&scene.socket()), before);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f1_a_driver_that_restarts_as_it_was_changes_nothing() {
    let scene = Scene::new().await;
    scene.driver.configure(|identity| identity.node = Some(node("n1", "a")));
    let mut running = scene.start();
    scene.kubelet().await.register().await;
    let before = inode(&scene.socket());
    for restart in 2..5 {
        scene.driver.stop().await;
        sleep(Duration::from_mins(10)).await;
        assert!(running.is_running());
        assert_eq!(inode(&scene.socket()), before, "the driver is away");
        scene.driver.start_again().await;
        scene.driver.wait_for_ended_calls(Rpc::NodeGetInfo, restart).await;
        sleep(Duration::from_mins(10)).await;
        assert_eq!(inode(&scene.socket()), before, "the driver is back");
    }
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f1_a_driver_with_another_node_id_or_set_of_topology_keys_is_registered_anew() {
    let scene = Scene::new().await;
    scene.driver.configure(|identity| identity.node = Some(node("n1", "a")));
    let running = scene.start();
    scene.kubelet().await.register().await;
    let mut before = inode(&scene.socket());
    let without_keys = NodeGetInfoResponse { accessible_topology: None, ..node("n2", "a") };
    for changed in [Some(node("n2", "a")), Some(without_keys), None, Some(node("n1", "a"))] {
        scene.driver.stop().await;
        scene.driver.configure(|identity| identity.node = changed);
        scene.driver.start_again().await;
        before = Some(scene.socket_other_than(before).await);
        scene.kubelet().await.register().await;
    }
    running.stop().await;
}

/// Kubelet would refuse it, and have forgotten the driver by then.
#[tokio::test(start_paused = true)]
async fn o10_a_driver_with_another_topology_value_stays_registered_and_is_asked_again() {
    let scene = Scene::new().await;
    scene.driver.configure(|identity| identity.node = Some(node("n1", "a")));
    let running = scene.start();
    scene.kubelet().await.register().await;
    let before = inode(&scene.socket());
    scene.driver.wait_for_ended_calls(Rpc::NodeGetInfo, 1).await;
    for (value, asked) in [("b", 4), ("", 7)] {
        scene.driver.stop().await;
        scene.driver.configure(|identity| identity.node = Some(node("n1", value)));
        scene.driver.start_again().await;
        scene.driver.wait_for_ended_calls(Rpc::NodeGetInfo, asked).await;
        assert_eq!(inode(&scene.socket()), before);
    }
    scene.driver.configure(|identity| identity.node = Some(node("n1", "a")));
    sleep(Duration::from_mins(2)).await;
    let asked = scene.driver.calls_of(Rpc::NodeGetInfo).len();
    sleep(Duration::from_mins(10)).await;
    assert_eq!(scene.driver.calls_of(Rpc::NodeGetInfo).len(), asked, "it answers as before");
    assert_eq!(inode(&scene.socket()), before);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f1_a_driver_with_another_name_gets_another_socket_and_the_old_one_goes() {
    let scene = Scene::new().await;
    let running = scene.start();
    scene.kubelet().await.register().await;
    scene.driver.stop().await;
    scene.driver.configure(|identity| "other.example.com".clone_into(&mut identity.name));
    scene.driver.start_again().await;
    until("the other socket", || scene.socket_of("other.example.com").exists()).await;
    assert_eq!(scene.files(), ["other.example.com-reg.sock"]);
    let mut kubelet = super::kubelet::Kubelet::dial(&scene.socket_of("other.example.com")).await;
    assert_eq!(kubelet.get_info().await.name, "other.example.com");
    running.stop().await;
    assert_eq!(scene.files(), [""; 0]);
}

#[tokio::test(start_paused = true)]
async fn f1_a_driver_with_a_new_socket_is_asked_though_the_old_process_lives_on() {
    let scene = Scene::new().await;
    scene.driver.configure(|identity| identity.node = Some(node("n1", "a")));
    let running = scene.start();
    scene.kubelet().await.register().await;
    let before = inode(&scene.socket());
    scene.driver.configure(|identity| identity.node = Some(node("n2", "a")));
    scene.driver.replace_socket().await;
    scene.socket_other_than(before).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_starts_again_without_a_name_is_asked_until_it_has_one() {
    let scene = Scene::new().await;
    let mut running = scene.start();
    scene.kubelet().await.register().await;
    let before = inode(&scene.socket());
    scene.driver.stop().await;
    scene.driver.configure(|identity| identity.name.clear());
    scene.driver.start_again().await;
    scene.driver.wait_for_ended_calls(Rpc::GetPluginInfo, 4).await;
    assert!(running.is_running());
    assert_eq!(inode(&scene.socket()), before);
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f4_a_refusal_is_answered_and_ends_in_a_new_socket_with_growing_pauses() {
    let scene = Scene::new().await;
    let mut running = scene.start();
    let mut socket = scene.socket_other_than(None).await;
    for pause in [1, 2, 4, 8] {
        let mut kubelet = scene.kubelet().await;
        kubelet.get_info().await;
        kubelet.notify(Some("plugin registration failed")).await;
        let refused = Instant::now();
        socket = scene.socket_other_than(Some(socket)).await;
        assert_eq!(refused.elapsed().as_secs(), pause);
        assert!(running.is_running());
    }
    scene.kubelet().await.register().await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(inode(&scene.socket()), Some(socket), "after a success nothing is done");
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f4_a_kubelet_that_says_nothing_gets_a_new_socket() {
    let scene = Scene::new().await;
    let running = scene.start();
    let first = scene.socket_other_than(None).await;
    sleep(TO_NOTICE.saturating_sub(SECOND)).await;
    assert_eq!(inode(&scene.socket()), Some(first));
    let second = scene.socket_other_than(Some(first)).await;
    scene.kubelet().await.get_info().await;
    sleep(TO_DECIDE.saturating_sub(SECOND)).await;
    assert_eq!(inode(&scene.socket()), Some(second), "kubelet may take its time between question and verdict");
    scene.socket_other_than(Some(second)).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn f4_a_restarted_kubelet_that_asks_again_is_answered_and_an_error_then_counts() {
    let scene = Scene::new().await;
    let running = scene.start();
    let socket = scene.socket_other_than(None).await;
    scene.kubelet().await.register().await;
    let mut restarted = scene.kubelet().await;
    restarted.get_info().await;
    sleep(Duration::from_hours(1)).await;
    assert_eq!(inode(&scene.socket()), Some(socket), "a question alone takes nothing back");
    scene.kubelet().await.notify(Some("plugin registration failed")).await;
    scene.socket_other_than(Some(socket)).await;
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_late_word_about_an_earlier_socket_does_not_count() {
    let scene = Scene::new().await;
    let running = scene.start();
    let first = scene.socket_other_than(None).await;
    let mut late = scene.kubelet().await;
    late.get_info().await;
    std::fs::remove_file(scene.socket()).unwrap();
    let second = scene.socket_other_than(Some(first)).await;
    scene.kubelet().await.register().await;
    late.notify(Some("the connection was to the first socket")).await;
    sleep(Duration::from_mins(10)).await;
    assert_eq!(inode(&scene.socket()), Some(second));
    running.stop().await;
}

#[tokio::test(start_paused = true)]
async fn a_driver_that_accepts_and_dies_is_not_dialled_without_pause() {
    let directory = tempfile::tempdir().unwrap();
    let path = directory.path().join("csi.sock");
    let listener = tokio::net::UnixListener::bind(&path).unwrap();
    let scene = Scene::with(FakeDriver::stopped());
    let mut config = scene.config();
    config.csi_address = path.display().to_string().parse().unwrap();
    let running = scene.start_with(config);
    let mut accepted = 0;
    let count = async {
        loop {
            drop(listener.accept().await.unwrap());
            accepted += 1;
        }
    };
    let _ = tokio::time::timeout(Duration::from_mins(1), count).await;
    assert!((30..90).contains(&accepted), "{accepted} connections in a minute");
    running.stop().await;
}
