//! What clients rely on, as functions of a client: run against the fake here and against a real API server in the
//! e2e crate, so that the two cannot drift apart. Each leaves no object behind and needs only its namespace.

use std::{fmt::Debug, time::Duration};

use k8s_openapi::api::{
    coordination::v1::Lease,
    core::v1::{ConfigMap, Event, PersistentVolume, PersistentVolumeClaim},
    storage::v1::VolumeAttachment,
};
use kube::{
    Api, Client, Resource, ResourceExt,
    api::{DeleteParams, Patch, PatchParams, PostParams, Preconditions},
};
use serde::de::DeserializeOwned;
use serde_json::{Value, json};

mod lists;
mod owners_and_fields;
pub(crate) mod set_back;
mod watches;

pub(crate) use lists::*;
pub(crate) use owners_and_fields::*;
pub(crate) use watches::*;

/// Hands the names of all behaviours to a macro: the one list, so that none is left out against one of the servers.
macro_rules! with_every_behaviour {
    ($with:ident) => {
        $with!(
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
            a_page_of_chosen_objects_is_full_and_the_last_may_be_empty,
            pages_say_how_many_are_left_where_none_is_left_out,
            a_list_is_of_the_state_asked_for,
            a_list_of_any_state_comes_whole,
            a_list_over_namespaces_is_in_the_order_of_paths,
            options_of_lists_that_exclude_each_other_are_refused,
            a_list_of_the_future_is_refused,
            a_watch_replays_what_happened_since_a_version,
            a_watch_list_marks_the_end_of_the_initial_events,
            a_watch_ends_at_its_timeout,
            a_watch_with_a_timeout_of_zero_goes_on,
            a_watch_from_too_far_back_is_expired,
            a_watch_from_the_future_is_silent_until_that_has_passed,
            a_watch_list_from_the_future_is_refused,
            bookmarks_come_only_above_where_a_watch_began,
            options_of_watches_that_exclude_each_other_are_refused,
            a_claim_is_stored_as_sent,
            conditions_merge_by_type_in_a_strategic_patch,
            label_selectors_choose,
            metadata_alone_goes_to_those_that_ask_for_it,
            metadata_alone_comes_in_pages,
            owners_are_whole_and_one_at_most_is_the_controller,
            a_volume_keeps_its_source_and_mode,
            a_claim_changes_its_size_and_class_when_it_is_bound,
            fields_of_storage_objects_that_may_not_change,
        );
    };
}

const ON_WATCHES: Duration = Duration::from_secs(20);

/// One object from JSON.
fn object<K: DeserializeOwned>(json: Value) -> K {
    serde_json::from_value(json).unwrap()
}

fn config_map(name: &str) -> ConfigMap {
    object(json!({ "metadata": { "name": name }, "data": { "a": "1" } }))
}

/// A GET of the collection with a query.
async fn get(maps: &Api<ConfigMap>, query: &str) -> kube::Result<Value> {
    let request = http::Request::get(format!("{}?{query}", maps.resource_url())).body(Vec::new()).unwrap();
    maps.clone().into_client().request(request).await
}

/// The names in a list that came as JSON.
fn names(list: &Value) -> String {
    let items = list["items"].as_array().unwrap();
    items.iter().map(|item| item["metadata"]["name"].as_str().unwrap()).collect::<Vec<_>>().join(" ")
}

fn version<K: Resource>(object: &K) -> u64 {
    object.meta().resource_version.as_ref().unwrap().parse().unwrap()
}

/// The version of a list of now.
async fn latest(maps: &Api<ConfigMap>) -> u64 {
    get(maps, "limit=1").await.unwrap()["metadata"]["resourceVersion"].as_str().unwrap().parse().unwrap()
}

/// Higher than any version while the suite runs.
async fn far_ahead(maps: &Api<ConfigMap>) -> u64 {
    latest(maps).await + 1_000_000
}

