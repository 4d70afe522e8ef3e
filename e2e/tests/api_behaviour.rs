//! The behaviour suite of the fake API server against a real one: what the fake promises, the real one does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use e2e::Cluster;

#[macro_use]
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

with_every_behaviour!(against_a_real_server);
