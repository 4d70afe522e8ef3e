#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::super::EventKind;
use super::super::recent::REMEMBERED;
use super::*;

const SECOND: Duration = Duration::from_secs(1);
const MINUTE: Duration = Duration::from_mins(1);

fn note(message: &str) -> Note {
    Note {
        about: ObjectReference {
            kind: Some("PersistentVolumeClaim".into()),
            namespace: Some("ns".into()),
            name: Some("claim".into()),
            uid: Some("1".into()),
            ..ObjectReference::default()
        },
        kind: EventKind::Warning,
        reason: "ProvisioningFailed".into(),
        message: message.into(),
        at: Timestamp::now(),
    }
}

fn about(number: usize) -> Note {
    let mut note = note("failed");
    note.about.name = Some(format!("claim-{number}"));
    note
}

/// A correlator and the clock it is asked at.
struct Scene {
    correlator: Correlator,
    now: Instant,
}

impl Scene {
    fn new() -> Self {
        let source = Source { component: "driver_host".into(), instance: String::new() };
        Self { correlator: Correlator::new(source), now: Instant::now() }
    }

    fn next(&mut self, note: &Note) -> Option<Write> {
        self.correlator.next(note, self.now)
    }

    /// Records `note` and lets `pause` pass.
    fn record(&mut self, note: &Note, pause: Duration) -> Option<Told> {
        let write = self.next(note);
        self.now += pause;
        let write = write?;
        let verb = match &write {
            Write::Create(_) => "create",
            Write::Patch { .. } => "patch",
        };
        Some((verb, write.event().count.unwrap(), write.event().message.clone().unwrap()))
    }

    /// Records `count` notes that differ in their message.
    fn record_similar(&mut self, count: usize, pause: Duration) {
        for number in 0..count {
            self.record(&note(&format!("failed {number}")), pause);
        }
    }
}

fn written(verb: &'static str, count: i32, message: &str) -> Told {
    (verb, count, message.to_owned())
}

