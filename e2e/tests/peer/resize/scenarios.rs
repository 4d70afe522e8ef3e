//! What is done to both resizers.

use e2e::resize_scene::{Fields, RESIZES_WITH_NODE};
use serde_json::{Value, json};

/// One driver and one resizer with their flags, and what they are asked for, all at once.
pub(super) struct Setup {
    pub(super) name: &'static str,
    /// The same on both sides, which then have their turns; none: each side has its own.
    pub(super) driver_name: Option<&'static str>,
    pub(super) driver: &'static [&'static str],
    pub(super) flags: &'static [&'static str],
    /// Whether upstream's optional rule for Secrets is bound.
    pub(super) secrets_allowed: bool,
    pub(super) scenarios: Vec<Scenario>,
}

/// One claim and its volume, named after the scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    pub(super) fields: Fields,
    /// Data of the Secret of the same name; none: there is none.
    pub(super) secret: Option<Value>,
    pub(super) course: Course,
    /// Calls of one RPC that it takes at most, when the driver answers all.
    pub(super) calls: u64,
}

/// What becomes of it. Every volume has 1 MiB at first, and is to have 2 MiB.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Course {
    /// It grows; where the driver says so, the node does its part.
    Grows,
    /// It grows, and grows again before the node has done its part.
    GrowsTwice,
    /// Told that it cannot be, in a condition.
    Refused,
    /// Told in an event that it did not succeed; nothing says that it cannot be.
    Uncertain,
    /// 8 MiB are refused, and the user asks for 2 MiB.
    Lowered,
    /// Not while a pod uses it.
    AfterPod,
    /// The driver says that it has another size.
    Has(&'static str),
    /// Meant for another driver.
    Foreign,
    /// Another class of attributes.
    Changes,
    /// A class of attributes that is not there; then the one before.
    ClassMissing,
    /// A class that the driver refuses; then the one before.
    ClassInfeasible,
}

/// Enough for a failed call to be repeated twice within a second.
const QUICK: &[&str] = &["--retry-interval-start=200ms"];
/// One try, and no second one while anybody looks.
const PATIENT: &[&str] = &["--retry-interval-start=2m", "--retry-interval-max=2m"];
/// More is refused.
const SMALL: &str = "--max-volume-size=4194304";

pub(super) fn setups() -> Vec<Setup> {
    let setup = |name, scenarios| Setup {
        name,
        driver_name: None,
        driver: &[],
        flags: QUICK,
        secrets_allowed: false,
        scenarios,
    };
    let fault = |name, course, driver| Setup { driver, ..setup(name, vec![of("volume", course)]) };
    let refused = |name, course, driver| Setup { flags: PATIENT, ..fault(name, course, driver) };
    vec![
        setup("plain", plain()),
        Setup { driver: &[RESIZES_WITH_NODE], ..setup("node", with_node()) },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,NODE_EXPAND_VOLUME"],
            ..setup("node-only", vec![grows("volume"), foreign("foreign")])
        },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,EXPAND_VOLUME,SINGLE_NODE_MULTI_WRITER"],
            ..setup("single-node", access_modes())
        },
        Setup { secrets_allowed: true, ..setup("secrets", secrets()) },
        Setup { flags: PATIENT, ..setup("forbidden", vec![Scenario { course: Course::Uncertain, ..secret("kept") }]) },
        Setup { driver_name: Some("cinder.csi.openstack.org"), ..setup("migrated", migrated()) },
        Setup { driver: &[SMALL], ..setup("recovers", vec![of("lowered", Course::Lowered)]) },
        refused(
            "invalid",
            Course::Refused,
            &["--fault=ControllerExpandVolume:code=INVALID_ARGUMENT,message=not like that"],
        ),
        refused("out-of-range", Course::Refused, &["--max-volume-size=1048576"]),
        refused("internal", Course::Refused, &["--fault=ControllerExpandVolume:code=INTERNAL,message=broken"]),
        refused("unavailable", Course::Uncertain, &["--fault=ControllerExpandVolume:code=UNAVAILABLE"]),
        fault("internal-twice", Course::Grows, &["--fault=ControllerExpandVolume:code=INTERNAL,times=2"]),
        fault("aborted-twice", Course::Grows, &["--fault=ControllerExpandVolume:code=ABORTED,times=2"]),
        fault(
            "in-use",
            Course::AfterPod,
            &["--fault=ControllerExpandVolume:code=FAILED_PRECONDITION,message=in use,times=1"],
        ),
        fault("more", Course::Has("3Mi"), &["--answered-size=3145728"]),
        refused("nothing", Course::Uncertain, &["--answered-size=0"]),
        setup("attributes", attributes()),
        Setup { flags: PATIENT, ..setup("refused-attributes", refused_attributes()) },
        Setup {
            driver: &[
                "--mutable-parameter=iops",
                "--mutable-parameter=throughput",
                "--mutable-parameter=csi.storage.k8s.io/pvc/name",
                "--mutable-parameter=csi.storage.k8s.io/pvc/namespace",
                "--mutable-parameter=csi.storage.k8s.io/pv/name",
            ],
            flags: &["--retry-interval-start=200ms", "--extra-modify-metadata"],
            ..setup("metadata", vec![of("changes", Course::Changes)])
        },
        Setup {
            driver: &["--fault=ControllerModifyVolume:code=ABORTED,times=2"],
            ..setup("modify-aborted", vec![of("changes", Course::Changes)])
        },
        Setup {
            driver: &["--fault=ControllerModifyVolume:code=INTERNAL,times=2"],
            ..setup("modify-internal", vec![of("changes", Course::Changes)])
        },
        Setup {
            flags: &["--retry-interval-start=200ms", "--feature-gates=VolumeAttributesClass=false"],
            ..setup("no-attributes", vec![grows("volume")])
        },
        Setup {
            flags: &["--retry-interval-start=200ms", "--feature-gates=RecoverVolumeExpansionFailure=false"],
            ..setup("legacy", vec![grows("volume")])
        },
        Setup {
            driver: &[RESIZES_WITH_NODE],
            flags: &["--retry-interval-start=200ms", "--feature-gates=RecoverVolumeExpansionFailure=false"],
            ..setup("legacy-node", vec![grows("volume")])
        },
    ]
}

