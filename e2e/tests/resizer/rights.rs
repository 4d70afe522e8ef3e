//! What upstream's rules allow is enough; and with one of them missing, all goes on that does not need it.

use anyhow::{Context as _, Result};
use e2e::resize_scene::{Fields, ResizeScene};
use e2e::scene::PATIENCE;
use e2e::{Cluster, audit};
use k8s_openapi::api::authorization::v1::SubjectAccessReview;
use k8s_openapi::api::core::v1::PersistentVolumeClaimStatus;
use k8s_openapi::api::rbac::v1::{ClusterRole, ClusterRoleBinding, PolicyRule};
use kube::Api;
use kube::api::{DeleteParams, PostParams};
use serde_json::{Value, json};

/// Upstream's role that is not about the lease.
const RUNNER: &str = "external-resizer-runner";
const ROLE_BINDING: &str = "csi-resizer-role";

async fn scene(purpose: &str, faults: &[&str]) -> Result<ResizeScene> {
    let scene = ResizeScene::start(Cluster::shared_with_audit().await?, purpose, faults).await?;
    scene.add_attributes_class("gold", &json!({ "iops": "700" })).await?;
    scene.add_claim("data", &Fields::default()).await?;
    Ok(scene)
}

/// Replaces the account's role by one without the rule for a resource, and gives how many rules it had.
async fn without(scene: &ResizeScene, resource: &str) -> Result<usize> {
    let roles: Api<ClusterRole> = Api::all(scene.client.clone());
    let bindings: Api<ClusterRoleBinding> = Api::all(scene.client.clone());
    let rules = roles.get(RUNNER).await?.rules.context("a role without rules")?;
    let about = |rule: &&PolicyRule| rule.resources == Some(vec![resource.to_owned()]);
    assert_eq!(rules.iter().filter(about).count(), 1, "one rule is about {resource}");
    let left: Vec<_> = rules.iter().filter(|rule| !about(rule)).cloned().collect();
    let name = scene.name("resizer-without");
    let role = json!({ "metadata": { "name": name }, "rules": left });
    roles.create(&PostParams::default(), &serde_json::from_value(role)?).await?;
    let binding = scene_binding(scene);
    let old = bindings.get(&binding).await?;
    bindings.delete(&binding, &DeleteParams::default()).await?;
    let new = json!({ "metadata": { "name": name }, "subjects": old.subjects,
        "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": name } });
    bindings.create(&PostParams::default(), &serde_json::from_value(new)?).await?;
    in_force(scene, resource).await?;
    Ok(rules.len())
}

fn scene_binding(scene: &ResizeScene) -> String {
    format!("{ROLE_BINDING}-{}", scene.namespace)
}

/// Waits until the authorizer knows what is left: the right that is taken away is gone, and one that stays is there.
async fn in_force(scene: &ResizeScene, resource: &str) -> Result<()> {
    let user = format!("system:serviceaccount:{}:{}", scene.namespace, scene.account.name);
    let kept = if resource == "persistentvolumes" { "persistentvolumeclaims" } else { "persistentvolumes" };
    for (one, wanted) in [(resource, false), (kept, true)] {
        let (base, subresource) = one.split_once('/').unwrap_or((one, ""));
        let group = if base == "volumeattributesclasses" { "storage.k8s.io" } else { "" };
        let verb = if subresource.is_empty() { "list" } else { "patch" };
        let attributes = json!({ "group": group, "resource": base, "subresource": subresource, "verb": verb });
        let review: SubjectAccessReview = serde_json::from_value(
            json!({ "metadata": {}, "spec": { "user": user, "resourceAttributes": attributes } }),
        )?;
        let reviews: Api<SubjectAccessReview> = Api::all(scene.client.clone());
        e2e::eventually(&format!("the rule about {one} to be in force"), PATIENCE, async || {
            let answer = reviews.create(&PostParams::default(), &review).await?;
            Ok((answer.status.is_some_and(|status| status.allowed) == wanted).then_some(()))
        })
        .await?;
    }
    Ok(())
}

fn is_gold(scene: &ResizeScene) -> impl Fn(&PersistentVolumeClaimStatus) -> bool {
    let gold = scene.name("gold");
    move |status| {
        let current = status.current_volume_attributes_class_name.as_ref();
        status.modify_volume_status.is_none() && current == Some(&gold)
    }
}

async fn refused(scene: &ResizeScene) -> Result<Vec<audit::Request>> {
    let requests = Cluster::shared_with_audit().await?.audit()?.into_iter();
    Ok(requests.filter(|one| one.caller.0 == scene.namespace && [401, 403].contains(&one.code)).collect())
}

