//! Objects that cannot concern the projection: not decoded in a first list, and never in the way of one that does.

use super::super::cache::Cache;
use super::super::intake::{Intake, Sink as _};
use super::*;

/// An intake and what a subscriber heard of it.
fn intake() -> (Intake<Volumes>, Arc<Mutex<Vec<String>>>) {
    let cache = Arc::new(Cache::new(Volumes));
    let heard = Arc::new(Mutex::new(Vec::new()));
    cache.subscribe(Arc::new(listener(&heard)));
    (Intake::new(cache), heard)
}

fn raw(driver: &str) -> Vec<u8> {
    volume("pv-1", driver, "1Gi").to_string().into_bytes()
}

fn take(heard: &Mutex<Vec<String>>) -> Vec<String> {
    std::mem::take(&mut *heard.lock())
}

#[test]
fn what_does_not_mention_us_is_not_even_decoded_in_a_first_list() {
    let (intake, heard) = intake();
    intake.begin_list();
    intake.list(br#"{ "no object": "of theirs" }"#);
    intake.list(&raw("ours"));
    assert!(intake.end_list());
    intake.begin_list();
    intake.list(br#"{ "metadata": "of ours" }"#);
    assert!(!intake.end_list());
    assert_eq!(take(&heard), ["added pv-1 1Gi"]);
}

#[test]
fn a_name_written_with_escapes_is_found() {
    for driver in [r"\u006furs", r"o\u0075rs", r"\u006F\u0075\u0072\u0073"] {
        let (intake, heard) = intake();
        let json = String::from_utf8(raw("theirs")).unwrap().replace("theirs", driver);
        intake.begin_list();
        intake.list(json.as_bytes());
        assert_eq!(take(&heard), ["added pv-1 1Gi"], "{driver}");
    }
}

#[test]
fn a_later_list_takes_away_what_stopped_mentioning_us_even_beside_an_object_without_identity() {
    let (intake, heard) = intake();
    intake.begin_list();
    intake.list(&raw("ours"));
    intake.end_list();
    take(&heard);
    intake.begin_list();
    intake.list(br#"{"metadata":"ours"}"#);
    intake.list(&raw("theirs"));
    assert_eq!(take(&heard), ["deleted pv-1 1Gi"]);
    intake.end_list();
    assert_eq!(take(&heard), [""; 0]);
}

#[test]
fn a_deletion_is_delivered_whatever_the_last_state_mentions() {
    let (intake, heard) = intake();
    intake.begin_list();
    intake.list(&raw("ours"));
    intake.delete(&raw("theirs"));
    intake.end_list();
    assert_eq!(take(&heard), ["added pv-1 1Gi", "deleted pv-1 1Gi"]);
}