fn volume(name: &str) -> PersistentVolume {
    object(json!({ "metadata": { "name": name }, "spec": {
        "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "csi": { "driver": "none.example.com", "volumeHandle": name } } }))
}

fn code<T: Debug>(answer: Result<T, kube::Error>) -> (u16, String) {
    match answer {
        Err(kube::Error::Api(status)) => (status.code, status.reason.clone()),
        other => panic!("not a refusal: {other:?}"),
    }
}

fn refused(code: u16, reason: &str) -> (u16, String) {
    (code, reason.to_owned())
}

async fn json_patch(maps: &Api<ConfigMap>, name: &str, operations: &Value) -> kube::Result<ConfigMap> {
    let request = http::Request::patch(format!("{}/{name}", maps.resource_url()))
        .header("content-type", "application/json-patch+json")
        .body(operations.to_string().into_bytes())
        .unwrap();
    maps.clone().into_client().request(request).await
}

/// Takes an object away whatever holds it.
async fn remove<K>(api: &Api<K>, name: &str)
where
    K: Resource + Clone + DeserializeOwned + Debug,
{
    let release = json!({ "metadata": { "finalizers": null } });
    let _ = api.delete(name, &DeleteParams::default()).await;
    let _ = api.patch(name, &PatchParams::default(), &Patch::Merge(release)).await;
    assert!(api.get_opt(name).await.unwrap().is_none(), "{name} is still there");
}

pub(crate) async fn a_created_object_gets_identity_and_version(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let created = maps.create(&PostParams::default(), &config_map("identity")).await.unwrap();
    assert!(created.uid().is_some() && created.creation_timestamp().is_some());
    assert_eq!(created.namespace().as_deref(), Some(namespace));
    assert_eq!(maps.get("identity").await.unwrap().resource_version(), created.resource_version());
    assert_eq!(code(maps.create(&PostParams::default(), &config_map("identity")).await), refused(409, "AlreadyExists"));
    let generated = object(json!({ "metadata": { "generateName": "made-" } }));
    let generated = maps.create(&PostParams::default(), &generated).await.unwrap();
    assert!(generated.name_any().starts_with("made-") && generated.name_any().len() == 10);
    remove(&maps, "identity").await;
    remove(&maps, &generated.name_any()).await;
    assert_eq!(code(maps.get("identity").await), refused(404, "NotFound"));
    assert_eq!(code(maps.delete("identity", &DeleteParams::default()).await), refused(404, "NotFound"));
}

pub(crate) async fn a_stale_update_is_refused(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let first = maps.create(&PostParams::default(), &config_map("stale")).await.unwrap();
    let mut second = first.clone();
    second.data = Some([("a".to_owned(), "2".to_owned())].into());
    let second = maps.replace("stale", &PostParams::default(), &second).await.unwrap();
    assert_ne!(first.resource_version(), second.resource_version());
    assert_eq!(code(maps.replace("stale", &PostParams::default(), &first).await), refused(409, "Conflict"));
    let mut foreign = second.clone();
    foreign.metadata.uid = Some("11111111-1111-1111-1111-111111111111".to_owned());
    assert_eq!(code(maps.replace("stale", &PostParams::default(), &foreign).await), refused(409, "Conflict"));
    // Without a version the update is unconditional for this kind.
    maps.replace("stale", &PostParams::default(), &config_map("stale")).await.unwrap();
    remove(&maps, "stale").await;
    assert_eq!(
        code(maps.replace("stale", &PostParams::default(), &second).await),
        refused(404, "NotFound"),
        "an update does not create this kind"
    );
}

pub(crate) async fn an_update_that_says_nothing_new_keeps_the_version(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let first = maps.create(&PostParams::default(), &config_map("same")).await.unwrap();
    let again = maps.replace("same", &PostParams::default(), &config_map("same")).await.unwrap();
    assert_eq!(first.resource_version(), again.resource_version());
    remove(&maps, "same").await;
}

pub(crate) async fn a_lease_cannot_be_updated_without_its_version(client: Client, namespace: &str) {
    let leases: Api<Lease> = Api::namespaced(client, namespace);
    let lease: Lease = object(json!({ "metadata": { "name": "lock" }, "spec": { "holderIdentity": "a" } }));
    let created = leases.create(&PostParams::default(), &lease).await.unwrap();
    assert_eq!(code(leases.replace("lock", &PostParams::default(), &lease).await), refused(422, "Invalid"));
    let mut renewed = created.clone();
    renewed.spec.as_mut().unwrap().holder_identity = Some("b".to_owned());
    let renewed = leases.replace("lock", &PostParams::default(), &renewed).await.unwrap();
    assert_eq!(renewed.spec.as_ref().unwrap().holder_identity.as_deref(), Some("b"));
    remove(&leases, "lock").await;
    assert_eq!(code(leases.replace("lock", &PostParams::default(), &renewed).await), refused(409, "Conflict"));
}

pub(crate) async fn delete_honours_preconditions(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let created = maps.create(&PostParams::default(), &config_map("guarded")).await.unwrap();
    let only_if = |uid: Option<String>, resource_version: Option<String>| DeleteParams {
        preconditions: Some(Preconditions { uid, resource_version }),
        ..DeleteParams::default()
    };
    let foreign = only_if(Some("11111111-1111-1111-1111-111111111111".to_owned()), None);
    assert_eq!(code(maps.delete("guarded", &foreign).await), refused(409, "Conflict"));
    assert_eq!(code(maps.delete("guarded", &only_if(None, Some("1".to_owned()))).await), refused(409, "Conflict"));
    maps.delete("guarded", &only_if(created.uid(), created.resource_version())).await.unwrap();
    assert!(maps.get_opt("guarded").await.unwrap().is_none());
}

pub(crate) async fn finalizers_hold_an_object_that_is_being_deleted(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let held = object(json!({ "metadata": { "name": "held", "finalizers": ["example.com/a", "example.com/b"] } }));
    maps.create(&PostParams::default(), &held).await.unwrap();
    let deleting = maps.delete("held", &DeleteParams::default()).await.unwrap();
    let deleting = deleting.left().expect("the object while it is held");
    assert!(deleting.metadata.deletion_timestamp.is_some());
    let again = maps.delete("held", &DeleteParams::default()).await.unwrap();
    assert_eq!(again.left().expect("the same object").resource_version(), deleting.resource_version());

    let more = json!({ "metadata": { "finalizers": ["example.com/a", "example.com/b", "example.com/c"] } });
    assert_eq!(code(maps.patch("held", &PatchParams::default(), &Patch::Merge(more)).await), refused(422, "Invalid"));
    let fewer = json!({ "metadata": { "finalizers": ["example.com/b"] } });
    maps.patch("held", &PatchParams::default(), &Patch::Merge(fewer)).await.unwrap();
    assert!(maps.get_opt("held").await.unwrap().is_some());
    let none = json!({ "metadata": { "finalizers": null } });
    maps.patch("held", &PatchParams::default(), &Patch::Merge(none)).await.unwrap();
    assert!(maps.get_opt("held").await.unwrap().is_none());
}

pub(crate) async fn the_patch_forms_change_what_they_say(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let made = object(
        json!({ "metadata": { "name": "patched", "finalizers": ["example.com/a"] }, "data": { "a": "1", "b": "2" } }),
    );
    let made: ConfigMap = maps.create(&PostParams::default(), &made).await.unwrap();
    let params = PatchParams::default();

    let merged =
        maps.patch("patched", &params, &Patch::Merge(json!({ "data": { "a": null, "c": "3" } }))).await.unwrap();
    assert_eq!(json!(merged.data), json!({ "b": "2", "c": "3" }));

    let strategic = json!({ "data": { "b": null }, "metadata": { "finalizers": ["example.com/b"],
        "$setElementOrder/finalizers": ["example.com/a", "example.com/b"] } });
    let merged = maps.patch("patched", &params, &Patch::Strategic(strategic)).await.unwrap();
    assert_eq!(json!(merged.data), json!({ "c": "3" }));
    assert_eq!(merged.finalizers(), ["example.com/a", "example.com/b"]);
    let strategic = json!({ "metadata": { "$deleteFromPrimitiveList/finalizers": ["example.com/a"] } });
    let merged = maps.patch("patched", &params, &Patch::Strategic(strategic)).await.unwrap();
    assert_eq!(merged.finalizers(), ["example.com/b"]);

    let fits = json!([
        { "op": "test", "path": "/data/c", "value": "3" }, { "op": "add", "path": "/data/d", "value": "4" },
        { "op": "remove", "path": "/data/c" }, { "op": "remove", "path": "/metadata/finalizers/0" }]);
    let patched = json_patch(&maps, "patched", &fits).await.unwrap();
    assert_eq!(json!(patched.data), json!({ "d": "4" }));
    let fails = json!([{ "op": "test", "path": "/data/d", "value": "5" }]);
    assert_eq!(code(json_patch(&maps, "patched", &fails).await), refused(422, "Invalid"));
    let misses = json!([{ "op": "remove", "path": "/data/missing" }]);
    assert_eq!(code(json_patch(&maps, "patched", &misses).await), refused(422, "Invalid"));

    let stale = json!({ "metadata": { "resourceVersion": made.resource_version() }, "data": { "e": "5" } });
    assert_eq!(code(maps.patch("patched", &params, &Patch::Merge(stale)).await), refused(409, "Conflict"));
    let foreign = json!({ "metadata": { "uid": "11111111-1111-1111-1111-111111111111" }, "data": { "e": "5" } });
    assert_eq!(code(maps.patch("patched", &params, &Patch::Merge(foreign)).await), refused(422, "Invalid"));
    remove(&maps, "patched").await;
    let missing = maps.patch("patched", &params, &Patch::Merge(json!({}))).await;
    assert_eq!(code(missing), refused(404, "NotFound"));
}

pub(crate) async fn status_changes_only_through_its_subresource(client: Client, namespace: &str) {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let name = format!("{namespace}-status");
    let mut made = volume(&name);
    made.status = object(json!({ "phase": "Failed" }));
    let made = volumes.create(&PostParams::default(), &made).await.unwrap();
    assert_eq!(made.status.unwrap().phase.as_deref(), Some("Pending"), "a new volume starts anew");
    let params = PatchParams::default();
    let both = json!({ "metadata": { "labels": { "l": "1" } }, "status": { "message": "m" } });
    let main = volumes.patch(&name, &params, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(main.status.unwrap().message, None);
    let both = json!({ "spec": { "storageClassName": "other" }, "status": { "message": "m" } });
    let status = volumes.patch_status(&name, &params, &Patch::Merge(&both)).await.unwrap();
    assert_eq!(status.status.unwrap().message.as_deref(), Some("m"));
    assert_eq!(status.spec.unwrap().storage_class_name.as_deref(), Some("none"));
    remove(&volumes, &name).await;

    let attachments: Api<VolumeAttachment> = Api::all(client);
    let made: VolumeAttachment = object(json!({ "metadata": { "name": name }, "spec": {
        "attacher": "none.example.com", "nodeName": "node", "source": { "persistentVolumeName": name } },
        "status": { "attached": true } }));
    let made = attachments.create(&PostParams::default(), &made).await.unwrap();
    assert!(!made.status.unwrap().attached);
    let both = json!({ "metadata": { "labels": { "l": "1" } }, "status": { "attached": true } });
    let status = attachments.patch_status(&name, &params, &Patch::Merge(&both)).await.unwrap();
    assert!(status.status.as_ref().unwrap().attached);
    assert!(status.labels().is_empty(), "the status of this kind carries no metadata");
    remove(&attachments, &name).await;
}

pub(crate) async fn an_event_is_created_and_counted_up(client: Client, namespace: &str) {
    let events: Api<Event> = Api::namespaced(client, namespace);
    let made: Event =
        object(json!({ "metadata": { "name": "counted" }, "reason": "Made", "message": "m", "type": "Normal",
        "count": 1, "involvedObject": { "kind": "ConfigMap", "namespace": namespace, "name": "x" } }));
    events.create(&PostParams::default(), &made).await.unwrap();
    let patched = events.patch("counted", &PatchParams::default(), &Patch::Merge(json!({ "count": 2 }))).await.unwrap();
    assert_eq!(patched.count, Some(2));
    remove(&events, "counted").await;
}

pub(crate) async fn a_claim_is_stored_as_sent(client: Client, namespace: &str) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, namespace);
    let claim: PersistentVolumeClaim = object(json!({ "metadata": { "name": "claim" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none", "volumeMode": "Filesystem",
        "resources": { "requests": { "storage": "1Gi" } } } }));
    let made = claims.create(&PostParams::default(), &claim).await.unwrap();
    assert_eq!(made.spec, claim.spec);
    remove(&claims, "claim").await;
}

pub(crate) async fn conditions_merge_by_type_in_a_strategic_patch(client: Client, namespace: &str) {
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, namespace);
    let claim: PersistentVolumeClaim = object(json!({ "metadata": { "name": "conditions" }, "spec": {
        "accessModes": ["ReadWriteOnce"], "storageClassName": "none",
        "resources": { "requests": { "storage": "1Gi" } } } }));
    claims.create(&PostParams::default(), &claim).await.unwrap();
    let patch = async |conditions: Value| {
        let patch = Patch::Strategic(json!({ "status": { "conditions": conditions } }));
        let patched = claims.patch_status("conditions", &PatchParams::default(), &patch).await.unwrap();
        let conditions = patched.status.unwrap().conditions.unwrap_or_default();
        let mut seen: Vec<_> = conditions.into_iter().map(|c| format!("{}={}", c.type_, c.status)).collect();
        seen.sort();
        seen
    };
    assert_eq!(patch(json!([{ "type": "Resizing", "status": "True" }])).await, ["Resizing=True"]);
    let second = json!([{ "type": "ModifyingVolume", "status": "True" }, { "type": "Resizing", "status": "False" }]);
    assert_eq!(patch(second).await, ["ModifyingVolume=True", "Resizing=False"]);
    let removal = json!([{ "type": "ModifyingVolume", "$patch": "delete" }]);
    assert_eq!(patch(removal).await, ["Resizing=False"]);
    remove(&claims, "conditions").await;
}
