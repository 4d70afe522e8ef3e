//! Claims that come and go faster than they are served, and what they need going away in the middle.

use std::collections::BTreeSet;
use std::time::Duration;

use anyhow::Result;
use e2e::eventually::{eventually, gone, throughout};
use e2e::scene::{PATIENCE, Scene, leading};
use e2e::{Cluster, driver::Call};
use k8s_openapi::api::core::v1::Secret;
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use serde_json::json;

use crate::lease::Brief as _;

/// A claim is deleted when it is one of the latest few: some are never seen, some go while the driver works.
#[tokio::test]
async fn two_hundred_claims_created_and_deleted_in_a_tight_loop_leave_nothing() -> Result<()> {
    const CLAIMS: usize = 200;
    let scene = Scene::start("loop", &["--fault=CreateVolume:delay=20ms"]).await?;
    let mut provisioner = leading(scene.replica()?.brief()).await?;
    for n in 0..CLAIMS {
        scene.claim(&format!("data-{n}"), &json!({})).await?;
        // One claim in three lives for two more turns.
        match n % 3 {
            0 => {}
            1 => scene.delete_claim(&format!("data-{n}")).await?,
            _ => {
                scene.delete_claim(&format!("data-{}", n - 2)).await?;
                scene.delete_claim(&format!("data-{n}")).await?;
            }
        }
    }
    scene.delete_claim(&format!("data-{}", CLAIMS - 2)).await?;
    let empty = async || {
        let claims = scene.claims().list(&ListParams::default()).await?.items.len();
        let calls = scene.driver.journal()?;
        let (made, deleted) = (succeeded(&calls, "CreateVolume"), succeeded(&calls, "DeleteVolume"));
        let objects = scene.volume_objects().await?;
        Ok(claims == 0 && objects == 0 && scene.backend_volumes()? == 0 && made.len() == deleted.len())
    };
    let seen = async || Ok(empty().await?.then_some(()));
    eventually("no claim, no volume object and no volume at the driver", PATIENCE, seen).await?;
    throughout("nothing comes back", Duration::from_secs(1), &empty).await?;
    let calls = scene.driver.journal()?;
    for rpc in ["CreateVolume", "DeleteVolume"] {
        let volumes = succeeded(&calls, rpc);
        let distinct: BTreeSet<_> = volumes.iter().collect();
        assert_eq!(distinct.len(), volumes.len(), "one successful {rpc} for each volume: {volumes:?}");
        assert!(calls.iter().filter(|call| call.rpc == rpc).all(|call| call.code == "OK"), "{calls:#?}");
    }
    assert!(!succeeded(&calls, "CreateVolume").is_empty(), "some claims lived long enough");
    assert_eq!(provisioner.process().exit_code()?, None, "no restart");
    Ok(())
}

fn succeeded<'a>(calls: &'a [Call], rpc: &str) -> Vec<&'a str> {
    calls.iter().filter(|call| call.rpc == rpc && call.code == "OK").filter_map(Call::volume).collect()
}

#[tokio::test]
async fn an_update_of_a_claim_does_not_jump_its_backoff() -> Result<()> {
    let scene = Scene::start("backoff", &["--fault=CreateVolume:code=INTERNAL,times=1"]).await?;
    let _provisioner = leading(scene.replica()?.brief().flag("--retry-interval-start=3s")).await?;
    scene.claim("data", &json!({})).await?;
    called(&scene, 1).await?;
    for n in 0..10 {
        let label = json!({ "metadata": { "labels": { "touched": n.to_string() } } });
        scene.claims().patch("data", &PatchParams::default(), &Patch::Merge(label)).await?;
    }
    scene.bound("data").await?;
    let calls = scene.driver.calls("CreateVolume")?;
    assert_eq!(calls.len(), 2, "{calls:#?}");
    let waited = calls[1].started().since(calls[0].ended());
    assert!(waited >= Duration::from_millis(2900), "tried again after {waited:?}");
    Ok(())
}

/// `ABORTED` leaves open whether the driver is at work; only repeating the call tells.
#[tokio::test]
async fn an_uncertain_call_is_repeated_when_class_and_secret_are_gone() -> Result<()> {
    let scene = Scene::start("vanished", &["--fault=CreateVolume:code=ABORTED,times=3"]).await?;
    Cluster::shared().await?.grant_secrets(&scene.account).await?;
    let parameters = json!({ "parameters": {
        "csi.storage.k8s.io/provisioner-secret-name": "key",
        "csi.storage.k8s.io/provisioner-secret-namespace": scene.namespace,
    } });
    scene.add_class(&parameters).await?;
    let secrets: Api<Secret> = Api::namespaced(scene.client.clone(), &scene.namespace);
    let secret = json!({ "metadata": { "name": "key" }, "stringData": { "password": "hunter2" } });
    secrets.create(&PostParams::default(), &serde_json::from_value(secret)?).await?;
    let _provisioner = leading(scene.replica()?.brief().flag("--retry-interval-start=500ms")).await?;
    scene.claim("data", &json!({})).await?;
    called(&scene, 1).await?;
    delete_class(&scene).await?;
    secrets.delete("key", &DeleteParams::default()).await?;
    scene.bound("data").await?;
    let calls = scene.driver.calls("CreateVolume")?;
    assert_eq!(calls.iter().map(|call| &*call.code).collect::<Vec<_>>(), ["ABORTED", "ABORTED", "ABORTED", "OK"]);
    assert!(calls.iter().all(|call| call.request == calls[0].request), "the first request each time: {calls:#?}");
    assert_eq!(calls[0].request["secrets"], "***stripped***");
    Ok(())
}

/// The driver makes the volume on a try whose answer says nothing of it.
#[tokio::test]
async fn a2_an_uncertain_call_is_repeated_when_claim_and_class_are_gone_and_its_volume_deleted() -> Result<()> {
    let scene = Scene::start("a2", &["--fault=CreateVolume:after=DEADLINE_EXCEEDED,times=3"]).await?;
    let _provisioner = leading(scene.replica()?.brief().flag("--retry-interval-start=500ms")).await?;
    scene.claim("data", &json!({})).await?;
    called(&scene, 1).await?;
    scene.delete_claim("data").await?;
    delete_class(&scene).await?;
    gone(&scene.claims(), "data", PATIENCE).await?;
    eventually("the volume to be deleted", PATIENCE, async || {
        let deleted = scene.codes("DeleteVolume")? == ["OK"];
        Ok((deleted && scene.backend_volumes()? == 0 && scene.volume_objects().await? == 0).then_some(()))
    })
    .await?;
    assert_eq!(scene.codes("CreateVolume")?.len(), 4);
    Ok(())
}

async fn called(scene: &Scene, times: usize) -> Result<()> {
    eventually("a call", PATIENCE, async || Ok((scene.codes("CreateVolume")?.len() >= times).then_some(()))).await
}

async fn delete_class(scene: &Scene) -> Result<()> {
    let classes: Api<StorageClass> = Api::all(scene.client.clone());
    classes.delete(&scene.class, &DeleteParams::default()).await?;
    Ok(())
}
