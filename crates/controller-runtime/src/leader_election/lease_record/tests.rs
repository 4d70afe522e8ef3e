#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use super::*;
use crate::clock::{Clock as _, TestClock};

const ME: &str = "me-1";
const LEASE: Duration = Duration::from_secs(15);

fn at(seconds: i64) -> Timestamp {
    Timestamp::from_second(1_700_000_000 + seconds).unwrap()
}

fn record(holder: &str, duration_seconds: i32) -> LeaseRecord {
    LeaseRecord { holder: holder.into(), duration_seconds, acquired: Some(at(0)), renewed: Some(at(7)), transitions: 3 }
}

fn present(record: LeaseRecord, since: Instant) -> Seen {
    Seen::Present(Observation { record, since })
}

#[tokio::test(start_paused = true)]
async fn decisions() {
    let start = Instant::now();
    let second = |s: u64| start + Duration::from_secs(s);
    let mut own = OwnWrites::default();
    own.sending(record(ME, 15), TestClock::new().now());
    let mine_but_not_written_here = LeaseRecord { renewed: Some(at(8)), ..record(ME, 15) };

    let table = [
        ("never seen", Seen::Nothing, 0, Decision::Create),
        ("released", present(record("", 1), start), 0, Decision::TakeOver),
        ("held, just seen", present(record("other", 15), start), 0, Decision::Wait(second(15))),
        ("held, before its end", present(record("other", 15), start), 14, Decision::Wait(second(15))),
        ("unchanged for its whole duration", present(record("other", 15), start), 15, Decision::TakeOver),
        ("the record's duration counts, not ours", present(record("other", 60), start), 59, Decision::Wait(second(60))),
        ("a record without duration holds nothing", present(record("other", 0), start), 0, Decision::TakeOver),
        ("a negative duration holds nothing", present(record("other", -5), start), 0, Decision::TakeOver),
        ("written by this process", present(record(ME, 15), start), 3, Decision::Renew),
        ("written by this process, long ago", present(record(ME, 15), start), 300, Decision::Renew),
        (
            "our name, written by somebody else",
            present(mine_but_not_written_here.clone(), start),
            3,
            Decision::Wait(second(15)),
        ),
        (
            "our name, written by somebody else, run out",
            present(mine_but_not_written_here, start),
            15,
            Decision::TakeOver,
        ),
        ("deleted", Seen::Deleted(second(15)), 14, Decision::Wait(second(15))),
        ("deleted, and time for any holder to find out", Seen::Deleted(second(15)), 15, Decision::Create),
    ];
    for (name, seen, now, expected) in table {
        assert_eq!(decide(&seen, &own, second(now)), expected, "{name}");
    }
}

#[tokio::test(start_paused = true)]
async fn the_clock_of_an_unchanged_record_goes_on_and_a_changed_one_starts_anew() {
    let start = Instant::now();
    let mut seen = Seen::default();
    seen.update(Some(record("other", 15)), LEASE, start);
    seen.update(Some(record("other", 15)), LEASE, start + Duration::from_secs(10));
    let own = OwnWrites::default();
    let later = start + Duration::from_secs(15);
    assert_eq!(decide(&seen, &own, later), Decision::TakeOver);

    // Whatever the writer's clock says: an older renewTime is a change like any other.
    seen.update(Some(LeaseRecord { renewed: Some(at(-3600)), ..record("other", 15) }), LEASE, later);
    assert_eq!(decide(&seen, &own, later), Decision::Wait(later + LEASE));
}

#[tokio::test(start_paused = true)]
async fn a_deleted_lease_is_free_after_a_lease_duration_whoever_was_seen_last() {
    let start = Instant::now();
    let own = OwnWrites::default();
    // (holder and duration seen last, how long the deletion is waited out)
    for (holder, duration, wait) in [("other", 15, 15), ("other", 40, 40), ("", 1, 15), (ME, 15, 15)] {
        let mut seen = Seen::default();
        seen.update(Some(record(holder, duration)), LEASE, start);
        let noticed = start + Duration::from_secs(1000);
        seen.update(None, LEASE, noticed);
        seen.update(None, LEASE, noticed + Duration::from_secs(5));
        let free = noticed + Duration::from_secs(wait);
        assert_eq!(decide(&seen, &own, noticed), Decision::Wait(free), "{holder:?} {duration}");
        assert_eq!(decide(&seen, &own, free), Decision::Create, "{holder:?} {duration}");
        seen.update(Some(record("", 1)), LEASE, noticed);
        assert_eq!(decide(&seen, &own, noticed), Decision::TakeOver, "came back released");
    }
}

