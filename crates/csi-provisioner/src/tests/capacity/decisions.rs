//! What is decided without I/O, as tables.

use std::collections::BTreeSet;
use std::sync::Arc;
use std::time::Duration;

use serde_json::json;
use sidecar::RequestLimit;
use storage_kube::names::{CapacityName, ClassName, NodeName};
use storage_kube::topology::Segment;
use storage_kube::uid::Uid;
use storage_kube::wire::NodeSelectorTerm;

use crate::capacity::affinity::{TermError, segment};
use crate::capacity::budget::{WriteLimit, following};
use crate::capacity::call_slots::Pace;
use crate::capacity::decision::{Keep, decide};
use crate::capacity::desired::Desired;
use crate::capacity::item::{Amounts, Item};
use crate::capacity::managed_by::{ManagedBy, joined};
use crate::capacity::own_writes::OwnWrites;
use crate::capacity::segments::SegmentTable;
use crate::records::CapacityRecord;
use crate::records::capacity::Ownership;

const RIGHT: Amounts = Amounts { capacity: 10, maximum: None };

fn item(class: &str, zone: &str) -> Item {
    Item { class: ClassName::from(class), segment: Some(Arc::new(Segment::from_iter([("zone", zone)]))) }
}

fn record(name: &str, created: i64, version: u64) -> CapacityRecord {
    CapacityRecord {
        name: CapacityName::from(name),
        uid: Uid::from(name),
        version,
        created,
        item: item("fast", "a"),
        amounts: Some(RIGHT),
        ownership: Ownership::Right,
    }
}

#[test]
fn one_object_is_kept_and_written_only_when_something_differs() {
    let object = Arc::new(record("one", 5, 50));
    let decided = |wanted, objects: &[&Arc<CapacityRecord>]| {
        decide(wanted, objects.iter().map(|object| Arc::clone(object)).collect())
    };
    assert_eq!(decided(Some(RIGHT), &[&object]).keep, Keep::Nothing);
    assert_eq!(decided(Some(RIGHT), &[]).keep, Keep::Create(RIGHT));
    for amounts in [Amounts { capacity: 11, ..RIGHT }, Amounts { maximum: Some(0), ..RIGHT }] {
        assert_eq!(decided(Some(amounts), &[&object]).keep, Keep::Update(Arc::clone(&object), amounts));
    }
    for other in [
        CapacityRecord { ownership: Ownership::Missing, ..record("one", 5, 50) },
        CapacityRecord { amounts: None, ..record("one", 5, 50) },
    ] {
        let other = Arc::new(other);
        assert_eq!(decided(Some(RIGHT), &[&other]).keep, Keep::Update(Arc::clone(&other), RIGHT));
    }
    let unwanted = decided(None, &[&object]);
    assert_eq!((unwanted.keep, unwanted.surplus), (Keep::Nothing, vec![object]));
}

#[test]
fn of_several_objects_the_oldest_is_kept_by_whoever_decides() {
    let oldest = Arc::new(record("z-oldest", 1, 90));
    let earlier = Arc::new(record("b", 2, 20));
    let later = Arc::new(record("a", 2, 30));
    let all = [&oldest, &earlier, &later];
    for order in [[0, 1, 2], [0, 2, 1], [1, 0, 2], [1, 2, 0], [2, 0, 1], [2, 1, 0]] {
        let objects = order.iter().map(|at| Arc::clone(all[*at])).collect();
        let decision = decide(Some(RIGHT), objects);
        assert_eq!(decision.keep, Keep::Nothing);
        assert_eq!(decision.surplus, [Arc::clone(&later), Arc::clone(&earlier)]);
    }
}

