//! The decision over a claim, as a table.

use std::sync::Arc;
use std::time::Duration;

use controller_runtime::Projection;
use serde_json::{Value, json};
use storage_kube::access_mode::Mapping;
use storage_kube::wire::StorageClass;

use super::objects::{CLAIM_UID, DRIVER, claim, class, with};
use super::scene::flags;
use crate::claim::eligibility::{ClaimDecision, ClaimView, decide};
use crate::claim::provisioned::Provisioned;
use crate::create_volume::request;
use crate::migration::ProvisionerNames;
use crate::records::{ClassProjection, ClassRecord};
use crate::settings::{DriverFacts, Settings};

pub(super) fn settings() -> Settings {
    Settings {
        names: ProvisionerNames::of(DRIVER),
        driver: DriverFacts {
            provisions: true,
            attaches: false,
            topology: false,
            snapshots: false,
            clones: false,
            modifies: false,
            access_modes: Mapping::Basic,
        },
        flags: flags(),
        capacity: None,
        node: None,
        identity: "test-provisioner".to_owned(),
        timeout: Duration::from_secs(10),
    }
}

pub(super) fn class_record(class: Value) -> Arc<ClassRecord> {
    class_record_of(DRIVER, class)
}

/// The class as the provisioner of another driver sees it.
pub(super) fn class_record_of(driver: &str, class: Value) -> Arc<ClassRecord> {
    let class = with(class, &json!({ "metadata": { "uid": "class-uid" } }));
    let class: StorageClass = serde_json::from_value(class).unwrap();
    Arc::new(ClassProjection { names: ProvisionerNames::of(driver) }.project(class).unwrap())
}

#[derive(Default)]
struct Known {
    claim: Option<Value>,
    class: Option<Value>,
    in_progress: bool,
    /// UID of the claim that the volume of this name is for.
    volume_for: Option<&'static str>,
    provisioned: Option<Provisioned>,
    outdated: bool,
    infeasible: bool,
}

fn decision(known: Known) -> &'static str {
    let settings = settings();
    let record = known.claim.map(|claim| Arc::new(super::claims::record(DRIVER, claim).unwrap()));
    let class_of = known.class.map(class_record);
    let remembered = Arc::new(super::claims::record(DRIVER, claim("data", "fast")).unwrap());
    let plan = Arc::new(request::plan(&settings, &remembered, &class_record(class("fast", json!({})))).unwrap());
    let volume = known.volume_for.map(super::volumes::record_for);
    let view = ClaimView {
        claim: record.as_ref(),
        class: class_of.as_ref(),
        in_progress: known.in_progress.then_some(&plan),
        volume: volume.as_ref(),
        provisioned: known.provisioned.unwrap_or(Provisioned::No),
        outdated: known.outdated,
        granted: false,
        grants_awaited: None,
        infeasible_for: known.infeasible.then_some(Duration::from_secs(7)),
    };
    match decide(&settings, &view) {
        ClaimDecision::Nothing => "nothing",
        ClaimDecision::Ignore => "ignore",
        ClaimDecision::Delay(_) => "delay",
        ClaimDecision::Ask(_) => "ask",
        ClaimDecision::AwaitClass(_) => "await class",
        ClaimDecision::NameTaken(..) => "name taken",
        ClaimDecision::LeaveToPopulator(_) => "populator",
        ClaimDecision::Compete(..) => "compete",
        ClaimDecision::Resume(_) => "resume",
        ClaimDecision::Provision(..) => "provision",
    }
}

/// Contract "shouldProvision" and "provisionClaimOperation", and the rows of the library's own tables.
#[test]
fn what_is_done_with_a_claim() {
    let ours = || Some(claim("data", "fast"));
    let fast = || Some(class("fast", json!({})));
    let late = || Some(with(class("fast", json!({})), &json!({ "volumeBindingMode": "WaitForFirstConsumer" })));
    let selected =
        |key: &str| Some(with(claim("data", "fast"), &json!({ "metadata": { "annotations": { key: "n1" } } })));
    let source = |kind: &str| {
        Some(with(claim("data", "fast"), &json!({ "spec": { "dataSource": { "kind": kind, "name": "s" } } })))
    };
    let gone = |provisioned, volume_for| Known {
        claim: ours(),
        class: fast(),
        provisioned: Some(provisioned),
        volume_for,
        ..Known::default()
    };
    let foreign_class = || Some(with(class("fast", json!({})), &json!({ "provisioner": "other" })));
    let cases = [
        ("ours", Known { claim: ours(), class: fast(), ..Known::default() }, "provision"),
        ("gone, bound or another's", Known::default(), "nothing"),
        ("class missing", Known { claim: ours(), ..Known::default() }, "await class"),
        ("class of another provisioner", Known { claim: ours(), class: foreign_class(), ..Known::default() }, "ignore"),
        (
            "its volume in the cache",
            Known { claim: ours(), class: fast(), volume_for: Some(CLAIM_UID), ..Known::default() },
            "ignore",
        ),
        (
            "another claim's volume under the name",
            Known { claim: ours(), class: fast(), volume_for: Some("other"), ..Known::default() },
            "name taken",
        ),
        (
            "volume written by this term",
            Known { claim: ours(), class: fast(), provisioned: Some(Provisioned::Yes), ..Known::default() },
            "nothing",
        ),
        ("volume gone a moment ago", gone(Provisioned::AskIn(Duration::from_millis(1)), None), "delay"),
        ("volume gone", gone(Provisioned::Ask, None), "ask"),
        ("volume gone, and another is there", gone(Provisioned::Ask, Some(CLAIM_UID)), "nothing"),
        (
            "written by this term, in a version the cache has not reached",
            Known { claim: ours(), class: fast(), outdated: true, ..Known::default() },
            "nothing",
        ),
        ("waits for its first consumer", Known { claim: ours(), class: late(), ..Known::default() }, "nothing"),
        (
            "node selected",
            Known { claim: selected("volume.kubernetes.io/selected-node"), class: late(), ..Known::default() },
            "provision",
        ),
        (
            "node selected, alpha key",
            Known { claim: selected("volume.alpha.kubernetes.io/selected-node"), class: late(), ..Known::default() },
            "nothing",
        ),
        ("infeasible", Known { claim: ours(), class: fast(), infeasible: true, ..Known::default() }, "delay"),
        ("in progress", Known { claim: ours(), class: fast(), in_progress: true, ..Known::default() }, "resume"),
        ("in progress, claim gone", Known { in_progress: true, ..Known::default() }, "resume"),
        ("in progress, class gone", Known { claim: ours(), in_progress: true, ..Known::default() }, "resume"),
        (
            "in progress, class of another",
            Known { claim: ours(), class: foreign_class(), in_progress: true, ..Known::default() },
            "resume",
        ),
        ("snapshot", Known { claim: source("VolumeSnapshot"), class: fast(), ..Known::default() }, "provision"),
        ("clone", Known { claim: source("PersistentVolumeClaim"), class: fast(), ..Known::default() }, "provision"),
        ("populator", Known { claim: source("MyPopulator"), class: fast(), ..Known::default() }, "populator"),
    ];
    assert_eq!(cases.len(), 22);
    for (case, known, expected) in cases {
        assert_eq!(decision(known), expected, "{case}");
    }
}
