//! Block volumes on the node, with real loop devices.

use std::fs::{self, OpenOptions};
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::unix::fs::FileTypeExt;
use std::path::Path;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use tonic::Code;

use crate::driver::{Driver, deletion, named};
use crate::node_request::Pod;
use crate::private_mounts::{Cleanup, attached_below, entered, freed_below, mounted_below};

const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,SINGLE_NODE_MULTI_WRITER,\
    STAGE_UNSTAGE_VOLUME,GET_VOLUME_STATS";
const SIZE: i64 = 1 << 20;

async fn volume(driver: &Driver) -> Pod {
    let mut pod = Pod::of("", &driver.path("staging"), &driver.path("target")).block();
    let request = csi::CreateVolumeRequest {
        volume_capabilities: pod.publish.volume_capability.clone().into_iter().collect(),
        capacity_range: Some(csi::CapacityRange { required_bytes: SIZE, limit_bytes: 0 }),
        ..named("block")
    };
    let volume = driver.controller().await.create_volume(request).await.unwrap().into_inner().volume.unwrap();
    pod.publish.volume_id = volume.volume_id;
    fs::create_dir(driver.path("staging")).unwrap();
    pod
}

/// Whether there are devices to test with; a container may have none.
async fn ready(test: &str) -> bool {
    if !entered(test).await {
        return false;
    }
    let there = Path::new("/dev/loop-control").exists();
    if !there {
        println!("{test} is left out: there is no /dev/loop-control");
    }
    there
}

#[tokio::test]
async fn a_device_keeps_what_was_written_and_is_free_afterwards() {
    if !ready("devices::a_device_keeps_what_was_written_and_is_free_afterwards").await {
        return;
    }
    let mut driver = Driver::start(&[CAPABILITIES]).await;
    let dir = driver.dir.path().to_owned();
    let _cleanup = Cleanup(dir.clone());
    let pod = volume(&driver).await;
    let target = driver.path("target");
    let mut node = driver.node().await;
    assert_eq!(pod.publish(&mut node).await, Err(Code::FailedPrecondition), "not staged");
    for round in ["first", "second"] {
        for _ in 0..2 {
            pod.stage(&mut node).await.unwrap();
        }
        driver.crash().await;
        node = driver.node().await;
        for _ in 0..2 {
            pod.publish(&mut node).await.unwrap();
        }
        assert_eq!((attached_below(&dir).len(), mounted_below(&dir).len()), (1, 1));
        assert!(fs::metadata(&target).unwrap().file_type().is_block_device());
        let mut device = OpenOptions::new().read(true).write(true).open(&target).unwrap();
        assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), SIZE.unsigned_abs());
        device.rewind().unwrap();
        if round == "first" {
            device.write_all(b"kept").unwrap();
            device.sync_all().unwrap();
        } else {
            let mut text = [0; 4];
            device.read_exact(&mut text).unwrap();
            assert_eq!(&text, b"kept");
        }
        drop(device);
        assert_eq!(pod.stats(&mut node).await.unwrap()[0].total, SIZE);
        assert_eq!(pod.unstage(&mut node).await, Err(Code::FailedPrecondition), "still published");
        driver.crash().await;
        node = driver.node().await;
        for _ in 0..2 {
            pod.unpublish(&mut node).await.unwrap();
            assert!(!target.exists());
        }
        let refused = driver.controller().await.delete_volume(deletion(pod.publish.volume_id.clone())).await;
        assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition, "still staged");
        for _ in 0..2 {
            pod.unstage(&mut node).await.unwrap();
        }
        freed_below(&dir).await;
        assert_eq!(mounted_below(&dir), [""; 0]);
    }
    driver.controller().await.delete_volume(deletion(pod.publish.volume_id.clone())).await.unwrap();
}