#[test]
fn names_of_managers_fit_into_a_label() {
    let node = |more: usize| format!("node{}", "a".repeat(more));
    let base = "external-provisioner";
    let cases = [
        (base, "node01".to_owned(), "external-provisioner-node01".to_owned()),
        ("", "node01".to_owned(), "node01".to_owned()),
        (base, node(38), format!("{base}-{}", node(38))),
        (base, node(39), format!("external-p-53f40b57-{}", node(39))),
        (base, node(48), format!("e-53f40b57-{}", node(48))),
        (base, node(49), "external-provisioner-a3607ff1".to_owned()),
        (base, node(63), "external-provisioner-df38e37f".to_owned()),
        ("", node(63), "fa65587e".to_owned()),
    ];
    assert_eq!(cases.len(), 8);
    for (base, suffix, expected) in cases {
        let joined = joined(base, &suffix);
        assert_eq!(joined, expected, "{base} {suffix}");
        assert!(joined.len() <= 63);
    }
    let of_node = ManagedBy::new("d", Some(&NodeName::from("n1")));
    assert_eq!(
        of_node.selector(),
        "csi.storage.k8s.io/drivername=d,csi.storage.k8s.io/managed-by=external-provisioner-n1"
    );
    assert_eq!(ManagedBy::new("d", None).labels()[1].1, base);
}

#[test]
fn a_term_of_a_volumes_affinity_is_a_segment_or_nothing() {
    let expression =
        |key: &str, operator: &str, values: &[&str]| json!({ "key": key, "operator": operator, "values": values });
    let cases = [
        (json!({ "matchFields": [expression("metadata.name", "In", &["n1"])] }), None),
        (json!({ "matchExpressions": [expression("zone", "NotIn", &["a"])] }), None),
        (json!({ "matchExpressions": [expression("zone", "In", &["a", "b"])] }), None),
        (json!({ "matchExpressions": [expression("zone", "In", &["a"])] }), Some(&[("zone", "a")][..])),
        (
            json!({ "matchExpressions": [expression("zone", "In", &["a"]), expression("rack", "In", &["r"])] }),
            Some(&[("rack", "r"), ("zone", "a")][..]),
        ),
    ];
    assert_eq!(cases.len(), 5);
    for (term, expected) in cases {
        let term: NodeSelectorTerm = serde_json::from_value(term).unwrap();
        let expected = expected.map(|pairs| pairs.iter().copied().collect::<Segment>());
        assert_eq!(segment(&term).ok(), expected, "{term:?}");
    }
    let none: NodeSelectorTerm = serde_json::from_value(json!({ "matchFields": [] })).unwrap();
    assert_eq!(segment(&none), Err(TermError::Fields));
}

#[test]
fn calls_are_made_one_by_one_for_as_long_as_that_is_fast_enough() {
    let pace = Pace { threads: None, poll_interval: Duration::from_mins(1), timeout: Duration::from_secs(10) };
    let millis = |millis| Some(Duration::from_millis(millis));
    let cases = [
        (4_000, None, 1, "nothing is known of the driver yet"),
        (0, millis(50), 1, "nothing to ask"),
        (600, millis(50), 1, "30 s"),
        (4_000, millis(50), 7, "200 s in 30 s"),
        (40_000, millis(50), 16, "the most"),
        (4_000, millis(2_000), 2, "a driver that is slow is not asked more than it can bear"),
        (4_000, millis(10_000), 1, "a driver that hangs"),
        (4_000, Some(Duration::ZERO), 1, "instant"),
    ];
    assert_eq!(cases.len(), 8);
    for (items, call, slots, why) in cases {
        assert_eq!(pace.slots(items, call), slots, "{why}");
    }
    let asked = Pace { threads: Some(3), ..pace };
    assert_eq!(asked.slots(40_000, millis(10_000)), 3);
    assert_eq!(asked.slots(0, None), 3);
}

#[test]
fn writes_follow_the_number_of_items_unless_the_flags_say_how_many() {
    let minute = Duration::from_mins(1);
    let cases = [(0, 5), (300, 10), (3_000, 100), (4_000, 133), (100_000, 200)];
    for (items, writes) in cases {
        let limit = following(items, minute);
        assert!((limit.qps - f64::from(writes)).abs() < 0.5, "{items}: {limit:?}");
    }
    let fixed = |qps, burst| Ok(WriteLimit::Fixed(Some(RequestLimit { qps, burst })));
    let cases = [
        (None, None, Ok(WriteLimit::FollowsItems)),
        (Some(20.0), None, fixed(20.0, 5)),
        (None, Some(50), fixed(1.0, 50)),
        (Some(20.0), Some(50), fixed(20.0, 50)),
        (Some(0.0), Some(0), fixed(5.0, 10)),
        (Some(-1.0), None, Ok(WriteLimit::Fixed(None))),
        (Some(1.0), Some(-1), Err(1)),
    ];
    assert_eq!(cases.len(), 7);
    for (qps, burst, expected) in cases {
        let found = WriteLimit::of_flags(qps, burst).map_err(|exit| {
            assert!(exit.message.contains("--kube-api-capacity-burst"), "{}", exit.message);
            exit.code
        });
        assert_eq!(found, expected, "{qps:?} {burst:?}");
    }
}

