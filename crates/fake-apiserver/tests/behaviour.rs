//! The behaviour suite against the fake server, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use fake_apiserver::FakeApiServer;

#[path = "behaviour/suite.rs"]
mod suite;

macro_rules! against_the_fake {
    ($($behaviour:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $behaviour() {
            let server = FakeApiServer::new();
            server.create(&k8s_openapi::api::core::v1::Node::named("so-that-the-version-is-not-zero"));
            server.compact();
            suite::$behaviour(server.client(), "here").await;
        }
    )*};
}

/// An object with nothing but a name.
trait Named {
    fn named(name: &str) -> Self;
}

impl Named for k8s_openapi::api::core::v1::Node {
    fn named(name: &str) -> Self {
        Self {
            metadata: kube::api::ObjectMeta { name: Some(name.to_owned()), ..Default::default() },
            ..Default::default()
        }
    }
}

against_the_fake!(
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