#[tokio::test]
async fn the_rights_of_upstream_are_enough() -> Result<()> {
    let flags = ["--fault=ControllerExpandVolume:code=FAILED_PRECONDITION,times=1"];
    let scene = scene("rights", &flags).await?;
    let _resizer = e2e::scene::leading(scene.replica()?.flag("--retry-interval-start=200ms")).await?;
    scene.ask("data", "2Mi").await?;
    scene.has("data", "2Mi").await?;
    scene.ask_class("data", "gold").await?;
    scene.status("data", "gold", is_gold(&scene)).await?;
    scene.event("data", "VolumeModifySuccessful", "").await?;
    let refused = refused(&scene).await?;
    assert!(refused.is_empty(), "{refused:#?}");
    Ok(())
}

/// The driver says once that the volume is in use: pods would be looked at.
#[tokio::test]
async fn g11_volumes_grow_without_the_right_to_see_pods() -> Result<()> {
    let flags = ["--fault=ControllerExpandVolume:code=FAILED_PRECONDITION,times=1"];
    let scene = scene("rights-pods", &flags).await?;
    assert_eq!(without(&scene, "pods").await?, 6);
    let mut resizer = e2e::scene::leading(scene.replica()?.flag("--retry-interval-start=200ms")).await?;
    scene.ask("data", "2Mi").await?;
    scene.has("data", "2Mi").await?;
    scene.ask_class("data", "gold").await?;
    scene.status("data", "gold", is_gold(&scene)).await?;
    resizer.process().logged("pods may not be listed", PATIENCE).await?;
    let refused = refused(&scene).await?;
    assert!(refused.len() <= 2 && refused.iter().all(|one| one.resource == "pods"), "asked once: {refused:#?}");
    Ok(())
}

/// Sizes need no classes. A class that cannot be read is told in an event of the claim that names it.
#[tokio::test]
async fn g11_volumes_grow_without_the_right_to_see_classes() -> Result<()> {
    let scene = scene("rights-classes", &[]).await?;
    without(&scene, "volumeattributesclasses").await?;
    let _resizer = scene.leader().await?;
    scene.ask_class("data", "gold").await?;
    scene.event("data", "VolumeModifyFailed", "volumeattributesclasses").await?;
    scene.ask("data", "2Mi").await?;
    scene.has("data", "2Mi").await?;
    Ok(())
}

#[tokio::test]
async fn g11_volumes_grow_without_the_right_to_write_events() -> Result<()> {
    let scene = scene("rights-events", &[]).await?;
    without(&scene, "events").await?;
    let _resizer = scene.leader().await?;
    scene.ask("data", "2Mi").await?;
    scene.has("data", "2Mi").await?;
    scene.ask_class("data", "gold").await?;
    scene.status("data", "gold", is_gold(&scene)).await?;
    Ok(())
}

/// Without these nothing can be done. The process stays, and works when it may.
#[tokio::test]
async fn g11_a_right_that_is_given_later_is_enough() -> Result<()> {
    for resource in ["persistentvolumes", "persistentvolumeclaims", "persistentvolumeclaims/status"] {
        let scene = scene("rights-late", &[]).await?;
        without(&scene, resource).await?;
        let mut resizer =
            scene.replica()?.flag("--retry-interval-start=200ms").flag("--retry-interval-max=1s").start()?;
        scene.ask("data", "2Mi").await?;
        let what = format!("a refused request about {resource}");
        let met = e2e::eventually(&what, PATIENCE, async || {
            Ok(refused(&scene).await?.iter().any(|one| one.resource == resource).then_some(()))
        });
        met.await.with_context(|| resizer.process().tail())?;
        assert_eq!(resizer.process().exit_code()?, None, "no restart");
        assert!(scene.driver.calls("ControllerExpandVolume")?.is_empty(), "{resource}");
        let bindings: Api<ClusterRoleBinding> = Api::all(scene.client.clone());
        let old = bindings.get(&scene.name("resizer-without")).await?;
        let whole: Value = json!({ "metadata": { "name": scene_binding(&scene) }, "subjects": old.subjects,
            "roleRef": { "apiGroup": "rbac.authorization.k8s.io", "kind": "ClusterRole", "name": RUNNER } });
        bindings.create(&PostParams::default(), &serde_json::from_value(whole)?).await?;
        scene.has("data", "2Mi").await.with_context(|| resizer.process().tail())?;
    }
    Ok(())
}