#[test]
fn every_wanted_class_is_wanted_in_every_segment() {
    let table = SegmentTable::default();
    let zone = |zone: &str| table.intern(Segment::from_iter([("zone", zone)]));
    let (fast, slow) = (ClassName::from("fast"), ClassName::from("slow"));
    let mut desired = Desired::default();
    assert!(desired.set_class(&fast, true) && !desired.set_class(&fast, true));
    assert_eq!(desired.set_segments(BTreeSet::from([zone("a"), zone("b")])), [item("fast", "a"), item("fast", "b")]);
    assert!(desired.set_class(&slow, true));
    assert_eq!(desired.of_class(&slow), [item("slow", "a"), item("slow", "b")]);
    assert_eq!((desired.len(), desired.items().len()), (4, 4));
    assert!(desired.items().iter().all(|item| desired.contains(item)));
    let changed = desired.set_segments(BTreeSet::from([zone("b"), zone("c")]));
    assert_eq!(changed, [item("fast", "a"), item("slow", "a"), item("fast", "c"), item("slow", "c")]);
    assert!(!desired.contains(&item("fast", "a")) && desired.contains(&item("fast", "c")));
    assert_eq!(desired.of_known_segment(&Segment::from_iter([("zone", "b")])).len(), 2);
    let truncated = Segment::default();
    assert_eq!(desired.of_known_segment(&truncated), [], "only exactly this segment");
    assert!(!desired.contains(&Item { class: fast.clone(), segment: None }));
    assert!(desired.set_class(&fast, false) && !desired.wants_class(&fast));
    assert_eq!(desired.len(), 2);
}

#[test]
fn segments_that_nobody_holds_leave_the_table() {
    let table = SegmentTable::default();
    let held = table.intern(Segment::from_iter([("zone", "held")]));
    for n in 0..10_000 {
        table.intern(Segment::from_iter([("zone", n.to_string())]));
    }
    assert!(table.len() <= 65, "{}", table.len());
    assert!(Arc::ptr_eq(&held, &table.intern(Segment::from_iter([("zone", "held")]))));
}

#[tokio::test(start_paused = true)]
async fn own_writes_are_known_before_the_cache_shows_them_and_are_no_news_when_it_does() {
    let writes = OwnWrites::default();
    let item = item("fast", "a");
    let (name, object) = (CapacityName::from("one"), record("one", 1, 10));
    let is_news = |version| writes.is_news(&item, &name, Some(&record("one", 1, version)));
    assert!(is_news(10), "nothing was written");

    // The event comes before the answer.
    writes.sent(&item);
    assert!(!is_news(10));
    assert!(!writes.answered(&item, object.clone(), &[Arc::new(object.clone())], false));
    assert!(writes.is_empty());

    // The answer comes first.
    writes.sent(&item);
    assert!(!writes.answered(&item, object.clone(), &[], false));
    assert_eq!(writes.newest(&item, Vec::new()), [Arc::new(object.clone())]);
    assert!(!is_news(9), "an event from before");
    assert!(!is_news(10) && writes.is_empty());

    // Somebody else has changed it since.
    writes.sent(&item);
    assert!(writes.answered(&item, object.clone(), &[Arc::new(record("one", 1, 11))], false));
    writes.remember(&item, Arc::new(object.clone()));
    assert!(is_news(11) && writes.is_empty());

    // It is gone, or another one is there too.
    writes.sent(&item);
    assert!(writes.answered(&item, object.clone(), &[], true));
    writes.remember(&item, Arc::new(object.clone()));
    assert!(writes.is_news(&item, &CapacityName::from("other"), None));
    assert!(writes.is_news(&item, &name, None) && writes.is_empty());
    assert!(writes.answered(&item, object, &[Arc::new(record("other", 1, 1))], false));

    assert_eq!(writes.overdue(&item), None);
    tokio::time::advance(Duration::from_mins(1)).await;
    assert!(writes.overdue(&item).is_some(), "the cache should have shown it");
}
