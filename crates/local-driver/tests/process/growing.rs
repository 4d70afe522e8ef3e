//! Volumes that grow, as callers and pods see them.

use std::fs::{self, OpenOptions};
use std::io::{Seek, SeekFrom};
use std::path::Path;

use csi_proto::csi::v1 as csi;
use csi_proto::csi::v1::plugin_capability::{Type, VolumeExpansion, volume_expansion};
use csi_proto::csi::v1::volume_content_source::{Type as Source, VolumeSource};
use tonic::Code;

use crate::driver::{Driver, deletion, named};
use crate::node_request::Pod;
use crate::private_mounts::{Cleanup, attached_below, entered, freed_below, mounted_below};

const CONTROLLER: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,GET_VOLUME,CLONE_VOLUME,EXPAND_VOLUME,\
    STAGE_UNSTAGE_VOLUME";
const BOTH: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,GET_VOLUME,CLONE_VOLUME,EXPAND_VOLUME,\
    STAGE_UNSTAGE_VOLUME,NODE_EXPAND_VOLUME";
const OFFLINE: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,GET_VOLUME,EXPAND_VOLUME,\
    VOLUME_EXPANSION_OFFLINE,STAGE_UNSTAGE_VOLUME,NODE_EXPAND_VOLUME";
const UNSTAGED: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,EXPAND_VOLUME";
const MIB: i64 = 1 << 20;
const SIZE: i64 = 300 * MIB;
const LARGER: i64 = 400 * MIB;

fn of_size(mut request: csi::CreateVolumeRequest, bytes: i64) -> csi::CreateVolumeRequest {
    request.capacity_range = Some(csi::CapacityRange { required_bytes: bytes, limit_bytes: 0 });
    request
}

fn image(name: &str) -> csi::CreateVolumeRequest {
    let mut request = of_size(named(name), SIZE);
    request.parameters.insert("backing".to_owned(), "image".to_owned());
    request
}

async fn made(driver: &Driver, request: csi::CreateVolumeRequest) -> Pod {
    let wanted = request.volume_capabilities[0].clone();
    let volume = driver.controller().await.create_volume(request).await.unwrap().into_inner().volume.unwrap();
    let mut pod = Pod::of(&volume.volume_id, &driver.path("staging"), &driver.path("target"));
    pod.publish.volume_capability = Some(wanted);
    fs::create_dir_all(driver.path("staging")).unwrap();
    pod
}

/// Size answered, and whether the node has to follow.
async fn expand(driver: &Driver, pod: &Pod, required_bytes: i64, limit_bytes: i64) -> Result<(i64, bool), Code> {
    let request = csi::ControllerExpandVolumeRequest {
        volume_id: pod.publish.volume_id.clone(),
        capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes }),
        volume_capability: pod.publish.volume_capability.clone(),
        ..csi::ControllerExpandVolumeRequest::default()
    };
    let answer = driver.controller().await.controller_expand_volume(request).await;
    let answer = answer.map_err(|status| status.code())?.into_inner();
    Ok((answer.capacity_bytes, answer.node_expansion_required))
}

async fn node_expand(driver: &Driver, pod: &Pod, path: &Path, required_bytes: i64) -> Result<i64, Code> {
    let request = csi::NodeExpandVolumeRequest {
        volume_id: pod.publish.volume_id.clone(),
        volume_path: path.display().to_string(),
        capacity_range: Some(csi::CapacityRange { required_bytes, limit_bytes: 0 }),
        ..csi::NodeExpandVolumeRequest::default()
    };
    let answer = driver.node().await.node_expand_volume(request).await;
    Ok(answer.map_err(|status| status.code())?.into_inner().capacity_bytes)
}

/// Bytes of the file system that is mounted there.
fn file_system(path: &Path) -> i64 {
    let found = rustix::fs::statvfs(path).unwrap();
    i64::try_from(found.f_blocks * found.f_frsize).unwrap()
}

fn can_make_file_systems() -> bool {
    let there = Path::new("/dev/loop-control").exists();
    if !there {
        println!("left out: there is no /dev/loop-control");
    }
    let makes_file_systems = std::process::Command::new("mkfs.xfs").arg("-V").output().is_ok();
    if !makes_file_systems {
        println!("left out: there is no mkfs.xfs (xfsprogs)");
        assert!(std::env::var_os("OUTRIGGER_REQUIRE_NODE").is_none(), "OUTRIGGER_REQUIRE_NODE is set");
    }
    there && makes_file_systems
}

async fn clean(driver: &Driver, pod: &Pod) {
    let mut node = driver.node().await;
    for _ in 0..2 {
        pod.unpublish(&mut node).await.unwrap();
    }
    for _ in 0..2 {
        pod.unstage(&mut node).await.unwrap();
    }
    freed_below(driver.dir.path()).await;
    assert_eq!(mounted_below(driver.dir.path()), [""; 0]);
    driver.controller().await.delete_volume(deletion(pod.publish.volume_id.clone())).await.unwrap();
}

