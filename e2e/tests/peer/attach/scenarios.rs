//! What is done to both attachers.

use e2e::attach_scene::ATTACHES;
use serde_json::{Value, json};

/// One driver and one attacher with their flags, and what they are asked for, all at once.
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) driver: &'static [&'static str],
    pub(super) flags: &'static [&'static str],
    /// Whether upstream's optional rule for Secrets is bound.
    pub(super) secrets_allowed: bool,
    pub(super) scenarios: Vec<Scenario>,
}

/// One volume, one node and one attachment, all named after the scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Fields of the volume's spec.
    pub(super) volume: Value,
    /// Fields of its CSI source; `SITE` stands for the name of the namespace.
    pub(super) source: Value,
    /// Data of the Secret of the same name; none: there is none.
    pub(super) secret: Option<Value>,
    pub(super) course: Course,
    /// Calls of one RPC that it takes at most, when the driver answers all.
    pub(super) calls: u64,
}

/// What becomes of it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// Attached, detached, and the volume object is deleted.
    Whole,
    /// The same with the volume's spec in the attachment.
    Inline,
    /// An error, and the attachment is deleted.
    Refused,
    /// An error until what is missing is there.
    Cured(Missing),
    /// The node comes a second after the attachment.
    NodeLate,
    /// Meant for another attacher.
    Foreign,
    /// The volume object is being deleted when the attachment comes.
    VolumeDeleting,
    /// The volume object is deleted while it is attached.
    VolumeFirst,
    /// The CSINode is gone when it is detached.
    NodeGone,
    /// The CSINode has another node id when it is detached.
    NodeReturned,
    /// All finalizers are taken off the attachment by hand.
    Forced,
    /// Two nodes; the volume object is deleted while both have it.
    TwoNodes,
    /// The attachment has a finalizer and an annotation of somebody else.
    ForeignFinalizer,
    /// The backend loses the publication, and the attacher repairs it.
    Lost,
    /// The backend loses the publication, and nothing happens; then detached.
    LostUnseen,
}

impl Course {
    /// Whether something changes while it is attached that an attach looks at or undoes.
    pub(super) fn disturbs(self) -> bool {
        matches!(
            self,
            Self::VolumeFirst
                | Self::NodeGone
                | Self::NodeReturned
                | Self::Forced
                | Self::TwoNodes
                | Self::Lost
                | Self::LostUnseen
        )
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Missing {
    Volume,
    Node,
    /// The node is there, the driver on it is not.
    DriverOnNode,
    Secret,
}

/// Enough for a failed call to be repeated twice within a second.
const QUICK: &str = "--retry-interval-start=200ms";
/// One try before what is missing is there.
const PATIENT: &[&str] = &["--retry-interval-start=4s"];
const LISTS: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,PUBLISH_READONLY,\
    LIST_VOLUMES,LIST_VOLUMES_PUBLISHED_NODES";

pub(super) fn setups() -> Vec<Setup> {
    let setup =
        |name, scenarios| Setup { name, driver: &[ATTACHES], flags: &[QUICK], secrets_allowed: false, scenarios };
    let lost = Scenario { calls: 2, ..course("lost", Course::Lost) };
    let fault = |name, driver| Setup { driver, ..setup(name, vec![whole("volume")]) };
    vec![
        setup("plain", plain()),
        setup("courses", courses()),
        Setup { flags: PATIENT, secrets_allowed: true, ..setup("refused", refused()) },
        Setup { secrets_allowed: true, ..setup("secrets", secrets()) },
        Setup { flags: PATIENT, ..setup("forbidden", vec![forbidden_secret()]) },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME"],
            ..setup(
                "trivial",
                vec![whole("volume"), course("inline", Course::Inline), course("foreign", Course::Foreign)],
            )
        },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME"],
            flags: &[QUICK, "--default-fstype=ext4"],
            ..setup("flags", with_flags())
        },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,\
                SINGLE_NODE_MULTI_WRITER"],
            ..setup("single-node", access_modes())
        },
        Setup {
            driver: &[LISTS],
            flags: &[QUICK, "--reconcile-sync=300ms", "--max-entries=1"],
            ..setup("listing", vec![lost, whole("volume"), whole("another")])
        },
        setup("not-listing", vec![course("lost", Course::LostUnseen)]),
        fault(
            "publish-exhausted",
            &["--fault=ControllerPublishVolume:code=RESOURCE_EXHAUSTED,message=no room,times=2"],
        ),
        fault("publish-internal", &["--fault=ControllerPublishVolume:code=INTERNAL,times=2"]),
        fault("publish-uncertain", &["--fault=ControllerPublishVolume:after=DEADLINE_EXCEEDED,times=2"]),
        Setup {
            flags: &[QUICK, "--timeout=500ms"],
            driver: &[ATTACHES, "--fault=ControllerPublishVolume:answer-delay=1s,times=1"],
            ..setup("publish-slow", vec![Scenario { calls: 2, ..whole("volume") }])
        },
        fault("unpublish-internal", &["--fault=ControllerUnpublishVolume:code=INTERNAL,message=busy,times=2"]),
        fault("unpublish-not-found", &["--fault=ControllerUnpublishVolume:code=NOT_FOUND,times=2"]),
    ]
}

