//! The behaviour suite against the fake server, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use fake_apiserver::FakeApiServer;

#[macro_use]
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

with_every_behaviour!(against_the_fake);