/// Verb, count and message of a write.
type Told = (&'static str, i32, String);
type Before = fn(&mut Scene);

/// The cases of client-go's own test of its correlator, and their neighbours.
#[test]
fn what_becomes_of_a_note_after_others() {
    let combined = "(combined from similar events): failed";
    let table: &[(&str, Before, Option<Told>)] = &[
        ("the first", |_| (), Some(written("create", 1, "failed"))),
        ("the same once before", |s| drop(s.record(&note("failed"), 5 * SECOND)), Some(written("patch", 2, "failed"))),
        (
            "the same ten times before",
            |s| (0..10).for_each(|_| drop(s.record(&note("failed"), 30 * SECOND))),
            Some(written("patch", 11, "failed")),
        ),
        (
            "the same 24 times at once",
            |s| (0..24).for_each(|_| drop(s.record(&note("failed"), Duration::ZERO))),
            Some(written("patch", 25, "failed")),
        ),
        ("the same 25 times at once", |s| (0..25).for_each(|_| drop(s.record(&note("failed"), Duration::ZERO))), None),
        ("the same 26 times, a second apart", |s| (0..26).for_each(|_| drop(s.record(&note("failed"), SECOND))), None),
        (
            "thirty about other objects",
            |s| (0..30).for_each(|number| drop(s.record(&about(number), 5 * SECOND))),
            Some(written("create", 1, "failed")),
        ),
        ("eight similar before", |s| s.record_similar(8, 5 * SECOND), Some(written("create", 1, "failed"))),
        ("nine similar before", |s| s.record_similar(9, 5 * SECOND), Some(written("create", 1, combined))),
        ("ten similar before", |s| s.record_similar(10, 5 * SECOND), Some(written("patch", 2, combined))),
        ("nine similar, ten minutes apart", |s| s.record_similar(9, 10 * MINUTE), Some(written("create", 1, combined))),
        (
            "nine similar, further apart",
            |s| s.record_similar(9, 10 * MINUTE + SECOND),
            Some(written("create", 1, "failed")),
        ),
        (
            "nine similar, long ago",
            |s| {
                s.record_similar(9, SECOND);
                s.now += 10 * MINUTE;
            },
            Some(written("create", 1, "failed")),
        ),
        (
            "among the nine that came before many others",
            |s| {
                s.record(&note("failed"), SECOND);
                s.record_similar(12, SECOND);
            },
            Some(written("patch", 2, "failed")),
        ),
        (
            "nine similar about another field",
            |s| {
                for number in 0..9 {
                    let mut note = note(&format!("failed {number}"));
                    note.about.field_path = Some("spec".into());
                    s.record(&note, SECOND);
                }
            },
            Some(written("create", 1, combined)),
        ),
        (
            "nine with another reason",
            |s| {
                for number in 0..9 {
                    s.record(&Note { reason: "Other".into(), ..note(&number.to_string()) }, SECOND);
                }
            },
            Some(written("create", 1, "failed")),
        ),
    ];
    assert_eq!(table.len(), 16);
    for (name, before, expected) in table {
        let mut scene = Scene::new();
        before(&mut scene);
        assert_eq!(scene.record(&note("failed"), SECOND), *expected, "{name}");
    }
}

#[test]
fn only_identical_notes_are_repeats() {
    type Change = fn(&mut Note);
    let table: &[(&str, Change, bool)] = &[
        ("the same", |_| {}, true),
        ("another resourceVersion", |n| n.about.resource_version = Some("9".into()), true),
        ("another message", |n| n.message = "failed again".into(), false),
        ("another reason", |n| n.reason = "Provisioning".into(), false),
        ("another type", |n| n.kind = EventKind::Normal, false),
        ("another object of that name", |n| n.about.uid = Some("2".into()), false),
        ("another object", |n| n.about.name = Some("other".into()), false),
        ("another namespace", |n| n.about.namespace = Some("other".into()), false),
        ("another kind", |n| n.about.kind = Some("PersistentVolume".into()), false),
        ("another field", |n| n.about.field_path = Some("spec".into()), false),
        ("another version of the API", |n| n.about.api_version = Some("v2".into()), false),
    ];
    for (name, change, repeated) in table {
        let mut scene = Scene::new();
        assert!(matches!(scene.next(&note("failed")), Some(Write::Create(_))));
        let mut other = note("failed");
        change(&mut other);
        assert_eq!(matches!(scene.next(&other), Some(Write::Patch { .. })), *repeated, "{name}");
    }
}

#[test]
fn an_object_has_a_burst_of_writes_per_type_and_then_one_every_five_minutes() {
    let mut scene = Scene::new();
    let spend = |scene: &mut Scene| (0..100).filter(|_| scene.next(&note("failed")).is_some()).count();
    assert_eq!(spend(&mut scene), 25);
    for (pause, writes) in
        [(Duration::from_secs(299), 0), (SECOND, 1), (12 * MINUTE, 2), (3 * MINUTE, 1), (300 * MINUTE, 25)]
    {
        scene.now += pause;
        assert_eq!(spend(&mut scene), writes, "after {pause:?}");
    }
    let others: [fn(&mut Note); 3] =
        [|n| n.kind = EventKind::Normal, |n| n.about.uid = Some("2".into()), |n| n.about.kind = Some("Pod".into())];
    for change in others {
        let mut other = note("failed");
        change(&mut other);
        assert!(scene.next(&other).is_some(), "{other:?}");
    }
    let reason = Note { reason: "Other".into(), ..note("failed") };
    assert!(scene.next(&reason).is_none(), "the reason gives no burst of its own");
}

#[test]
fn what_is_not_written_is_counted() {
    let mut scene = Scene::new();
    for _ in 0..40 {
        scene.next(&note("failed"));
    }
    assert!(scene.next(&note("never written")).is_none());
    scene.now += 10 * MINUTE;
    assert_eq!(scene.record(&note("failed"), SECOND), Some(written("patch", 41, "failed")));
    assert_eq!(scene.record(&note("never written"), SECOND), Some(written("patch", 2, "never written")));
}

#[test]
fn a_repeat_keeps_name_and_first_time_and_changes_count_and_last_time() {
    let mut scene = Scene::new();
    let created = scene.next(&note("failed")).unwrap();
    for count in 2..=3 {
        let again = note("failed");
        let write = scene.next(&again).unwrap();
        let Write::Patch { event, change } = &write else { panic!("{write:?}") };
        assert_eq!(event.metadata.name, created.event().metadata.name);
        assert_eq!(event.first_timestamp, created.event().first_timestamp);
        assert_eq!((event.count, &event.last_timestamp), (Some(count), &Some(Time(again.at))));
        assert_eq!(*change, json!({"count": count, "lastTimestamp": Time(again.at)}));
    }
}

#[test]
fn a_shared_event_has_a_name_of_its_own_and_tells_the_latest_message() {
    let mut scene = Scene::new();
    let first = scene.next(&note("failed 0")).unwrap();
    scene.record_similar(9, SECOND);
    let created = scene.next(&note("failed a")).unwrap();
    assert_ne!(created.event().metadata.name, first.event().metadata.name);
    assert!(created.event().source.is_some() && created.event().reporting_component.is_none());
    let later = note(&"b".repeat(1024));
    let Some(Write::Patch { event, change }) = scene.next(&later) else { panic!("a repeat") };
    assert_eq!(event.metadata.name, created.event().metadata.name);
    let message = change["message"].as_str().unwrap();
    assert!(message.starts_with("(combined from similar events): bbb") && message.len() == 1024, "{message}");
    assert_eq!((&change["count"], change.as_object().unwrap().len()), (&json!(2), 3));
}

#[test]
fn the_event_repeated_longest_ago_is_forgotten_first() {
    let mut scene = Scene::new();
    for number in 0..3 * REMEMBERED {
        scene.next(&about(number));
        scene.next(&about(0));
    }
    let kept = [&scene.correlator.similar.len(), &scene.correlator.observed.len(), &scene.correlator.budgets.len()];
    assert!(kept.iter().all(|kept| **kept < 2 * REMEMBERED), "{kept:?}");
    assert!(matches!(scene.next(&about(1)), Some(Write::Create(_))));
    assert!(matches!(scene.next(&about(3 * REMEMBERED - 1)), Some(Write::Patch { .. })));
}

#[test]
fn after_two_hours_without_notes_nothing_is_kept() {
    let mut scene = Scene::new();
    for number in 0..100 {
        scene.next(&about(number));
    }
    scene.now += 10 * MINUTE;
    scene.correlator.forget_old(scene.now);
    assert!(matches!(scene.next(&about(1)), Some(Write::Patch { .. })), "events are remembered longer");
    scene.now += FORGET_AFTER + SECOND;
    scene.correlator.forget_old(scene.now);
    assert!(scene.correlator.is_empty());
}

#[test]
fn within_two_hours_forgetting_makes_no_difference() {
    let notes: Vec<Note> = (0..60).map(|number| note(&format!("failed {}", number % 12))).collect();
    let mut swept = Scene::new();
    let mut kept = Scene::new();
    for (number, note) in notes.iter().enumerate() {
        let pause = MINUTE * u32::try_from(number % 11).unwrap();
        assert_eq!(swept.record(note, pause), kept.record(note, pause), "{number}");
        swept.correlator.forget_old(swept.now);
    }
}
