//! The CSI conformance suite against the project's own driver: everything it advertises passes, and each test that does
//! not run is named here with the reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

use std::{collections::BTreeSet, fs, process::Stdio, time::Duration};

use e2e::{
    Driver, Program,
    programs::{self, CSI_SANITY},
};
use serde_json::Value;
use tokio::process::Command;

const TO_FINISH: Duration = Duration::from_mins(3);

/// Set for a run in a mount namespace of its own.
const INSIDE: &str = "CSI_SANITY_MOUNTS";

/// All that the driver can advertise. Its default is less, which is a run of its own.
const EVERYTHING: &str = "CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,GET_CAPACITY,\
    SINGLE_NODE_MULTI_WRITER,PUBLISH_UNPUBLISH_VOLUME,PUBLISH_READONLY,LIST_VOLUMES_PUBLISHED_NODES,\
    STAGE_UNSTAGE_VOLUME,GET_VOLUME_STATS,CREATE_DELETE_SNAPSHOT,LIST_SNAPSHOTS,GET_SNAPSHOT,CLONE_VOLUME,MODIFY_VOLUME,\
    VOLUME_ACCESSIBILITY_CONSTRAINTS,EXPAND_VOLUME,NODE_EXPAND_VOLUME";

/// Mutable parameters for the suite, which tries others that no driver has by itself.
const MUTABLE_PARAMETERS: &str = "iops: \"100\"\nthroughput: \"7\"\n";

/// Tests that mount, by name. They need root; the suite runs them whatever is advertised.
const MOUNTING: &[&str] = &[
    "Node Service NodeUnpublishVolume should remove target path",
    "Node Service should work",
    "Node Service should be idempotent",
];

/// Parts of the suite that run only with a capability that the default lacks, and how many tests each has.
const COPIES_AND_CHANGES: &[(&str, usize)] = &[
    ("CreateSnapshot [Controller Server]", 5),
    ("DeleteSnapshot [Controller Server]", 3),
    ("ListSnapshots [Controller Server]", 7),
    ("GetSnapshot [Controller Server]", 3),
    ("ModifyVolume [Controller Server]", 6),
    ("existing source snapshot", 1),
    ("source snapshot is not found", 1),
    ("existing source volume", 1),
    ("source volume is not found", 1),
    ("volume attribute class", 5),
];

/// Those that mount when the capabilities they are about are advertised.
const MOUNTING_WITH_EVERYTHING: &[&str] = &[
    "Node Service NodePublishVolume with single node multi writer capability should fail when volume with single node \
     single writer access mode is already mounted at a different target path",
    "Node Service NodeGetVolumeStats should fail when volume does not exist on the specified path",
];

/// Reasons the suite itself gives for leaving tests out: capabilities that the driver does not advertise.
const NOT_ADVERTISED: &[&str] = &[
    "ControllerGetVolumeHealth not supported",
    "ControllerListVolumeHealth not supported",
    "GroupControllerService not supported",
    "NodeGetStorageHealth not supported",
    "NodeGetVolumeHealth not supported",
    "SNAPSHOT_ACCESSIBILITY_CONSTRAINTS not supported",
];

/// Also left out when the driver advertises only its default.
const NOT_BY_DEFAULT: &[&str] = &[
    "ControllerExpandVolume not supported",
    "ControllerModifyVolume not supported",
    "NodeExpandVolume not supported",
    "ControllerPublishVolume not supported",
    "Controller Publish, UnpublishVolume not supported",
    "ControllerUnpublishVolume not supported",
    "CreateSnapshot not supported",
    "DeleteSnapshot not supported",
    "GetCapacity not supported",
    "GetSnapshot not supported",
    "ListSnapshots not supported",
    "Modify Volume not supported",
    "Modify volume not supported",
    // That of the volume's statistics.
    "NodeGetVolume not supported",
    "NodeStageVolume not supported",
    "NodeUnstageVolume not supported",
    "Snapshot not supported",
    "Volume Cloning not supported",
    "Service does not have single node multi writer capability",
];

/// A test of the suite and what became of it.
#[derive(Debug)]
struct Spec {
    name: String,
    state: String,
    reason: String,
}

#[tokio::test]
async fn everything_the_driver_can_advertise_passes() {
    let Some(mounts) = mounts("everything_the_driver_can_advertise_passes").await else { return };
    // A node that is not known is one test, a node with too many volumes another.
    let flags = ["--capabilities", EVERYTHING, "--known-node=other", "--max-volumes-per-node=4", "--topology=node=a"];
    let specs = run(&flags, mounts).await;
    let left_out = NOT_ADVERTISED.iter().copied().collect();
    check(&specs, &left_out, mounts);
    for service in [
        "CreateVolume",
        "DeleteVolume",
        "ListVolumes",
        "ValidateVolumeCapabilities",
        "GetCapacity",
        "ControllerPublishVolume",
        "ControllerUnpublishVolume",
        "NodeStageVolume",
        "NodeUnstageVolume",
        "NodePublishVolume",
        "NodeUnpublishVolume",
        "NodeGetVolumeStats",
        "ExpandVolume [Controller Server]",
        "NodeExpandVolume",
    ] {
        assert!(passed(&specs, service) > 0, "nothing of {service} was tested");
    }
    for (what, tests) in COPIES_AND_CHANGES {
        assert_eq!(passed(&specs, what), *tests, "{what}");
    }
    for name in MOUNTING.iter().chain(MOUNTING_WITH_EVERYTHING) {
        assert_eq!(passed(&specs, name), usize::from(mounts), "{name}");
    }
}