#[test]
fn records_are_written_as_client_go_writes_them() {
    let duration = Duration::from_secs(15);
    let first = LeaseRecord::take_over(None, ME, duration, at(1));
    assert_eq!((first.transitions, first.acquired, first.renewed), (0, Some(at(1)), Some(at(1))));

    let renewed = first.renew(duration, at(6));
    assert_eq!((renewed.transitions, renewed.acquired, renewed.renewed), (0, Some(at(1)), Some(at(6))));

    let released = renewed.release(at(9));
    assert_eq!((released.holder.as_str(), released.duration_seconds), ("", 1));
    assert_eq!((released.transitions, released.acquired, released.renewed), (0, Some(at(9)), Some(at(9))));

    let next = LeaseRecord::take_over(Some(&released), "other", duration, at(10));
    assert_eq!((next.transitions, next.acquired, next.duration_seconds), (1, Some(at(10)), 15));
}

#[test]
fn a_fraction_of_a_second_is_rounded_up() {
    for (millis, seconds) in [(1, 1), (999, 1), (1000, 1), (1001, 2), (15_000, 15), (15_500, 16)] {
        assert_eq!(whole_seconds(Duration::from_millis(millis)), seconds, "{millis} ms");
    }
    assert_eq!(whole_seconds(Duration::MAX), i32::MAX);
}

#[test]
fn a_record_survives_the_wire_with_microseconds() {
    let now = Timestamp::from_nanosecond(1_700_000_000_123_456_789).unwrap();
    let record = LeaseRecord::take_over(None, ME, Duration::from_secs(15), now);
    let mut lease = Lease::default();
    record.write(&mut lease);
    let json = serde_json::to_value(&lease).unwrap();
    assert_eq!(json["spec"]["renewTime"], "2023-11-14T22:13:20.123456Z");
    let back: Lease = serde_json::from_value(json).unwrap();
    assert_eq!(LeaseRecord::read(&back), record);
}

#[test]
fn what_the_rules_do_not_know_stays_in_the_lease() {
    let mut lease: Lease = serde_json::from_value(serde_json::json!({
        "metadata": {"name": "l", "annotations": {"a": "1"}, "labels": {"b": "2"}},
        "spec": {"holderIdentity": "other", "preferredHolder": "third", "strategy": "OldestEmulationVersion"}
    }))
    .unwrap();
    record(ME, 15).write(&mut lease);
    let spec = lease.spec.unwrap();
    assert_eq!(spec.holder_identity.as_deref(), Some(ME));
    assert_eq!(spec.preferred_holder.as_deref(), Some("third"));
    assert_eq!(spec.strategy.as_deref(), Some("OldestEmulationVersion"));
    assert_eq!(lease.metadata.annotations.unwrap()["a"], "1");
}

#[tokio::test(start_paused = true)]
async fn an_unanswered_write_is_recognised_when_it_is_read_back() {
    let clock = TestClock::new();
    let mut own = OwnWrites::default();
    let first = record(ME, 15);
    let second = first.renew(Duration::from_secs(15), at(20));
    own.sending(first.clone(), clock.now());
    assert!(own.confirm(&first).is_some() && !own.in_doubt());
    tokio::time::advance(Duration::from_secs(5)).await;
    let sent = clock.now();
    own.sending(second.clone(), sent);
    own.confirm(&first);
    assert!(own.in_doubt(), "reading the old record says nothing about the write on its way");
    assert_eq!(own.confirm(&second), Some(sent));
    assert_eq!(own.sent_at(&first), None, "superseded by the one confirmed later");
    assert_eq!(own.confirm(&record("other", 15)), None);
}

#[tokio::test(start_paused = true)]
async fn unanswered_writes_are_bounded_and_never_push_out_the_confirmed_one() {
    let start = TestClock::new().now();
    let mut own = OwnWrites::default();
    own.sending(record(ME, 15), start);
    own.confirm(&record(ME, 15));
    for second in 0..100 {
        own.sending(record(ME, 15).renew(Duration::from_secs(15), at(100 + second)), start);
    }
    assert_eq!(own.unanswered.len(), UNANSWERED);
    assert!(own.sent_at(&record(ME, 15)).is_some());
}

#[tokio::test(start_paused = true)]
async fn a_refused_write_is_not_in_doubt() {
    let mut own = OwnWrites::default();
    own.sending(record(ME, 15), TestClock::new().now());
    own.refused(&record(ME, 15));
    assert!(!own.in_doubt());
}
