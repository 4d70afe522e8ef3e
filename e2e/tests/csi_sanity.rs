//! The CSI conformance suite against the project's own driver: everything it advertises passes, and each test that does
//! not run is named here with the reason.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::{collections::BTreeSet, fs, time::Duration};

use e2e::{
    Driver, Program,
    programs::{self, CSI_SANITY},
};
use serde_json::Value;

const TO_FINISH: Duration = Duration::from_mins(3);

/// What the driver may advertise and is then tested for. Its default is less, which is a run of its own.
const EVERYTHING: &str =
    "CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,LIST_VOLUMES,GET_VOLUME,GET_CAPACITY,SINGLE_NODE_MULTI_WRITER";

/// Tests of volumes on a node, which the driver does not mount yet. The suite runs them whatever is advertised.
const NO_MOUNTS: &[&str] = &[
    "Node Service NodeUnpublishVolume should remove target path",
    "Node Service should work",
    "Node Service should be idempotent",
];

/// Reasons the suite itself gives for leaving tests out: capabilities that the driver does not advertise.
const NOT_ADVERTISED: &[&str] = &[
    "ControllerExpandVolume not supported",
    "ControllerGetVolumeHealth not supported",
    "ControllerListVolumeHealth not supported",
    "ControllerModifyVolume not supported",
    "ControllerPublishVolume not supported",
    "Controller Publish, UnpublishVolume not supported",
    "ControllerUnpublishVolume not supported",
    "CreateSnapshot not supported",
    "DeleteSnapshot not supported",
    "GetSnapshot not supported",
    "GroupControllerService not supported",
    "ListSnapshots not supported",
    "Modify Volume not supported",
    "Modify volume not supported",
    "NodeExpandVolume not supported",
    "NodeGetStorageHealth not supported",
    "NodeGetVolumeHealth not supported",
    "NodeGetVolume not supported",
    "NodeStageVolume not supported",
    "NodeUnstageVolume not supported",
    "Service does not have single node multi writer capability",
    "Snapshot not supported",
    "Volume Cloning not supported",
];

/// Also left out when the driver advertises only its default.
const NOT_BY_DEFAULT: &[&str] = &["GetCapacity not supported"];

/// A test of the suite and what became of it.
#[derive(Debug)]
struct Spec {
    name: String,
    state: String,
    reason: String,
}

#[tokio::test]
async fn everything_the_driver_can_advertise_passes() {
    let specs = run(&["--capabilities", EVERYTHING]).await;
    let left_out = NOT_ADVERTISED.iter().copied().collect();
    check(&specs, &left_out);
    for service in ["CreateVolume", "DeleteVolume", "ListVolumes", "ValidateVolumeCapabilities", "GetCapacity"] {
        let passed = specs.iter().filter(|s| s.state == "passed" && s.name.contains(service)).count();
        assert!(passed > 0, "nothing of {service} was tested");
    }
}

#[tokio::test]
async fn the_default_capabilities_pass() {
    let left_out = NOT_ADVERTISED.iter().chain(NOT_BY_DEFAULT).copied().collect();
    check(&run(&[]).await, &left_out);
}

/// No failure, and no test left out without a reason that is listed.
fn check(specs: &[Spec], left_out: &BTreeSet<&str>) {
    assert!(!specs.is_empty());
    for spec in specs {
        match spec.state.as_str() {
            // Pending tests are switched off in the suite itself.
            "passed" | "pending" => {}
            "skipped" => assert!(
                left_out.contains(spec.reason.as_str()) || NO_MOUNTS.contains(&spec.name.as_str()),
                "left out without a listed reason: {spec:?}"
            ),
            _ => panic!("{spec:?}"),
        }
    }
    for name in NO_MOUNTS {
        assert!(specs.iter().any(|spec| spec.name == *name), "the suite has no test {name:?} any more");
    }
}

async fn run(flags: &[&str]) -> Vec<Spec> {
    let driver = Driver::start("sanity.outrigger.dev", flags).await.unwrap();
    let directory = tempfile::tempdir().unwrap();
    let path = |name: &str| directory.path().join(name).display().to_string();
    let skips = NO_MOUNTS.iter().map(|name| format!("--ginkgo.skip=^CSI Driver Test Suite {name}$|^{name}$"));
    let program = Program::new("csi-sanity", programs::ensured(&CSI_SANITY).await.unwrap(), directory.path())
        .argument(format!("--csi.endpoint={}", driver.address()))
        .argument(format!("--csi.mountdir={}", path("mount")))
        .argument(format!("--csi.stagingdir={}", path("staging")))
        .argument(format!("--ginkgo.json-report={}", path("report.json")))
        .arguments(["--ginkgo.no-color"])
        .arguments(skips);
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
