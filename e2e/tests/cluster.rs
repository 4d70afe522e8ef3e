//! The cluster itself: it starts, serves, survives the loss of its API server, and leaves nothing behind.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use e2e::{Cluster, OptionalRule, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Namespace, PersistentVolume, PersistentVolumeClaim, Secret};
use kube::{
    Api,
    api::{ApiResource, DynamicObject, GroupVersionKind, ListParams, ObjectMeta, PostParams},
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
    assert!(secrets.get_opt("none").await.unwrap().is_none(), "the grant is in force");
}

#[tokio::test]
async fn custom_kinds_are_served_when_they_are_installed_and_optional_rules_are_given_one_by_one() {
    let cluster = Cluster::start().await.unwrap();
    let namespace = cluster.namespace("kinds").await.unwrap();
    // The second time, and a second test at the same time, change nothing.
    let (first, second) = tokio::join!(cluster.install_snapshot_crds(), cluster.install_snapshot_crds());
    first.and(second).unwrap();
    cluster.install_reference_grant_crd().await.unwrap();
    cluster.install_reference_grant_crd().await.unwrap();
    let client = cluster.client().await.unwrap();
    let kind = |group: &str, version: &str, kind: &str, plural: &str| {
        ApiResource::from_gvk_with_plural(&GroupVersionKind::gvk(group, version, kind), plural)
    };
    let snapshots = kind("snapshot.storage.k8s.io", "v1", "VolumeSnapshot", "volumesnapshots");
    let grants = kind("gateway.networking.k8s.io", "v1beta1", "ReferenceGrant", "referencegrants");
    let classes = kind("storage.k8s.io", "v1", "VolumeAttributesClass", "volumeattributesclasses");
    let made = [
        (&snapshots, json!({ "source": { "persistentVolumeClaimName": "none" } })),
        (
            &grants,
            json!({ "from": [{ "group": "", "kind": "PersistentVolumeClaim", "namespace": "default" }],
            "to": [{ "group": "snapshot.storage.k8s.io", "kind": "VolumeSnapshot" }] }),
        ),
    ];
    for (resource, spec) in made {
        let objects: Api<DynamicObject> = Api::namespaced_with(client.clone(), &namespace, resource);
        let object = DynamicObject::new("one", resource).data(json!({ "spec": spec }));
        objects.create(&PostParams::default(), &object).await.unwrap();
        assert_eq!(objects.get("one").await.unwrap().data["spec"], spec);
    }

    let account = cluster.upstream_provisioner_account(&namespace).await.unwrap();
    let as_account = account.client().await.unwrap();
    let may_get = async |resource: &ApiResource, namespaced: bool| {
        let objects: Api<DynamicObject> = if namespaced {
            Api::namespaced_with(as_account.clone(), &namespace, resource)
        } else {
            Api::all_with(as_account.clone(), resource)
        };
        match objects.get_opt("none").await {
            Ok(_) => true,
            Err(kube::Error::Api(status)) if status.code == 403 => false,
            Err(error) => panic!("{error}"),
        }
    };
    cluster.grant(&account, &[OptionalRule::Snapshots]).await.unwrap();
    assert!(may_get(&snapshots, true).await);
    assert!(!may_get(&grants, true).await && !may_get(&classes, false).await);
    cluster.grant(&account, &[OptionalRule::ReferenceGrants]).await.unwrap();
    assert!(may_get(&grants, true).await && !may_get(&classes, false).await);
    cluster.grant(&account, &[OptionalRule::VolumeAttributesClasses]).await.unwrap();
    assert!(may_get(&classes, false).await);
}
