//! Mount volumes on the node, with real mounts.

use std::fs;
use std::io::ErrorKind;
use std::process::Command;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::driver::{Driver, create, deletion};
use crate::node_request::Pod;
use crate::private_mounts::{Cleanup, entered, mount_options, mounted_below};

const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,SINGLE_NODE_MULTI_WRITER,\
    STAGE_UNSTAGE_VOLUME,GET_VOLUME_STATS";

async fn volume(driver: &Driver) -> Pod {
    let id = create(&mut driver.controller().await, "a").await.unwrap();
    Pod::of(&id, &driver.path("staging"), &driver.path("target"))
}

#[tokio::test]
async fn a_volume_keeps_what_was_written_through_a_target() {
    if !entered("mounting::a_volume_keeps_what_was_written_through_a_target").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    let target = driver.path("target");
    assert_eq!(pod.publish(&mut node).await, Err(Code::FailedPrecondition), "not staged");
    for round in ["first", "second"] {
        for _ in 0..2 {
            pod.stage(&mut node).await.unwrap();
            pod.publish(&mut node).await.unwrap();
        }
        assert_eq!(mounted_below(driver.dir.path()).len(), 2, "{round}");
        if round == "first" {
            fs::write(target.join("file"), "kept").unwrap();
        }
        assert_eq!(fs::read(target.join("file")).unwrap(), b"kept");
        let refused = driver.controller().await.delete_volume(deletion(pod.publish.volume_id.clone())).await;
        assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition);
        for _ in 0..2 {
            pod.unpublish(&mut node).await.unwrap();
            assert!(!target.exists());
        }
        for _ in 0..2 {
            pod.unstage(&mut node).await.unwrap();
        }
        assert_eq!(mounted_below(driver.dir.path()), [""; 0]);
    }
    driver.controller().await.delete_volume(deletion(pod.publish.volume_id.clone())).await.unwrap();
}