fn plain() -> Vec<Scenario> {
    let mut scenarios = access_modes();
    scenarios.extend([
        whole("volume"),
        source("readonly", &json!({ "readOnly": true })),
        source("fstype", &json!({ "fsType": "xfs" })),
        source("attributes", &json!({ "volumeAttributes": { "tier": "fast", "storage.kubernetes.io/x": "y" } })),
        volume("mount-options", &json!({ "mountOptions": ["ro", "soft"] })),
        volume("block", &json!({ "volumeMode": "Block" })),
        volume("two-modes", &json!({ "accessModes": ["ReadWriteOnce", "ReadWriteMany"] })),
        course("inline", Course::Inline),
        Scenario { source: json!({ "readOnly": true, "fsType": "xfs" }), ..course("inline-readonly", Course::Inline) },
    ]);
    scenarios
}

fn access_modes() -> Vec<Scenario> {
    let modes = |name, modes: &[&str]| volume(name, &json!({ "accessModes": modes }));
    vec![
        modes("one-node", &["ReadWriteOnce"]),
        modes("many-writers", &["ReadWriteMany"]),
        modes("many-readers", &["ReadOnlyMany"]),
        modes("one-pod", &["ReadWriteOncePod"]),
    ]
}

fn courses() -> Vec<Scenario> {
    vec![
        course("foreign", Course::Foreign),
        course("volume-first", Course::VolumeFirst),
        course("node-gone", Course::NodeGone),
        Scenario { calls: 2, ..course("node-returned", Course::NodeReturned) },
        course("forced", Course::Forced),
        Scenario {
            volume: json!({ "accessModes": ["ReadWriteMany"] }),
            calls: 2,
            ..course("two-nodes", Course::TwoNodes)
        },
        course("foreign-finalizer", Course::ForeignFinalizer),
    ]
}

fn refused() -> Vec<Scenario> {
    let modes = json!({ "accessModes": ["ReadWriteOnce", "ReadOnlyMany"] });
    let nfs = json!({ "csi": null, "nfs": { "server": "s", "path": "/" } });
    let secret = json!({ "controllerPublishSecretRef": { "name": "no-secret", "namespace": "SITE" } });
    vec![
        Scenario { volume: modes, ..course("no-such-mode", Course::Refused) },
        Scenario { volume: nfs, ..course("other-source", Course::Refused) },
        course("volume-deleting", Course::VolumeDeleting),
        course("no-volume", Course::Cured(Missing::Volume)),
        course("no-node", Course::Cured(Missing::Node)),
        course("no-driver", Course::Cured(Missing::DriverOnNode)),
        course("node-late", Course::NodeLate),
        Scenario { source: secret, ..course("no-secret", Course::Cured(Missing::Secret)) },
    ]
}

fn secrets() -> Vec<Scenario> {
    let with = |name: &'static str, data, course| Scenario {
        source: json!({ "controllerPublishSecretRef": { "name": name, "namespace": "SITE" } }),
        secret: Some(data),
        ..self::course(name, course)
    };
    vec![
        with("secret", json!({ "password": "canary" }), Course::Whole),
        with("empty-secret", json!({}), Course::Whole),
        with("inline-secret", json!({ "password": "canary" }), Course::Inline),
        with("node-gone", json!({ "password": "canary" }), Course::NodeGone),
    ]
}

fn forbidden_secret() -> Scenario {
    Scenario {
        source: json!({ "controllerPublishSecretRef": { "name": "kept", "namespace": "SITE" } }),
        secret: Some(json!({ "password": "canary" })),
        ..course("kept", Course::Refused)
    }
}

fn with_flags() -> Vec<Scenario> {
    vec![
        whole("default-fstype"),
        source("own-fstype", &json!({ "fsType": "xfs" })),
        // The driver has not said that it can.
        source("readonly", &json!({ "readOnly": true })),
        volume("block", &json!({ "volumeMode": "Block" })),
    ]
}

fn whole(name: &'static str) -> Scenario {
    course(name, Course::Whole)
}

fn course(name: &'static str, course: Course) -> Scenario {
    Scenario { name, volume: json!({}), source: json!({}), secret: None, course, calls: 1 }
}

fn volume(name: &'static str, fields: &Value) -> Scenario {
    Scenario { volume: fields.clone(), ..whole(name) }
}

fn source(name: &'static str, fields: &Value) -> Scenario {
    Scenario { source: fields.clone(), ..whole(name) }
}
