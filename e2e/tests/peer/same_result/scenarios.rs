//! What is done to both provisioners. In every text `SITE` stands for the name of the namespace.

mod attributes;
mod migration;
mod places;
mod sources;

use e2e::OptionalRule;
use serde_json::{Value, json};

/// One driver and one provisioner with their flags, and what they are asked for, all at once.
pub(super) struct Setup {
    pub(super) name: &'static str,
    pub(super) driver: &'static [&'static str],
    /// The same on both sides, which then have their turns; none: each side has its own.
    pub(super) driver_name: Option<&'static str>,
    pub(super) flags: &'static [&'static str],
    /// Whether upstream's optional rule for Secrets is bound.
    pub(super) secrets_allowed: bool,
    /// Further rules that upstream's file does not have.
    pub(super) rules: &'static [OptionalRule],
    /// Of any kind, there before the provisioner starts.
    pub(super) objects: Vec<Value>,
    /// There before the claims of the scenarios.
    pub(super) sources: Vec<Source>,
    pub(super) scenarios: Vec<Scenario>,
}

/// A claim with a volume that others are made of, and the snapshot of it.
pub(super) struct Source {
    pub(super) name: &'static str,
    /// Fields of the claim's spec.
    pub(super) claim: Value,
    pub(super) snapshot: Option<&'static str>,
    /// Whether the snapshot says that it is ready.
    pub(super) ready: bool,
    /// Whether both are in namespace `SITE-elsewhere`.
    pub(super) elsewhere: bool,
}

/// One class and one claim, both named after the scenario.
pub(super) struct Scenario {
    pub(super) name: &'static str,
    /// Fields of the class; none: there is no class.
    pub(super) class: Option<Value>,
    pub(super) annotations: Value,
    /// Fields of the claim's spec.
    pub(super) claim: Value,
    /// Names of Secrets to make, which no other scenario of the setup reads.
    pub(super) secrets: &'static [&'static str],
    /// Annotations the claim gets when it waits.
    pub(super) later: Option<Value>,
    /// Annotations it gets when its selected node was taken away.
    pub(super) moved: Option<Value>,
    pub(super) course: Course,
}

/// What becomes of it.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Course {
    /// It is Bound; with the claim goes the volume.
    Deleted,
    /// The same, but the class is deleted first.
    DeletedAfterClass,
    /// The volume object is deleted while it is Bound, then the claim.
    DeletedBeforeClaim,
    /// It is Bound; the volume outlives the claim.
    Kept,
    /// It counts as failed; the claim is deleted.
    Refused,
}

/// Enough for a failed call to be repeated twice within a second.
const QUICK: &str = "--retry-interval-start=200ms";
/// One try, unless something happens to the claim.
const ONCE: &[&str] = &["--retry-interval-start=1h", "--retry-interval-max=2h"];

pub(super) fn setups() -> Vec<Setup> {
    let fault = |name, driver| Setup { driver, ..setup(name, vec![bound("claim")]) };
    let mut setups = vec![
        setup("plain", plain()),
        Setup { secrets_allowed: true, ..setup("secrets", secrets()) },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,SINGLE_NODE_MULTI_WRITER"],
            flags: &[
                QUICK,
                "--extra-create-metadata",
                "--controller-publish-readonly",
                "--default-fstype=xfs",
                "--volume-name-prefix=disk",
                "--volume-name-uuid-length=12",
            ],
            ..setup("flags", with_flags())
        },
        fault("slow", &["--fault=CreateVolume:delay=1500ms,times=1"]),
        Setup { flags: ONCE, secrets_allowed: true, ..setup("refused", refused()) },
        Setup { flags: ONCE, ..setup("forbidden", vec![forbidden_secret()]) },
        Setup {
            driver: &["--capabilities=CONTROLLER_SERVICE"],
            flags: ONCE,
            ..setup("incapable", vec![Scenario { course: Course::Refused, ..bound("claim") }])
        },
        fault("final-error", &["--fault=CreateVolume:code=INTERNAL,times=2"]),
        fault("exhausted", &["--fault=CreateVolume:code=RESOURCE_EXHAUSTED,message=no room,times=2"]),
        fault("uncertain", &["--fault=CreateVolume:after=DEADLINE_EXCEEDED,times=2"]),
        fault("aborted", &["--fault=CreateVolume:code=ABORTED,times=2"]),
        Setup {
            driver: &["--fault=CreateVolume:code=INVALID_ARGUMENT,message=no such tier,times=1"],
            ..setup("infeasible", vec![Scenario { course: Course::Refused, ..bound("claim") }])
        },
        fault("undeletable", &["--fault=DeleteVolume:code=INTERNAL,times=2"]),
    ];
    setups.extend(places::setups());
    setups.extend(sources::setups());
    setups.extend(attributes::setups());
    setups.extend(migration::setups());
    setups
}

