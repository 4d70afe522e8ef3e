//! Contract 8.5: which update of an attachment is looked at, and when; requests made of volumes.

use std::collections::BTreeMap;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::Backoff;
use controller_runtime::Projection as _;
use csi_proto::csi::v1::volume_capability::access_mode::Mode;
use csi_proto::csi::v1::volume_capability::{AccessType, MountVolume};
use fake_driver::{Rpc, Step};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use serde_json::{Value, json};
use storage_kube::access_mode::Mapping;
use tonic::Code;

use super::objects::{DRIVER, FINALIZER, attached, attachment, volume, with};
use super::scene::Scene;
use crate::attachment::decision::{AttachmentDecision, AttachmentView, decide};
use crate::attachment::request;
use crate::reconcile::mismatches::Mismatch;
use crate::records::{AttachmentProjection, AttachmentRecord, Interners, VolumeProjection, VolumeRecord};
use crate::settings::{DriverFacts, Settings};

pub(super) fn settings() -> Settings {
    Settings {
        driver: DRIVER.to_owned(),
        finalizer: FINALIZER.to_owned(),
        in_tree: None,
        facts: DriverFacts {
            publishes: true,
            publishes_readonly: true,
            lists_published_nodes: false,
            access_modes: Mapping::Basic,
        },
        default_fs_type: "ext4".to_owned(),
        max_entries: 0,
        error_codes: true,
        timeout: Duration::from_secs(15),
        reconcile_sync: Duration::from_mins(1),
        backoff: Backoff { base: Duration::from_secs(1), max: Duration::from_mins(5) },
        worker_threads: 10,
        resync: None,
    }
}

pub(super) fn record(attachment: Value) -> AttachmentRecord {
    let projection = AttachmentProjection::new(&settings(), &Arc::<Interners>::default());
    projection.project(serde_json::from_value(attachment).unwrap()).unwrap()
}

fn volume_record(volume: Value) -> VolumeRecord {
    let projection = VolumeProjection::new(&settings(), &Arc::<Interners>::default());
    projection.project(serde_json::from_value(volume).unwrap()).unwrap()
}

/// The Go attacher queues at once whatever differs but the errors, the resourceVersion and the field managers.
#[test]
fn only_an_update_that_may_matter_ends_a_backoff() {
    let before = attachment();
    let changes = [
        ("the same", json!({}), true),
        ("only managed fields", json!({ "metadata": { "managedFields": [{ "manager": "x" }] } }), true),
        ("attach error added", json!({ "status": { "attachError": { "message": "m" } } }), true),
        ("detach error added", json!({ "status": { "detachError": { "message": "m" } } }), true),
        ("our finalizer", json!({ "metadata": { "finalizers": [FINALIZER] } }), true),
        ("node id", json!({ "metadata": { "annotations": { "csi.alpha.kubernetes.io/node-id": "n" } } }), true),
        ("other annotations", json!({ "metadata": { "annotations": { "a": "b" } } }), true),
        ("deleted", json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } }), false),
        ("attached", json!({ "status": { "attached": true } }), false),
        ("another node", json!({ "spec": { "nodeName": "node2" } }), false),
        ("another volume", json!({ "spec": { "source": { "persistentVolumeName": "pv2" } } }), false),
        ("made anew", json!({ "metadata": { "uid": "u2" } }), false),
    ];
    assert_eq!(changes.len(), 12);
    for (case, change, same) in changes {
        assert_eq!(record(before.clone()).asks_the_same(&record(with(before.clone(), change))), same, "{case}");
    }
}

#[tokio::test(start_paused = true)]
async fn updates_that_change_nothing_leave_the_backoff_alone() {
    let scene = Scene::start().await;
    scene.driver.script_always(Rpc::ControllerPublishVolume, || Step::fail(Code::Internal, "no"));
    scene.add_attachment(attachment());
    for second in 0..60 {
        scene.pass(Duration::from_secs(1)).await;
        let note = json!({ "metadata": { "annotations": { "note": second.to_string() } } });
        scene.api.merge::<VolumeAttachment>(None, "pv1-node1", &note);
    }
    assert_eq!(scene.count(Rpc::ControllerPublishVolume), 6, "at 0, 1, 3, 7, 15 and 31 s");
}

