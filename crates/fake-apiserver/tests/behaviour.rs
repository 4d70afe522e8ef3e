//! The behaviour suite against the fake server, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use fake_apiserver::{Backup, FakeApiServer};

#[macro_use]
#[path = "behaviour/suite.rs"]
mod suite;

macro_rules! against_the_fake {
    ($($behaviour:ident),* $(,)?) => {$(
        #[tokio::test(start_paused = true)]
        async fn $behaviour() {
            suite::$behaviour(with_a_past().client(), "here").await;
        }
    )*};
}

with_every_behaviour!(against_the_fake);

/// A server that has forgotten its first change.
fn with_a_past() -> FakeApiServer {
    let server = FakeApiServer::new();
    server.create(&k8s_openapi::api::core::v1::Node::named("so-that-the-version-is-not-zero"));
    server.compact();
    server
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

impl suite::set_back::Server for FakeApiServer {
    type Backup = Backup;

    async fn client(&self) -> kube::Client {
        self.client()
    }

    async fn backup(&mut self) -> Backup {
        Self::backup(self)
    }

    async fn restore(&mut self, backup: &Backup) {
        Self::restore(self, backup);
    }

    async fn compact(&mut self) {
        Self::compact(self);
    }
}

#[tokio::test(start_paused = true)]
async fn what_was_compacted_is_expired() {
    suite::set_back::what_was_compacted_is_expired(&mut with_a_past(), "here").await;
}

#[tokio::test(start_paused = true)]
async fn a_store_that_is_set_back_gives_out_its_versions_again() {
    suite::set_back::a_store_that_is_set_back_gives_out_its_versions_again(&mut with_a_past(), "here").await;
}