fn setup(name: &'static str, scenarios: Vec<Scenario>) -> Setup {
    Setup {
        name,
        driver: &[],
        driver_name: None,
        flags: &[QUICK],
        secrets_allowed: false,
        rules: &[],
        objects: Vec::new(),
        sources: Vec::new(),
        scenarios,
    }
}

fn plain() -> Vec<Scenario> {
    let modes = |name, modes: &[&str]| Scenario { claim: json!({ "accessModes": modes }), ..bound(name) };
    let sized = |name, size: &str| Scenario {
        claim: json!({ "resources": { "requests": { "storage": size } } }),
        ..bound(name)
    };
    let selected = json!({ "volume.kubernetes.io/selected-node": "node-1" });
    vec![
        bound("delete"),
        Scenario { class: Some(json!({ "reclaimPolicy": "Retain" })), course: Course::Kept, ..bound("retain") },
        Scenario { course: Course::DeletedAfterClass, ..bound("class-first") },
        Scenario { course: Course::DeletedBeforeClaim, ..bound("volume-first") },
        Scenario { claim: json!({ "volumeMode": "Block" }), ..bound("block") },
        Scenario {
            class: Some(json!({ "volumeBindingMode": "WaitForFirstConsumer" })),
            later: Some(selected),
            ..bound("first-consumer")
        },
        Scenario {
            class: Some(json!({
                "mountOptions": ["ro", "soft"],
                "parameters": { "csi.storage.k8s.io/fstype": "ext4", "tier": "fast" },
            })),
            ..bound("mount-options")
        },
        parameters("old-fstype", &json!({ "FSType": "xfs", "other": "" })),
        modes("many-writers", &["ReadWriteMany"]),
        modes("many-readers", &["ReadOnlyMany"]),
        modes("two-modes", &["ReadWriteOnce", "ReadOnlyMany"]),
        modes("one-pod", &["ReadWriteOncePod"]),
        sized("odd-bytes", "1500001"),
        sized("half-bytes", "1000000500m"),
        sized("decimal-suffix", "3M"),
        sized("gibibytes", "1.5Gi"),
        Scenario {
            class: Some(json!({ "allowVolumeExpansion": true, "parameters": { "tier": "slow" } })),
            annotations: json!({ "team": "blue" }),
            ..bound("annotated")
        },
    ]
}

fn secrets() -> Vec<Scenario> {
    let kinds = |suffix: &str| {
        let names =
            ["provisioner", "controller-publish", "node-stage", "node-publish", "controller-expand", "node-expand"];
        let name = |kind: &str| format!("csi.storage.k8s.io/{kind}-secret-{suffix}");
        names.map(name)
    };
    let mut all = json!({ "tier": "fast" });
    for (name, namespace) in kinds("name").iter().zip(kinds("namespace").iter()) {
        all[name] = json!("all-kinds");
        all[namespace] = json!("SITE");
    }
    let pair = |name: &str, value: &str, namespace: &str| json!({ format!("csi.storage.k8s.io/{name}-name"): value, format!("csi.storage.k8s.io/{name}-namespace"): namespace });
    vec![
        Scenario { secrets: &["all-kinds"], ..parameters("all-kinds", &all) },
        Scenario {
            annotations: json!({ "team": "blue" }),
            secrets: &["blue-templates"],
            ..parameters(
                "templates",
                &pair("provisioner-secret", "${pvc.annotations['team']}-${pvc.name}", "${pvc.namespace}"),
            )
        },
        Scenario {
            secrets: &["default-secret"],
            ..parameters("default-secret", &pair("secret", "${pvc.name}", "${pvc.namespace}"))
        },
        Scenario {
            secrets: &["old-keys"],
            ..parameters(
                "old-keys",
                &json!({ "csiProvisionerSecretName": "old-keys", "csiProvisionerSecretNamespace": "SITE",
                    "csiNodeStageSecretName": "old-keys", "csiNodeStageSecretNamespace": "SITE" }),
            )
        },
        parameters("node-only", &pair("node-stage-secret", "no-such-secret", "${pvc.namespace}")),
        Scenario {
            secrets: &["kept-secret"],
            course: Course::DeletedAfterClass,
            ..parameters("class-first", &pair("provisioner-secret", "kept-secret", "${pvc.namespace}"))
        },
    ]
}