#[test]
fn what_an_attachment_needs() {
    use AttachmentDecision as Do;
    let deleting = json!({ "metadata": { "deletionTimestamp": "2026-01-01T00:00:00Z" } });
    let held = || attached(attachment(), "n");
    let released = || with(attachment(), json!({ "status": { "attached": true } }));
    let (not, still) = (Some(Mismatch::NotPublished), Some(Mismatch::StillPublished));
    let context = BTreeMap::from([("a".to_owned(), "b".to_owned())]);
    // attachment, published, unpublished, mismatch, node registered
    let rows = [
        (attachment(), None, false, None, true, Do::Attach),
        (attachment(), None, false, None, false, Do::Attach),
        (attachment(), Some(context.clone()), false, None, true, Do::RecordAttached(context.clone())),
        (held(), None, false, None, true, Do::Nothing),
        (held(), None, false, None, false, Do::Nothing),
        (held(), None, false, not, true, Do::PublishAgain),
        (held(), None, false, not, false, Do::AwaitDeletion),
        (held(), None, false, still, true, Do::Nothing),
        (held(), Some(context.clone()), false, None, true, Do::RecordContext(context.clone())),
        (held(), Some(context.clone()), false, not, true, Do::PublishAgain),
        (held(), Some(context.clone()), false, not, false, Do::RecordContext(context.clone())),
        (with(held(), deleting.clone()), None, false, None, true, Do::Detach),
        (with(held(), deleting.clone()), Some(context), false, None, true, Do::Detach),
        (with(held(), deleting.clone()), None, true, None, true, Do::Release),
        (with(held(), deleting.clone()), None, false, not, true, Do::Detach),
        (with(released(), deleting.clone()), None, false, None, true, Do::Nothing),
        (with(released(), deleting.clone()), None, false, still, true, Do::UnpublishAgain),
        (with(released(), deleting.clone()), None, true, still, true, Do::UnpublishAgain),
        (with(released(), deleting.clone()), None, true, None, true, Do::Release),
        (with(attachment(), deleting.clone()), None, true, None, true, Do::Nothing),
        (with(attachment(), deleting), None, false, None, true, Do::Nothing),
    ];
    assert_eq!(rows.len(), 21);
    for (attachment, published, unpublished, mismatch, node_is_registered, expected) in rows {
        let attachment = record(attachment);
        let view = AttachmentView { attachment: &attachment, published, unpublished, mismatch, node_is_registered };
        assert_eq!(decide(&settings(), &view), expected, "{view:?}");
    }
}

#[test]
fn one_capability_for_all_access_modes_of_a_volume() {
    let spec =
        |modes: &[&str], change: Value| with(volume(), with(json!({ "spec": { "accessModes": modes } }), change));
    let block = json!({ "spec": { "volumeMode": "Block" } });
    let mount = |fs_type: &str, flags: &[&str]| {
        Some(AccessType::Mount(MountVolume {
            fs_type: fs_type.to_owned(),
            mount_flags: flags.iter().map(|&flag| flag.to_owned()).collect(),
            ..MountVolume::default()
        }))
    };
    let raw = Some(AccessType::Block(csi_proto::csi::v1::volume_capability::BlockVolume {}));
    let (rwo, rox, rwx, rwop) = ("ReadWriteOnce", "ReadOnlyMany", "ReadWriteMany", "ReadWriteOncePod");
    let filesystem = json!({ "spec": { "volumeMode": "Filesystem" } });
    let ext3 = json!({ "spec": { "csi": { "fsType": "ext3" } } });
    let options = json!({ "spec": { "mountOptions": ["first", "second"] } });
    let none = json!({});
    let (basic, multi) = (Mapping::Basic, Mapping::SingleNodeMultiWriter);
    let rows = vec![
        (basic, spec(&[rwx], filesystem), Some((mount("ext4", &[]), Mode::MultiNodeMultiWriter))),
        (basic, spec(&[rwx], none.clone()), Some((mount("ext4", &[]), Mode::MultiNodeMultiWriter))),
        (basic, spec(&[rwx], block.clone()), Some((raw.clone(), Mode::MultiNodeMultiWriter))),
        (basic, spec(&[rwo], block), Some((raw, Mode::SingleNodeWriter))),
        (basic, spec(&[rwx], ext3), Some((mount("ext3", &[]), Mode::MultiNodeMultiWriter))),
        (basic, spec(&[rwo], none.clone()), Some((mount("ext4", &[]), Mode::SingleNodeWriter))),
        (basic, spec(&[rox], none.clone()), Some((mount("ext4", &[]), Mode::MultiNodeReaderOnly))),
        (basic, spec(&[rwx, rox, rwo], none.clone()), Some((mount("ext4", &[]), Mode::MultiNodeMultiWriter))),
        (basic, spec(&[rwo], options), Some((mount("ext4", &["first", "second"]), Mode::SingleNodeWriter))),
        (basic, spec(&[rox, rwo], none.clone()), None),
        (basic, spec(&[], none.clone()), None),
        (multi, spec(&[rwx], none.clone()), Some((mount("ext4", &[]), Mode::MultiNodeMultiWriter))),
        (multi, spec(&[rwo], none.clone()), Some((mount("ext4", &[]), Mode::SingleNodeMultiWriter))),
        (multi, spec(&[rwop], none.clone()), Some((mount("ext4", &[]), Mode::SingleNodeSingleWriter))),
        (multi, spec(&[rox, rwo], none.clone()), None),
        (multi, spec(&[rox, rwop], none.clone()), None),
        (multi, spec(&[rwo, rwop], none.clone()), None),
        (multi, spec(&[], none), None),
    ];
    assert_eq!(rows.len(), 18);
    for (mapping, volume, expected) in rows {
        let mut settings = settings();
        settings.facts.access_modes = mapping;
        let made = request::publish(&settings, &volume_record(volume.clone()));
        let found = made
            .ok()
            .and_then(|request| request.volume_capability)
            .map(|capability| (capability.access_type, capability.access_mode.unwrap().mode()));
        assert_eq!(found, expected, "{volume}");
    }
}
