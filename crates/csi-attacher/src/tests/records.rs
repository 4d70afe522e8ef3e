//! What is kept of an object, and how much memory that takes.

use std::sync::Arc;

use controller_runtime::Projection as _;
use serde_json::json;
use storage_kube::in_tree::InTreePlugin;

use super::objects::{attached, attachment_of, volume_named, with};
use super::predicates::{record, settings};
use crate::records::{AttachmentProjection, AttachmentRecord, Interners, NodeRecord, VolumeProjection, VolumeRecord};
use crate::settings::Settings;

/// The Go attacher takes 265 MiB for 20,000 volumes; a fifteenth of that leaves some 550 bytes for a volume and its
/// attachment beside the process itself, the tables of the caches included.
#[test]
fn records_are_small_and_share_what_repeats() {
    assert!(size_of::<AttachmentRecord>() <= 72, "{}", size_of::<AttachmentRecord>());
    assert!(size_of::<VolumeRecord>() <= 56, "{}", size_of::<VolumeRecord>());
    assert!(size_of::<NodeRecord>() <= 24, "{}", size_of::<NodeRecord>());
    let (settings, interners) = (settings(), Arc::<Interners>::default());
    let volumes = VolumeProjection::new(&settings, &interners);
    let attachments = AttachmentProjection::new(&settings, &interners);
    let mut kept = Vec::new();
    for number in 0..1000 {
        let name = format!("pvc-0f3a1c5e-8b1d-4a57-9b0e-{number:012x}");
        let attributes = json!({ "spec": { "csi": { "volumeAttributes": { "made-by": "one process" } } } });
        let volume = serde_json::from_value(with(volume_named(&name, &name), attributes)).unwrap();
        let attachment = attached(attachment_of(&name, &name, &format!("node-{}", number % 10)), "id");
        let attachment = serde_json::from_value(attachment).unwrap();
        let key = volumes.key(&volume);
        kept.push((key, volumes.project(volume).unwrap(), attachments.project(attachment).unwrap()));
    }
    assert_eq!(interners.volume_shapes.len(), 1);
    assert_eq!(interners.attachment_shapes.len(), 10, "one for each node");
    assert_eq!(interners.attributes.len(), 1);
    assert_eq!(interners.finalizers.len(), 1, "of volumes and attachments");
    assert_eq!(interners.names.len(), 10 + 1, "nodes, node ids");
}

#[test]
fn interned_values_that_nobody_holds_are_dropped() {
    let interners = Interners::default();
    let held = interners.finalizers.intern(vec!["held".to_owned()]);
    for number in 0..1000 {
        interners.finalizers.intern(vec![number.to_string()]);
    }
    assert!(interners.finalizers.len() < 130, "{}", interners.finalizers.len());
    assert!(Arc::ptr_eq(&held, &interners.finalizers.intern(vec!["held".to_owned()])));
}

#[test]
fn objects_of_others_are_not_kept() {
    let (settings, interners) = (settings(), Arc::<Interners>::default());
    let attachments = AttachmentProjection::new(&settings, &interners);
    let foreign = with(attachment_of("a", "pv", "n"), json!({ "spec": { "attacher": "other" } }));
    assert!(attachments.project(serde_json::from_value(foreign).unwrap()).is_none());
    let volumes = VolumeProjection::new(&settings, &interners);
    let other = json!({ "metadata": { "finalizers": null }, "spec": { "csi": { "driver": "other" } } });
    let rows = [
        (other, false),
        (json!({ "spec": { "csi": { "driver": "other" } } }), true),
        (json!({ "metadata": { "finalizers": null }, "spec": { "csi": null, "nfs": {} } }), false),
        (json!({ "metadata": { "finalizers": null }, "spec": { "csi": null, "cinder": {} } }), false),
        (json!({}), true),
    ];
    assert_eq!(rows.len(), 5);
    for (change, kept) in rows {
        let volume = serde_json::from_value(with(volume_named("pv", "h"), change.clone())).unwrap();
        assert_eq!(volumes.project(volume).is_some(), kept, "{change}");
    }
}

#[test]
fn a_record_has_what_rules_read() {
    let object = json!({
        "metadata": { "uid": "u", "resourceVersion": "12", "finalizers": ["a"], "deletionTimestamp": "2026-01-01T00:00:00Z" },
        "status": { "attachError": { "message": "m" } },
    });
    let record = record(with(attachment_of("a", "pv", "n"), object));
    assert_eq!(
        (record.resource_version, record.node().as_str(), record.finalizers()),
        (12, "n", &["a".to_owned()][..])
    );
    assert!(record.deleting && !record.attached && record.attach_error && !record.detach_error);
    assert_eq!(record.volume().unwrap().to_string(), "pv");
    assert!(record.published_node().is_none());
}

/// What a first list skips unread must be nothing that would be kept.
#[test]
fn no_object_that_is_kept_is_skipped_in_a_first_list() {
    let interners = Arc::<Interners>::default();
    let volumes = VolumeProjection::new(&settings(), &interners);
    let migrating = Settings { in_tree: InTreePlugin::replaced_by("pd.csi.storage.gke.io"), ..settings() };
    let migrating = VolumeProjection::new(&migrating, &interners);
    let foreign = json!({ "spec": { "csi": { "driver": "another.example.com" } } });
    let in_tree = json!({ "metadata": { "name": "v" }, "spec": { "gcePersistentDisk": { "pdName": "x" } } });
    let rows = [
        (&volumes, volume_named("v", "h"), true, true),
        (&volumes, with(volume_named("v", "h"), foreign.clone()), true, true),
        (&volumes, json!({ "metadata": { "name": "v" }, "spec": foreign["spec"] }), false, false),
        (&volumes, in_tree.clone(), false, false),
        (&migrating, in_tree, true, true),
    ];
    for (projection, volume, kept, read) in rows {
        let json = volume.to_string();
        assert_eq!(projection.project(serde_json::from_value(volume).unwrap()).is_some(), kept, "{json}");
        assert_eq!(projection.may_concern(json.as_bytes()), read, "{json}");
    }
    let attachments = AttachmentProjection::new(&settings(), &interners);
    let attachment = attachment_of("a", "v", "n");
    assert!(attachments.may_concern(attachment.to_string().as_bytes()));
    let others = with(attachment, json!({ "spec": { "attacher": "another.example.com" } })).to_string();
    assert!(!attachments.may_concern(others.as_bytes()), "{others}");
}
