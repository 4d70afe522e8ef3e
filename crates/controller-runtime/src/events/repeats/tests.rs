#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use jiff::Timestamp;
use k8s_openapi::api::core::v1::ObjectReference;

use super::super::EventKind;
use super::*;

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

fn repeats() -> Repeats {
    Repeats::new(Source { component: "driver_host".into(), instance: String::new() })
}

#[test]
fn only_identical_notes_are_repeats() {
    let first = note("failed");
    let change = |change: fn(&mut Note)| {
        let mut other = note("failed");
        change(&mut other);
        other
    };
    let table = [
        ("the same", change(|_| {}), true),
        ("another resourceVersion", change(|n| n.about.resource_version = Some("9".into())), true),
        ("another message", change(|n| n.message = "failed again".into()), false),
        ("another reason", change(|n| n.reason = "Provisioning".into()), false),
        ("another type", change(|n| n.kind = EventKind::Normal), false),
        ("another object of that name", change(|n| n.about.uid = Some("2".into())), false),
        ("another object", change(|n| n.about.name = Some("other".into())), false),
        ("another namespace", change(|n| n.about.namespace = Some("other".into())), false),
        ("another kind", change(|n| n.about.kind = Some("PersistentVolume".into())), false),
        ("another field", change(|n| n.about.field_path = Some("spec".into())), false),
    ];
    for (name, other, repeated) in table {
        let mut repeats = repeats();
        let write = repeats.next(&first);
        assert!(matches!(write, Write::Create(_)));
        repeats.written(&first, write.event());
        assert_eq!(matches!(repeats.next(&other), Write::Patch { .. }), repeated, "{name}");
    }
}

#[test]
fn a_note_that_was_not_written_is_new_again() {
    let repeats = repeats();
    let write = repeats.next(&note("failed"));
    assert_ne!(write.event().metadata.name, repeats.next(&note("failed")).event().metadata.name);
}

#[test]
fn a_repeat_counts_on_and_keeps_name_and_first_time() {
    let mut repeats = repeats();
    let first = note("failed");
    let created = repeats.next(&first);
    let mut name = None;
    for count in 1..=3 {
        let write = repeats.next(&first);
        assert_eq!(write.event().count, Some(count));
        let expected = name.get_or_insert_with(|| write.event().metadata.name.clone());
        assert_eq!(&write.event().metadata.name, expected);
        assert_eq!(write.event().first_timestamp, created.event().first_timestamp);
        if let Write::Patch { change, .. } = &write {
            assert_eq!(change["count"], count);
            assert_eq!(change.as_object().unwrap().len(), 2);
        }
        repeats.written(&first, write.event());
    }
}

#[test]
fn the_least_recently_repeated_is_forgotten_first() {
    let mut repeats = repeats();
    let write_note = |repeats: &mut Repeats, text: &str| {
        let note = note(text);
        let write = repeats.next(&note);
        repeats.written(&note, write.event());
    };
    for number in 0..REMEMBERED {
        write_note(&mut repeats, &number.to_string());
    }
    write_note(&mut repeats, "0");
    write_note(&mut repeats, "one more");
    assert_eq!(repeats.written.len(), REMEMBERED);
    assert!(matches!(repeats.next(&note("0")), Write::Patch { .. }));
    assert!(matches!(repeats.next(&note("1")), Write::Create(_)));
}
