//! The behaviour suite of the fake API server against a real one: what the fake promises, the real one does.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, missing_docs)]

use e2e::{Cluster, cluster::Backup};

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
            println!("what_was_compacted_is_expired");
            suite::set_back::what_was_compacted_is_expired(&mut cluster, &namespace).await;
            println!("a_store_that_is_set_back_gives_out_its_versions_again");
            suite::set_back::a_store_that_is_set_back_gives_out_its_versions_again(&mut cluster, &namespace).await;
        }
    };
}

with_every_behaviour!(against_a_real_server);

impl suite::set_back::Server for Cluster {
    type Backup = Backup;

    async fn client(&self) -> kube::Client {
        Self::client(self).await.unwrap()
    }

    async fn backup(&mut self) -> Backup {
        Self::backup(self).await.unwrap()
    }

    async fn restore(&mut self, backup: &Backup) {
        Self::restore(self, backup).await.unwrap();
    }

    async fn compact(&mut self) {
        Self::compact(self).await.unwrap();
    }
}
