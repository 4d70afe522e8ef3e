//! Requests that the driver called infeasible: the slow set of csi-lib-utils, and the pace of the library.

use std::time::Duration;

use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;
use tokio::time::advance;

use crate::claim::infeasible::{Infeasible, SLOW_RETRY};

fn claim(uid: &str) -> ClaimUid {
    ClaimUid(Uid::from(uid))
}

#[tokio::test(start_paused = true)]
async fn a_refusal_noted_again_keeps_its_time() {
    let refusals = Infeasible::default();
    let (class, minute) = (Uid::from("class"), Duration::from_mins(1));
    refusals.add(claim("a"), class.clone());
    assert_eq!(refusals.remaining(&claim("a"), Some(&class)), Some(SLOW_RETRY));
    advance(minute).await;
    refusals.add(claim("a"), class.clone());
    assert_eq!(refusals.remaining(&claim("a"), Some(&class)), SLOW_RETRY.checked_sub(minute), "what remains decreases");
    assert_eq!(refusals.remaining(&claim("b"), Some(&class)), None, "each claim by itself");
}

#[tokio::test(start_paused = true)]
async fn what_ends_the_wait_of_an_infeasible_claim() {
    let (class, other) = (Uid::from("class"), Uid::from("other"));
    let almost = SLOW_RETRY.checked_sub(Duration::from_millis(1)).unwrap();
    let cases = [
        ("time is not over", almost, Some(&class), false),
        ("time is over", SLOW_RETRY, Some(&class), true),
        ("class replaced", Duration::ZERO, Some(&other), true),
        ("class gone", Duration::ZERO, None, false),
    ];
    assert_eq!(cases.len(), 4);
    for (case, passed, seen, over) in cases {
        let refusals = Infeasible::default();
        refusals.add(claim("a"), class.clone());
        advance(passed).await;
        assert_eq!(refusals.remaining(&claim("a"), seen).is_none(), over, "{case}");
        let later = refusals.remaining(&claim("a"), Some(&class)).is_none();
        assert_eq!(later, over, "{case}: a wait that is over does not come back");
    }
    let refusals = Infeasible::default();
    refusals.add(claim("a"), class.clone());
    refusals.forget(&claim("a"));
    assert_eq!(refusals.remaining(&claim("a"), Some(&class)), None, "the claim is gone");
}