#[tokio::test]
async fn the_default_capabilities_pass() {
    let Some(mounts) = mounts("the_default_capabilities_pass").await else { return };
    let left_out = NOT_ADVERTISED.iter().chain(NOT_BY_DEFAULT).copied().collect();
    check(&run(&[], mounts).await, &left_out, mounts);
}

fn passed(specs: &[Spec], name: &str) -> usize {
    specs.iter().filter(|spec| spec.state == "passed" && spec.name.contains(name)).count()
}

/// No failure, and no test left out without a reason that is listed.
fn check(specs: &[Spec], left_out: &BTreeSet<&str>, mounts: bool) {
    assert!(!specs.is_empty());
    let by_name = |name: &str| !mounts && mounting().any(|one| one == name);
    for spec in specs {
        match spec.state.as_str() {
            // Pending tests are switched off in the suite itself.
            "passed" | "pending" => {}
            "skipped" => assert!(
                left_out.contains(spec.reason.as_str()) || by_name(&spec.name),
                "left out without a listed reason: {spec:?}"
            ),
            _ => panic!("{spec:?}"),
        }
    }
    for name in mounting() {
        assert!(specs.iter().any(|spec| spec.name == name), "the suite has no test {name:?} any more");
    }
}

fn mounting() -> impl Iterator<Item = &'static str> {
    MOUNTING.iter().chain(MOUNTING_WITH_EVERYTHING).copied()
}

/// Whether the calling test is to mount; None when that was done, in a run of the test in a mount namespace of its
/// own. Without the right to make one, the tests that mount are left out.
async fn mounts(test: &str) -> Option<bool> {
    if std::env::var_os(INSIDE).is_some() {
        return Some(true);
    }
    let unshare = || {
        let mut command = Command::new("unshare");
        command.args(["--mount", "--propagation", "private"]).stdin(Stdio::null()).kill_on_drop(true);
        command
    };
    // A user namespace would do for unshare, not for the driver's mounts.
    let root = rustix::process::geteuid().is_root();
    if !root || !unshare().arg("true").output().await.is_ok_and(|output| output.status.success()) {
        println!("tests that mount are left out: they need root and a mount namespace of their own");
        return Some(false);
    }
    let program = std::env::current_exe().unwrap();
    let run = unshare().arg(program).args(["--exact", test, "--nocapture"]).env(INSIDE, "1").output().await.unwrap();
    let text = |bytes: &[u8]| String::from_utf8_lossy(bytes).into_owned();
    let (out, log) = (text(&run.stdout), text(&run.stderr));
    assert!(run.status.success(), "{out}{log}");
    assert!(out.contains("test result: ok. 1 passed"), "no test is named {test}: {out}");
    None
}

async fn run(flags: &[&str], mounts: bool) -> Vec<Spec> {
    let driver = Driver::start("sanity.outrigger.dev", flags).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let skips = mounting().filter(|_| !mounts);
    let skips = skips.map(|name| format!("--ginkgo.skip=^CSI Driver Test Suite {name}$|^{name}$"));
    let program = Program::new("csi-sanity", programs::ensured(&CSI_SANITY).await.unwrap(), directory.path())
        .argument(format!("--csi.endpoint={}", driver.address()))
        .argument(format!("--csi.mountdir={}", path("mount")))
        .argument(format!("--csi.stagingdir={}", path("staging")))
        .argument(format!("--ginkgo.json-report={}", path("report.json")))
        .argument(format!("--csi.testvolumemutableparameters={}", path("mutable.yaml")))
        .argument("--csi.testnodevolumeattachlimit")
        .arguments(["--ginkgo.no-color"])
        .arguments(skips);
    fs::write(directory.path().join("mutable.yaml"), MUTABLE_PARAMETERS).unwrap();
    let mut suite = program.start().unwrap();
    let code = suite.ended(TO_FINISH).await.unwrap();
    let report = fs::read(path("report.json")).unwrap_or_else(|error| panic!("no report: {error}; {}", suite.tail()));
    let report: Value = serde_json::from_slice(&report).unwrap();
    let specs: Vec<_> = report[0]["SpecReports"].as_array().unwrap().iter().map(spec).collect();
    let failed: Vec<_> = specs.iter().filter(|spec| spec.state == "failed").collect();
    assert!(code == 0 && failed.is_empty(), "exit code {code}: {failed:#?}; {}", suite.tail());
    specs
}

fn spec(report: &Value) -> Spec {
    let containers = report["ContainerHierarchyTexts"].as_array().into_iter().flatten();
    let words = containers.chain([&report["LeafNodeText"]]).filter_map(Value::as_str);
    Spec {
        name: words.collect::<Vec<_>>().join(" "),
        state: report["State"].as_str().unwrap().to_owned(),
        reason: report["Failure"]["Message"].as_str().unwrap_or_default().to_owned(),
    }
}