#[tokio::test]
async fn a_snapshot_of_a_volume_in_use_has_what_was_written_to_its_device() {
    if !ready("devices::a_snapshot_of_a_volume_in_use_has_what_was_written_to_its_device").await {
        return;
    }
    let capabilities = format!("{CAPABILITIES},CREATE_DELETE_SNAPSHOT,CLONE_VOLUME");
    let driver = Driver::start(&[capabilities.as_str()]).await;
    let dir = driver.dir.path().to_owned();
    let _cleanup = Cleanup(dir.clone());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    pod.stage(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    let mut device = OpenOptions::new().write(true).open(driver.path("target")).unwrap();
    // Not synced by the one who writes.
    device.write_all(b"written").unwrap();
    let request = csi::CreateSnapshotRequest {
        name: "s".to_owned(),
        source_volume_id: pod.publish.volume_id.clone(),
        ..csi::CreateSnapshotRequest::default()
    };
    let snapshot = driver.controller().await.create_snapshot(request).await.unwrap().into_inner().snapshot.unwrap();
    let disk = fs::read(driver.path(&format!("state/snapshot-data/{}/disk", snapshot.snapshot_id))).unwrap();
    assert_eq!((&disk[..7], disk.len()), (&b"written"[..], usize::try_from(SIZE).unwrap()));
    drop(device);
    pod.unpublish(&mut node).await.unwrap();
    pod.unstage(&mut node).await.unwrap();
    freed_below(&dir).await;
}

#[tokio::test]
async fn a_read_only_target_cannot_be_written_to() {
    if !ready("devices::a_read_only_target_cannot_be_written_to").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let dir = driver.dir.path().to_owned();
    let _cleanup = Cleanup(dir.clone());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    let reader = pod.clone().readonly().at(&driver.path("reader"));
    pod.stage(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    reader.publish(&mut node).await.unwrap();
    reader.publish(&mut node).await.unwrap();
    assert_eq!(pod.clone().at(&driver.path("reader")).publish(&mut node).await, Err(Code::AlreadyExists));
    let written = |path: &str| {
        let opened = OpenOptions::new().write(true).open(driver.path(path));
        opened.and_then(|mut device| device.write_all(b"text").and_then(|()| device.sync_all()))
    };
    written("target").unwrap();
    written("reader").unwrap_err();
    let mut text = [0; 4];
    OpenOptions::new().read(true).open(driver.path("reader")).unwrap().read_exact(&mut text).unwrap();
    assert_eq!(&text, b"text");
    for pod in [&pod, &reader] {
        pod.unpublish(&mut node).await.unwrap();
    }
    pod.unstage(&mut node).await.unwrap();
    freed_below(&dir).await;
}

#[tokio::test]
async fn a_single_writer_has_one_device_path() {
    if !ready("devices::a_single_writer_has_one_device_path").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let mut node = driver.node().await;
    let pod = volume(&driver).await.mode(Mode::SingleNodeSingleWriter);
    pod.stage(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    let second = pod.clone().at(&driver.path("second"));
    assert_eq!(second.publish(&mut node).await, Err(Code::FailedPrecondition));
    pod.unpublish(&mut node).await.unwrap();
    pod.unstage(&mut node).await.unwrap();
}

#[tokio::test]
async fn without_staging_the_device_goes_with_the_last_target() {
    if !ready("devices::without_staging_the_device_goes_with_the_last_target").await {
        return;
    }
    let driver = Driver::start(&[]).await;
    let dir = driver.dir.path().to_owned();
    let _cleanup = Cleanup(dir.clone());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    let second = pod.clone().at(&driver.path("second"));
    for pod in [&pod, &second] {
        pod.publish(&mut node).await.unwrap();
    }
    assert_eq!(attached_below(&dir).len(), 1);
    pod.unpublish(&mut node).await.unwrap();
    assert_eq!(attached_below(&dir).len(), 1);
    second.unpublish(&mut node).await.unwrap();
    freed_below(&dir).await;
}

#[tokio::test]
async fn a_device_that_is_still_open_goes_with_its_last_user_and_is_not_used_again() {
    if !ready("devices::a_device_that_is_still_open_goes_with_its_last_user_and_is_not_used_again").await {
        return;
    }
    let driver = Driver::start(&[CAPABILITIES]).await;
    let dir = driver.dir.path().to_owned();
    let _cleanup = Cleanup(dir.clone());
    let (mut node, pod) = (driver.node().await, volume(&driver).await);
    pod.stage(&mut node).await.unwrap();
    let first = attached_below(&dir).remove(0);
    let user = fs::File::open(&first).unwrap();
    pod.unstage(&mut node).await.unwrap();
    assert_eq!(attached_below(&dir), [first.as_str()]);
    pod.stage(&mut node).await.unwrap();
    pod.publish(&mut node).await.unwrap();
    assert_eq!(attached_below(&dir).len(), 2);
    drop(user);
    fs::File::open(driver.path("target")).unwrap();
    pod.unpublish(&mut node).await.unwrap();
    pod.unstage(&mut node).await.unwrap();
    freed_below(&dir).await;
}