#[tokio::test]
async fn a_driver_killed_in_between_goes_on_with_what_is_mounted() {
    if !entered("mounting::a_driver_killed_in_between_goes_on_with_what_is_mounted").await {
        return;
    }
    let mut driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let pod = volume(&driver).await;
    pod.stage(&mut driver.node().await).await.unwrap();
    driver.crash().await;
    let mut node = driver.node().await;
    // Unpublished before it was published: what a kubelet does when a pod goes in the middle of it.
    pod.unpublish(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    fs::write(driver.path("target/file"), "kept").unwrap();
    driver.crash().await;
    let mut node = driver.node().await;
    pod.publish(&mut node).await.unwrap();
    assert_eq!(fs::read(driver.path("target/file")).unwrap(), b"kept");
    pod.unpublish(&mut node).await.unwrap();
    driver.crash().await;
    pod.unstage(&mut driver.node().await).await.unwrap();
    assert_eq!(mounted_below(driver.dir.path()), [""; 0]);
}

#[tokio::test]
async fn restrictions_hold_and_a_mount_that_lacks_them_is_completed() {
    if !entered("mounting::restrictions_hold_and_a_mount_that_lacks_them_is_completed").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    pod.stage(&mut node).await.unwrap();
    let writable = pod.clone().at(&driver.path("writable"));
    writable.publish(&mut node).await.unwrap();
    let target = driver.path("target");
    let restricted = pod.clone().flags(&["noexec", "nosuid", "nodev", "discard"]).readonly();
    // Mounted and not restricted yet: a driver that was killed between the two.
    fs::create_dir(&target).unwrap();
    let staging = driver.path("staging");
    assert!(Command::new("mount").arg("--bind").args([&staging, &target]).status().unwrap().success());
    restricted.publish(&mut node).await.unwrap();
    assert_eq!(mounted_below(&target).len(), 1);
    restricted.publish(&mut node).await.unwrap();
    let options = mount_options(&target);
    for option in ["ro", "noexec", "nosuid", "nodev"] {
        assert!(options.iter().any(|found| found == option), "{option}: {options:?}");
    }
    assert_eq!(fs::write(target.join("file"), "").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    fs::write(driver.path("writable/file"), "shared").unwrap();
    assert_eq!(fs::read(target.join("file")).unwrap(), b"shared");
    assert_eq!(pod.publish(&mut node).await, Err(Code::AlreadyExists));
    for pod in [&writable, &restricted] {
        pod.unpublish(&mut node).await.unwrap();
    }
    pod.unstage(&mut node).await.unwrap();
    let reader = pod.clone().mode(Mode::MultiNodeReaderOnly);
    reader.stage(&mut node).await.unwrap();
    reader.publish(&mut node).await.unwrap();
    assert_eq!(fs::write(target.join("other"), "").unwrap_err().kind(), ErrorKind::ReadOnlyFilesystem);
    reader.unpublish(&mut node).await.unwrap();
    reader.unstage(&mut node).await.unwrap();
}

#[tokio::test]
async fn a_single_writer_has_one_target() {
    if !entered("mounting::a_single_writer_has_one_target").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let mut node = driver.node().await;
    let pod = volume(&driver).await.mode(Mode::SingleNodeSingleWriter);
    let second = pod.clone().at(&driver.path("second"));
    pod.stage(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    assert_eq!(second.publish(&mut node).await, Err(Code::FailedPrecondition));
    assert!(!driver.path("second").exists());
    pod.unpublish(&mut node).await.unwrap();
    second.publish(&mut node).await.unwrap();
    second.unpublish(&mut node).await.unwrap();
    pod.unstage(&mut node).await.unwrap();
}

#[tokio::test]
async fn an_inline_volume_lives_as_long_as_it_is_published() {
    if !entered("mounting::an_inline_volume_lives_as_long_as_it_is_published").await {
        return;
    }
    // An inline volume is not published by the controller and not staged.
    let all = "--capabilities=CONTROLLER_SERVICE,PUBLISH_UNPUBLISH_VOLUME,STAGE_UNSTAGE_VOLUME,GET_VOLUME_STATS";
    let mut driver = Driver::start(&[all]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let target = driver.path("target");
    let pod = Pod::of("csi-0f", &driver.path("staging"), &target).ephemeral();
    pod.publish(&mut driver.node().await).await.unwrap();
    fs::write(target.join("file"), "scratch").unwrap();
    driver.crash().await;
    let mut node = driver.node().await;
    pod.publish(&mut node).await.unwrap();
    assert_eq!(fs::read(target.join("file")).unwrap(), b"scratch");
    assert!(!pod.stats(&mut node).await.unwrap().is_empty());
    assert!(driver.path("state/ephemeral/csi-0f").exists());
    for _ in 0..2 {
        pod.unpublish(&mut node).await.unwrap();
        assert!(!driver.path("state/ephemeral/csi-0f").exists() && !target.exists());
    }
    assert_eq!(mounted_below(driver.dir.path()), [""; 0]);
}

#[tokio::test]
async fn what_the_driver_did_not_mount_or_make_is_left_alone() {
    if !entered("mounting::what_the_driver_did_not_mount_or_make_is_left_alone").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    pod.stage(&mut node).await.unwrap();
    let target = driver.path("target");
    fs::create_dir(&target).unwrap();
    assert!(Command::new("mount").args(["-t", "tmpfs", "none"]).arg(&target).status().unwrap().success());
    assert_eq!(pod.publish(&mut node).await, Err(Code::FailedPrecondition));
    assert_eq!(pod.unpublish(&mut node).await, Err(Code::FailedPrecondition));
    assert_eq!(mounted_below(&target).len(), 1);
    let full = driver.path("full");
    fs::create_dir(&full).unwrap();
    fs::write(full.join("file"), "precious").unwrap();
    assert_eq!(pod.clone().at(&full).unpublish(&mut node).await, Err(Code::FailedPrecondition));
    assert_eq!(fs::read(full.join("file")).unwrap(), b"precious");
    assert_eq!(pod.clone().at(&full.join("file")).unpublish(&mut node).await, Err(Code::FailedPrecondition));
    let link = driver.path("link");
    std::os::unix::fs::symlink(&full, &link).unwrap();
    assert_eq!(pod.clone().at(&link).publish(&mut node).await, Err(Code::InvalidArgument));
    pod.unstage(&mut node).await.unwrap();
}

#[tokio::test]
async fn what_is_not_there_is_taken_back_already() {
    let driver = Driver::start(&[CAPABILITIES]).await;
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    for pod in [pod.clone(), Pod::of("unknown", &driver.path("no/staging"), &driver.path("no/dir/target"))] {
        pod.unpublish(&mut node).await.unwrap();
        pod.unstage(&mut node).await.unwrap();
        assert_eq!(pod.stats(&mut node).await, Err(Code::NotFound));
    }
    let unknown = Pod::of("unknown", &driver.path("staging"), &driver.path("target"));
    assert_eq!(unknown.stage(&mut node).await, Err(Code::NotFound));
    assert_eq!(unknown.publish(&mut node).await, Err(Code::NotFound));
    assert_eq!(pod.clone().block().stage(&mut node).await, Err(Code::InvalidArgument));
}

#[tokio::test]
async fn only_a_volume_that_the_controller_published_to_this_node_is_mounted() {
    if !entered("mounting::only_a_volume_that_the_controller_published_to_this_node_is_mounted").await {
        return;
    }
    let driver = Driver::start(&[
        "--node-id=n1",
        "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,STAGE_UNSTAGE_VOLUME",
    ])
    .await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let mut node = driver.node().await;
    for (published_to, expected) in
        [("", Err(Code::FailedPrecondition)), ("n2", Err(Code::FailedPrecondition)), ("n1", Ok(()))]
    {
        let id = create(&mut driver.controller().await, &format!("for {published_to}")).await.unwrap();
        let mut pod = Pod::of(&id, &driver.path("staging"), &driver.path("target"));
        if !published_to.is_empty() {
            let request = csi::ControllerPublishVolumeRequest {
                volume_id: id,
                node_id: published_to.to_owned(),
                volume_capability: pod.publish.volume_capability.clone(),
                ..csi::ControllerPublishVolumeRequest::default()
            };
            let published = driver.controller().await.controller_publish_volume(request).await.unwrap();
            pod.publish.publish_context = published.into_inner().publish_context;
        }
        assert_eq!(pod.stage(&mut node).await, expected, "{published_to}");
        assert_eq!(pod.publish(&mut node).await, expected, "{published_to}");
        pod.unpublish(&mut node).await.unwrap();
        pod.unstage(&mut node).await.unwrap();
    }
}

#[tokio::test]
async fn without_staging_a_volume_is_mounted_from_where_it_is() {
    if !entered("mounting::without_staging_a_volume_is_mounted_from_where_it_is").await {
        return;
    }
    let driver = Driver::start(&[]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (mut node, mut pod) = (driver.node().await, volume(&driver).await);
    assert_eq!(pod.stage(&mut node).await, Err(Code::Unimplemented));
    pod.publish.staging_target_path.clear();
    pod.publish(&mut node).await.unwrap();
    fs::write(driver.path("target/file"), "").unwrap();
    pod.unpublish(&mut node).await.unwrap();
    assert_eq!(mounted_below(driver.dir.path()), [""; 0]);
}

#[tokio::test]
async fn calls_that_come_together_mount_once() {
    if !entered("mounting::calls_that_come_together_mount_once").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    pod.stage(&mut node).await.unwrap();
    let mut calls = tokio::task::JoinSet::new();
    for _ in 0..10 {
        let (mut node, pod) = (node.clone(), pod.clone());
        calls.spawn(async move { pod.publish(&mut node).await });
    }
    assert_eq!(calls.join_all().await, [Ok(()); 10]);
    assert_eq!(mounted_below(&driver.path("target")).len(), 1);
    pod.unpublish(&mut node).await.unwrap();
    pod.unstage(&mut node).await.unwrap();
}

#[tokio::test]
async fn a_mount_volume_is_measured_where_it_is_published() {
    if !entered("mounting::a_mount_volume_is_measured_where_it_is_published").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    pod.stage(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    let usage = pod.stats(&mut node).await.unwrap();
    assert_eq!(usage.iter().map(|one| one.unit).collect::<Vec<_>>(), [1, 2], "bytes and inodes");
    assert!(usage.iter().all(|one| one.total > 0 && one.used <= one.total));
    assert_eq!(pod.clone().at(driver.dir.path()).stats(&mut node).await, Err(Code::NotFound));
    pod.unpublish(&mut node).await.unwrap();
    pod.unstage(&mut node).await.unwrap();
}

#[tokio::test]
async fn without_the_privilege_to_mount_the_error_says_so() {
    let root = rustix::process::geteuid().is_root();
    let wrapper: &[&str] = if root { &["setpriv", "--bounding-set=-sys_admin"] } else { &[] };
    let driver = Driver::start_in(wrapper, &[CAPABILITIES]).await;
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    let request = csi::NodeStageVolumeRequest {
        volume_id: pod.publish.volume_id.clone(),
        staging_target_path: pod.publish.staging_target_path.clone(),
        volume_capability: pod.publish.volume_capability.clone(),
        ..csi::NodeStageVolumeRequest::default()
    };
    let refused = node.node_stage_volume(request).await.unwrap_err();
    assert_eq!(refused.code(), Code::PermissionDenied);
    assert!(refused.message().contains("CAP_SYS_ADMIN"), "{}", refused.message());
    pod.unstage(&mut node).await.unwrap();
}