fn plain() -> Vec<Scenario> {
    let mut scenarios = access_modes();
    scenarios.extend([
        grows("volume"),
        both("block", &json!({ "volumeMode": "Block" })),
        both("two-modes", &json!({ "accessModes": ["ReadWriteOnce", "ReadWriteMany"] })),
        volume("mount-options", &json!({ "mountOptions": ["ro", "soft"] })),
        with("fstype", Fields { source: json!({ "fsType": "xfs" }), ..Fields::default() }),
        with("annotated", Fields { annotations: json!({ "outrigger.dev/note": "kept" }), ..Fields::default() }),
        foreign("foreign"),
    ]);
    scenarios
}

fn access_modes() -> Vec<Scenario> {
    let modes = |name, modes: &[&str]| both(name, &json!({ "accessModes": modes }));
    vec![
        modes("one-node", &["ReadWriteOnce"]),
        modes("many-writers", &["ReadWriteMany"]),
        modes("many-readers", &["ReadOnlyMany"]),
        modes("one-pod", &["ReadWriteOncePod"]),
    ]
}

fn with_node() -> Vec<Scenario> {
    vec![
        grows("volume"),
        both("block", &json!({ "volumeMode": "Block" })),
        Scenario { calls: 2, ..of("twice", Course::GrowsTwice) },
    ]
}

fn secrets() -> Vec<Scenario> {
    vec![
        secret("secret"),
        Scenario { secret: Some(json!({})), ..secret("empty-secret") },
        Scenario { course: Course::Changes, ..secret("modify-secret") },
        Scenario {
            fields: Fields {
                volume_annotations: json!({ "volume.kubernetes.io/controller-modify-secret-name": "annotated-secret",
                    "volume.kubernetes.io/controller-modify-secret-namespace": "SITE" }),
                ..Fields::default()
            },
            course: Course::Changes,
            ..secret("annotated-secret")
        },
    ]
}

fn secret(name: &'static str) -> Scenario {
    let source = json!({ "controllerExpandSecretRef": { "name": name, "namespace": "SITE" } });
    let secret = Some(json!({ "password": "canary" }));
    Scenario { secret, ..with(name, Fields { source, ..Fields::default() }) }
}

fn migrated() -> Vec<Scenario> {
    let plugin = json!({ "csi": null, "cinder": { "volumeID": "HANDLE" } });
    let marked = |driver: &str| Fields {
        annotations: json!({ "volume.kubernetes.io/storage-resizer": driver }),
        volume: plugin.clone(),
        ..Fields::default()
    };
    vec![
        with("plugin", marked("cinder.csi.openstack.org")),
        grows("csi"),
        Scenario { course: Course::Foreign, ..with("still-the-plugins", marked("kubernetes.io/cinder")) },
    ]
}

fn attributes() -> Vec<Scenario> {
    vec![
        of("changes", Course::Changes),
        // Size and class at once are not compared: the two controllers of the Go resizer get into each other's way, and its
        // claim may wait for its resync.
        both("from-another", &json!({ "volumeAttributesClassName": "silver.SITE" })).changes(),
        foreign("foreign"),
    ]
}

fn refused_attributes() -> Vec<Scenario> {
    let from_silver =
        |name, course| Scenario { course, ..both(name, &json!({ "volumeAttributesClassName": "silver.SITE" })) };
    vec![from_silver("missing", Course::ClassMissing), from_silver("infeasible", Course::ClassInfeasible)]
}

impl Scenario {
    fn changes(self) -> Self {
        Self { course: Course::Changes, ..self }
    }
}

fn foreign(name: &'static str) -> Scenario {
    let source = json!({ "driver": "other.outrigger.dev" });
    Scenario { course: Course::Foreign, ..with(name, Fields { source, ..Fields::default() }) }
}

fn grows(name: &'static str) -> Scenario {
    of(name, Course::Grows)
}

fn of(name: &'static str, course: Course) -> Scenario {
    Scenario { name, fields: Fields::default(), secret: None, course, calls: 1 }
}

fn with(name: &'static str, fields: Fields) -> Scenario {
    Scenario { fields, ..grows(name) }
}

fn both(name: &'static str, fields: &Value) -> Scenario {
    with(name, Fields { both: fields.clone(), ..Fields::default() })
}

fn volume(name: &'static str, fields: &Value) -> Scenario {
    with(name, Fields { volume: fields.clone(), ..Fields::default() })
}
