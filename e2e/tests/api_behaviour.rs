//! The behaviour suite of the fake API server against a real one: what the fake promises, the real one does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use e2e::Cluster;

#[path = "../../crates/fake-apiserver/tests/behaviour/suite.rs"]
mod suite;

macro_rules! against_a_real_server {
    ($($behaviour:ident),* $(,)?) => {
        #[tokio::test]
        async fn the_real_server_behaves_as_the_fake_does() {
            let mut cluster = Cluster::start().await.unwrap();
            // A server remembers every change since it started: only one with a past refuses to replay it.
            cluster.apiserver().restart().await.unwrap();
            let namespace = cluster.namespace("behaviour").await.unwrap();
            $(
                println!("{}", stringify!($behaviour));
                suite::$behaviour(cluster.client().await.unwrap(), &namespace).await;
            )*
        }
    };
}

against_a_real_server!(
    a_created_object_gets_identity_and_version,
    a_stale_update_is_refused,
    an_update_that_says_nothing_new_keeps_the_version,
    a_lease_cannot_be_updated_without_its_version,
    delete_honours_preconditions,
    finalizers_hold_an_object_that_is_being_deleted,
    the_patch_forms_change_what_they_say,
    status_changes_only_through_its_subresource,
    an_event_is_created_and_counted_up,
    a_list_comes_in_pages_of_one_state,
    a_watch_replays_what_happened_since_a_version,
    a_watch_list_marks_the_end_of_the_initial_events,
    a_watch_ends_at_its_timeout,
    a_watch_from_too_far_back_is_expired,
    a_claim_is_stored_as_sent,
    conditions_merge_by_type_in_a_strategic_patch,
    label_selectors_choose,
);
