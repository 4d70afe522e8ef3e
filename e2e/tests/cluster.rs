//! The cluster itself: it starts, serves, survives the loss of its API server, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use e2e::{Cluster, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim, Secret};
use kube::{
    Api,
    api::{ListParams, ObjectMeta, PostParams},
};
use rustix::process::{Pid, test_kill_process};
use serde_json::json;

const SOON: Duration = Duration::from_mins(1);

#[tokio::test]
async fn a_cluster_binds_a_claim_survives_a_restart_and_leaves_nothing_behind() {
    let mut cluster = Cluster::start().await.unwrap();
    let namespace = cluster.namespace("smoke").await.unwrap();
    let client = cluster.client().await.unwrap();

    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let volume = serde_json::from_value(json!({ "metadata": { "name": "made-by-hand" }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "persistentVolumeReclaimPolicy": "Retain",
        "csi": { "driver": "none.example.com", "volumeHandle": "h" } } }));
    volumes.create(&PostParams::default(), &volume.unwrap()).await.unwrap();
    // A claim that comes before the volume is available waits for the controller's next round.
    let available = |volume: &PersistentVolume| {
        volume.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Available")
    };
    e2e::eventually::object(&volumes, "made-by-hand", "the volume to be available", SOON, available).await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let claim = serde_json::from_value(json!({ "metadata": { "name": "claim" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "by-hand",
        "resources": { "requests": { "storage": "1Gi" } } } }));
    claims.create(&PostParams::default(), &claim.unwrap()).await.unwrap();
    let bound = |claim: &PersistentVolumeClaim| {
        claim.status.as_ref().and_then(|status| status.phase.as_deref()) == Some("Bound")
    };
    e2e::eventually::object(&claims, "claim", "the claim to be bound", SOON, bound).await.unwrap();

    cluster.apiserver().kill().await.unwrap();
    assert!(client.apiserver_version().await.is_err());
    cluster.apiserver().start().await.unwrap();
    let namespaces: Api<Namespace> = Api::all(client);
    assert!(namespaces.get_opt(&namespace).await.unwrap().is_some(), "the store kept the objects");

    let pids = [
        cluster.etcd().running().unwrap().pid(),
        cluster.apiserver().running().unwrap().pid(),
        cluster.controller_manager().running().unwrap().pid(),
    ];
    let directory = cluster.directory().to_owned();
    assert!(directory.exists());
    drop(cluster);
    for pid in pids {
        assert!(test_kill_process(Pid::from_raw(pid).unwrap()).is_err(), "process {pid} is still there");
    }
    assert!(!directory.exists());
}

#[tokio::test]
async fn two_clusters_run_at_once_and_know_nothing_of_each_other() {
    let (first, second) = tokio::join!(Cluster::start(), Cluster::start());
    let (first, second) = (first.unwrap(), second.unwrap());
    let named = |name: &str| ConfigMap {
        metadata: ObjectMeta { name: Some(name.to_owned()), ..ObjectMeta::default() },
        ..ConfigMap::default()
    };
    let maps: Api<ConfigMap> = Api::namespaced(first.client().await.unwrap(), "default");
    maps.create(&PostParams::default(), &named("only-here")).await.unwrap();
    let others: Api<ConfigMap> = Api::namespaced(second.client().await.unwrap(), "default");
    assert!(others.get_opt("only-here").await.unwrap().is_none());
}

#[tokio::test]
async fn the_upstream_account_may_do_what_upstream_grants_and_no_more() {
    let cluster = Cluster::start().await.unwrap();
    let namespace = cluster.namespace("account").await.unwrap();
    let account = cluster.upstream_provisioner_account(&namespace).await.unwrap();
    let client = account.client().await.unwrap();
    let claims: Api<PersistentVolumeClaim> = Api::all(client.clone());
    // The authorizer learns of new rules by a watch.
    eventually("the rules to be in force", SOON, async || Ok(claims.list(&ListParams::default()).await.map(Some)?))
        .await
        .unwrap();
    let namespaces: Api<Namespace> = Api::all(client.clone());
    let refused = namespaces.list(&ListParams::default()).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403));
    let patch = kube::api::Patch::Merge(json!({ "metadata": { "labels": { "l": "1" } } }));
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client.clone(), &namespace);
    let refused = claims.patch("none", &kube::api::PatchParams::default(), &patch).await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403), "upstream grants no patch of claims");
    let secrets: Api<Secret> = Api::namespaced(client, &namespace);
    let refused = secrets.get_opt("none").await.unwrap_err();
    assert!(matches!(refused, kube::Error::Api(status) if status.code == 403), "secrets need a grant of their own");
    cluster.grant_secrets(&account).await.unwrap();
    eventually("the grant to be in force", SOON, async || Ok(secrets.get_opt("none").await.map(Some)?)).await.unwrap();
}