fn with_flags() -> Vec<Scenario> {
    let modes = |name, modes: &[&str]| Scenario { claim: json!({ "accessModes": modes }), ..bound(name) };
    vec![
        parameters("metadata", &json!({ "tier": "fast" })),
        modes("one-node", &["ReadWriteOnce"]),
        modes("one-pod", &["ReadWriteOncePod"]),
        modes("many-readers", &["ReadOnlyMany"]),
        modes("readers-and-writers", &["ReadOnlyMany", "ReadWriteMany"]),
        parameters("own-fstype", &json!({ "csi.storage.k8s.io/fstype": "btrfs" })),
        Scenario { claim: json!({ "volumeMode": "Block", "accessModes": ["ReadWriteMany"] }), ..bound("shared-block") },
    ]
}

fn refused() -> Vec<Scenario> {
    let refused = |scenario| Scenario { course: Course::Refused, ..scenario };
    let parameter = |name, key: &str| refused(parameters(name, &json!({ key: "x" })));
    vec![
        Scenario {
            class: None,
            annotations: json!({ "volume.kubernetes.io/storage-provisioner": "SITE.outrigger.dev" }),
            ..refused(bound("no-class"))
        },
        refused(parameters(
            "no-secret",
            &json!({ "csi.storage.k8s.io/provisioner-secret-name": "none",
                "csi.storage.k8s.io/provisioner-secret-namespace": "SITE" }),
        )),
        Scenario { claim: json!({ "selector": { "matchLabels": { "a": "b" } } }), ..refused(bound("selector")) },
        Scenario { claim: json!({ "selector": {} }), ..refused(bound("empty-selector")) },
        parameter("unknown-parameter", "csi.storage.k8s.io/unknown"),
        refused(parameters("two-fstypes", &json!({ "fstype": "ext4", "csi.storage.k8s.io/fstype": "xfs" }))),
        parameter("half-a-secret", "csi.storage.k8s.io/provisioner-secret-name"),
        refused(parameters(
            "no-such-annotation",
            &json!({ "csi.storage.k8s.io/provisioner-secret-name": "${pvc.annotations['none']}",
                "csi.storage.k8s.io/provisioner-secret-namespace": "SITE" }),
        )),
        Scenario {
            claim: json!({ "dataSourceRef": { "apiGroup": "example.com", "kind": "Box", "name": "box" } }),
            ..refused(bound("populated"))
        },
    ]
}

fn forbidden_secret() -> Scenario {
    let secret = json!({ "csi.storage.k8s.io/secret-name": "kept", "csi.storage.k8s.io/secret-namespace": "SITE" });
    Scenario { secrets: &["kept"], course: Course::Refused, ..parameters("forbidden-secret", &secret) }
}

fn bound(name: &'static str) -> Scenario {
    Scenario {
        name,
        class: Some(json!({})),
        annotations: json!({}),
        claim: json!({}),
        secrets: &[],
        later: None,
        moved: None,
        course: Course::Deleted,
    }
}

fn parameters(name: &'static str, parameters: &Value) -> Scenario {
    Scenario { class: Some(json!({ "parameters": parameters })), ..bound(name) }
}
