//! What the API server may refuse of a change.

use fake_apiserver::{FakeApiServer, Matcher, Reaction, Status};
use serde_json::{Value, json};

use super::super::objects::with;
use super::super::scene::Scene;
use super::pool::{
    GIB, POLL, Pool, add_class, add_object, add_zone, all, flags, late, object, owner, scene, told, until,
};

const RESOURCE: &str = "csistoragecapacities";

fn theirs(controller: bool) -> Value {
    let (name, uid) = if controller { ("earlier-rollout", "u-set") } else { ("theirs", "u-map") };
    json!({ "apiVersion": "apps/v1", "kind": "ReplicaSet", "name": name, "uid": uid, "controller": controller })
}

/// An object of 7 GiB whose controller is another ReplicaSet; the driver has 1 GiB.
async fn of_another(prepare: impl FnOnce(&FakeApiServer)) -> Scene {
    scene(flags(), &Pool::default(), |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
        let owners = json!({ "metadata": { "ownerReferences": [theirs(false), theirs(true)] } });
        add_object(api, with(object("a", "fast", "z1", "7Gi"), &owners));
        prepare(api);
    })
    .await
}

fn owners(api: &FakeApiServer) -> Vec<(String, bool)> {
    let references = all(api)[0].metadata.owner_references.clone().unwrap_or_default();
    references.into_iter().map(|one| (one.name, one.controller == Some(true))).collect()
}

fn ours() -> String {
    owner()["name"].as_str().unwrap().to_owned()
}

#[tokio::test(start_paused = true)]
async fn m1_another_controller_is_replaced_and_other_owners_stay() {
    let scene = of_another(|_| ()).await;
    until(&scene, &["fast z1 1Gi"]).await;
    assert_eq!(owners(&scene.api), [("theirs".to_owned(), false), (ours(), true)]);
    assert_eq!(scene.writes(), [format!("patch {RESOURCE}")]);
}

#[tokio::test(start_paused = true)]
async fn m1_an_owner_that_is_refused_does_not_hold_up_the_number() {
    let invalid = Status::new(422, "Invalid", "Only one reference can have Controller set to true");
    let scene = of_another(|api| api.react(Matcher::of("patch", RESOURCE).times(1), Reaction::Refuse(invalid))).await;
    until(&scene, &["fast z1 1Gi"]).await;
    scene.pass(3 * POLL).await;
    assert_eq!(scene.writes().len(), 2, "the owner is not asked for again in this term");
    assert_eq!(owners(&scene.api), [("theirs".to_owned(), false), ("earlier-rollout".to_owned(), true)]);
}

#[tokio::test(start_paused = true)]
async fn m7_where_patch_is_not_granted_objects_are_written_whole() {
    let pool = Pool::default();
    let scene = scene(flags(), &pool, |api| {
        add_zone(api, "z1");
        add_class(api, late("fast", 1));
        let theirs = json!({ "metadata": { "ownerReferences": [theirs(true)], "annotations": { "note": "theirs" } } });
        add_object(api, with(object("a", "fast", "z1", "7Gi"), &theirs));
        api.react(Matcher::of("patch", RESOURCE), Reaction::Refuse(Status::forbidden("no patch")));
    })
    .await;
    until(&scene, &["fast z1 1Gi"]).await;
    pool.set("z1", 2 * GIB);
    until(&scene, &["fast z1 2Gi"]).await;
    assert_eq!(told(&scene.api), ["fast z1 2Gi"]);
    assert_eq!(owners(&scene.api), [(ours(), true)]);
    assert_eq!(all(&scene.api)[0].metadata.annotations.as_ref().unwrap()["note"], "theirs");
    let writes = [format!("patch {RESOURCE}"), format!("update {RESOURCE}"), format!("update {RESOURCE}")];
    assert_eq!(scene.writes(), writes, "the right to patch is tried once");
}

#[tokio::test(start_paused = true)]
async fn m7_an_object_that_changes_between_reading_and_writing_is_read_again() {
    let conflict = Status::new(409, "Conflict", "the object has been modified");
    let scene = of_another(|api| {
        api.react(Matcher::of("patch", RESOURCE), Reaction::Refuse(Status::forbidden("no patch")));
        api.react(Matcher::of("update", RESOURCE).times(1), Reaction::Refuse(conflict));
    })
    .await;
    until(&scene, &["fast z1 1Gi"]).await;
    assert_eq!(owners(&scene.api), [("theirs".to_owned(), false), (ours(), true)]);
}