#[tokio::test]
async fn a_file_system_grows_under_its_pod_when_the_node_is_told() {
    if !entered("growing::a_file_system_grows_under_its_pod_when_the_node_is_told").await || !can_make_file_systems() {
        return;
    }
    let mut driver = Driver::start(&[BOTH]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let (pod, target) = (made(&driver, image("a")).await, driver.path("target"));
    assert_eq!(node_expand(&driver, &pod, &target, 0).await, Err(Code::NotFound), "not there");
    for _ in 0..2 {
        pod.stage(&mut driver.node().await).await.unwrap();
        pod.publish(&mut driver.node().await).await.unwrap();
    }
    fs::write(target.join("file"), "kept").unwrap();
    let before = file_system(&target);
    assert!(before <= SIZE, "{before}");
    assert_eq!(node_expand(&driver, &pod, &target, LARGER).await, Err(Code::OutOfRange), "not yet");
    for _ in 0..2 {
        assert_eq!(expand(&driver, &pod, LARGER, 0).await, Ok((LARGER, true)));
    }
    assert_eq!(file_system(&target), before, "the node has not been told");
    driver.crash().await;
    for path in [&target, &driver.path("staging"), &target] {
        assert_eq!(node_expand(&driver, &pod, path, LARGER).await, Ok(LARGER));
        assert!(file_system(&target) >= before + 90 * MIB, "{} of {before}", file_system(&target));
    }
    assert_eq!(fs::read_to_string(target.join("file")).unwrap(), "kept");
    let refused = driver.controller().await.delete_volume(deletion(pod.publish.volume_id.clone())).await;
    assert_eq!(refused.unwrap_err().code(), Code::FailedPrecondition, "in use");
    clean(&driver, &pod).await;
}

#[tokio::test]
async fn without_node_expansion_the_controller_does_it_all() {
    if !entered("growing::without_node_expansion_the_controller_does_it_all").await || !can_make_file_systems() {
        return;
    }
    for capabilities in [CONTROLLER, UNSTAGED] {
        let driver = Driver::start(&[capabilities]).await;
        let _cleanup = Cleanup(driver.dir.path().to_owned());
        let (pod, target) = (made(&driver, image("a")).await, driver.path("target"));
        if capabilities == CONTROLLER {
            pod.stage(&mut driver.node().await).await.unwrap();
        }
        pod.publish(&mut driver.node().await).await.unwrap();
        let before = file_system(&target);
        assert_eq!(expand(&driver, &pod, LARGER, 0).await, Ok((LARGER, false)));
        assert!(file_system(&target) >= before + 90 * MIB);
        assert_eq!(node_expand(&driver, &pod, &target, 0).await, Err(Code::Unimplemented));
        if capabilities == CONTROLLER {
            clean(&driver, &pod).await;
            continue;
        }
        pod.unpublish(&mut driver.node().await).await.unwrap();
        freed_below(driver.dir.path()).await;
        assert_eq!(mounted_below(driver.dir.path()), [""; 0]);
    }
}

#[tokio::test]
async fn a_device_grows_under_its_pod() {
    if !entered("growing::a_device_grows_under_its_pod").await || !can_make_file_systems() {
        return;
    }
    let driver = Driver::start(&[BOTH]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let mut request = of_size(named("block"), MIB);
    request.volume_capabilities =
        vec![Pod::of("", "/a".as_ref(), "/a".as_ref()).block().publish.volume_capability.unwrap()];
    let (pod, target) = (made(&driver, request).await, driver.path("target"));
    assert_eq!(node_expand(&driver, &pod, &target, 0).await, Err(Code::FailedPrecondition), "not staged");
    pod.stage(&mut driver.node().await).await.unwrap();
    pod.publish(&mut driver.node().await).await.unwrap();
    let mut device = OpenOptions::new().read(true).open(&target).unwrap();
    assert_eq!(expand(&driver, &pod, 2 * MIB + 1, 0).await, Ok((2 * MIB + 512, true)));
    assert_eq!(node_expand(&driver, &pod, &target, 0).await, Ok(2 * MIB + 512));
    assert_eq!(device.seek(SeekFrom::End(0)).unwrap(), (2 * MIB + 512).unsigned_abs());
    drop(device);
    clean(&driver, &pod).await;
}

#[tokio::test]
async fn a_copy_of_a_file_system_in_use_has_its_files_and_a_size_of_its_own() {
    let test = "growing::a_copy_of_a_file_system_in_use_has_its_files_and_a_size_of_its_own";
    if !entered(test).await || !can_make_file_systems() {
        return;
    }
    let driver = Driver::start(&[BOTH]).await;
    let _cleanup = Cleanup(driver.dir.path().to_owned());
    let original = made(&driver, image("original")).await;
    let mut node = driver.node().await;
    original.stage(&mut node).await.unwrap();
    original.publish(&mut node).await.unwrap();
    fs::write(driver.path("target/file"), "text").unwrap();
    let source = VolumeSource { volume_id: original.publish.volume_id.clone() };
    let mut request = of_size(image("copy"), LARGER);
    request.volume_content_source = Some(csi::VolumeContentSource { r#type: Some(Source::Volume(source)) });
    let mut copy = made(&driver, request).await.at(&driver.path("other"));
    copy.publish.staging_target_path = driver.path("staging-of-copy").display().to_string();
    fs::create_dir(driver.path("staging-of-copy")).unwrap();
    copy.stage(&mut node).await.unwrap();
    copy.publish(&mut node).await.unwrap();
    assert_eq!(fs::read_to_string(driver.path("other/file")).unwrap(), "text");
    assert!(file_system(&driver.path("other")) >= file_system(&driver.path("target")) + 90 * MIB);
    assert_eq!(attached_below(driver.dir.path()).len(), 2);
    copy.unpublish(&mut node).await.unwrap();
    copy.unstage(&mut node).await.unwrap();
    clean(&driver, &original).await;
}

#[tokio::test]
async fn a_volume_that_grows_offline_does_not_while_it_is_used() {
    if !entered("growing::a_volume_that_grows_offline_does_not_while_it_is_used").await {
        return;
    }
    let driver = Driver::start(&[OFFLINE]).await;
    let pod = made(&driver, of_size(named("directory"), MIB)).await;
    pod.stage(&mut driver.node().await).await.unwrap();
    assert_eq!(expand(&driver, &pod, 2 * MIB, 0).await, Err(Code::FailedPrecondition));
    assert_eq!(expand(&driver, &pod, MIB, 0).await, Ok((MIB, true)), "nothing to do");
    pod.unstage(&mut driver.node().await).await.unwrap();
    assert_eq!(expand(&driver, &pod, 2 * MIB, 0).await, Ok((2 * MIB, true)));
    assert_eq!(expansion(&driver).await, Some(volume_expansion::Type::Offline));
}

/// What the plugin says about its expansion.
async fn expansion(driver: &Driver) -> Option<volume_expansion::Type> {
    let mut client = csi::identity_client::IdentityClient::new(driver.channel().await);
    let answer = client.get_plugin_capabilities(csi::GetPluginCapabilitiesRequest {}).await.unwrap().into_inner();
    answer.capabilities.into_iter().find_map(|one| match one.r#type? {
        Type::VolumeExpansion(VolumeExpansion { r#type }) => volume_expansion::Type::try_from(r#type).ok(),
        Type::Service(_) => None,
    })
}

#[tokio::test]
async fn sizes_are_refused_with_the_code_of_the_specification() {
    let mut driver = Driver::start(&[BOTH, "--capacity=1000", "--max-volume-size=600"]).await;
    let pod = made(&driver, of_size(named("a"), 100)).await;
    let other = made(&driver, of_size(named("b"), 500)).await;
    assert_eq!(expansion(&driver).await, Some(volume_expansion::Type::Online));
    let cases = [
        // required, limit → size or code
        (700, 0, Err(Code::OutOfRange)),
        (550, 0, Err(Code::ResourceExhausted)),
        (50, 90, Err(Code::OutOfRange)),
        (0, 0, Err(Code::InvalidArgument)),
        (50, 0, Ok((100, true))),
        (0, 300, Ok((100, true))),
        (500, 500, Ok((500, true))),
        (501, 0, Err(Code::ResourceExhausted)),
        (200, 0, Ok((500, true))),
    ];
    assert_eq!(cases.len(), 9);
    for (required, limit, expected) in cases {
        assert_eq!(expand(&driver, &pod, required, limit).await, expected, "{required} {limit}");
    }
    driver.crash().await;
    let block = Pod::of(&pod.publish.volume_id, "/a".as_ref(), "/a".as_ref()).block();
    assert_eq!(expand(&driver, &block, 200, 0).await, Err(Code::InvalidArgument), "it is a mount volume");
    let refused = driver.controller().await.create_volume(of_size(named("c"), 601)).await;
    assert_eq!(refused.unwrap_err().code(), Code::OutOfRange);
    driver.controller().await.delete_volume(deletion(other.publish.volume_id.clone())).await.unwrap();
    assert_eq!(expand(&driver, &pod, 600, 0).await, Ok((600, true)), "what was deleted is free");
    assert_eq!(expand(&driver, &Pod::of("none", "/a".as_ref(), "/a".as_ref()), 5, 0).await, Err(Code::NotFound));
}
