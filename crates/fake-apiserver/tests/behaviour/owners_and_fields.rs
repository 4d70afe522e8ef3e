//! Owners, and fields that no update may change.

use k8s_openapi::api::storage::v1::{CSIDriver, CSINode, CSIStorageCapacity, StorageClass, VolumeAttributesClass};

use super::*;

fn owner(name: &str, controller: bool) -> Value {
    let uid = format!("11111111-1111-1111-1111-{:0>12}", name.len());
    json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": name, "uid": uid, "controller": controller })
}

async fn merge<K>(api: &Api<K>, name: &str, patch: &Value) -> kube::Result<K>
where
    K: Clone + DeserializeOwned + Debug,
{
    api.patch(name, &PatchParams::default(), &Patch::Merge(patch)).await
}

pub(crate) async fn owners_are_whole_and_one_at_most_is_the_controller(client: Client, namespace: &str) {
    let maps: Api<ConfigMap> = Api::namespaced(client, namespace);
    let owned = |owners: &[Value]| object(json!({ "metadata": { "name": "owned", "ownerReferences": owners } }));
    for field in ["apiVersion", "kind", "name", "uid"] {
        let mut half = owner("a", true);
        half[field] = json!("");
        assert_eq!(
            code(maps.create(&PostParams::default(), &owned(&[half])).await),
            refused(422, "Invalid"),
            "{field}"
        );
    }
    let two = [owner("a", true), owner("bb", true)];
    assert_eq!(code(maps.create(&PostParams::default(), &owned(&two)).await), refused(422, "Invalid"));
    maps.create(&PostParams::default(), &owned(&[owner("a", true), owner("ccc", false)])).await.unwrap();

    let strategic = async |owners: Value| {
        let patch = Patch::Strategic(json!({ "metadata": { "ownerReferences": owners } }));
        maps.patch("owned", &PatchParams::default(), &patch).await
    };
    assert_eq!(code(strategic(json!([owner("bb", true)])).await), refused(422, "Invalid"));
    let uid = &owner("a", true)["uid"];
    let replaced = strategic(json!([{ "$patch": "delete", "uid": uid }, owner("bb", true)])).await.unwrap();
    let mut owners: Vec<_> = replaced.owner_references().iter().map(|owner| owner.name.clone()).collect();
    owners.sort_unstable();
    assert_eq!(owners, ["bb", "ccc"]);
    remove(&maps, "owned").await;
}

pub(crate) async fn a_volume_keeps_its_source_and_mode(client: Client, namespace: &str) {
    let volumes: Api<PersistentVolume> = Api::all(client);
    let name = format!("{namespace}-source");
    volumes.create(&PostParams::default(), &volume(&name)).await.unwrap();
    for spec in [
        json!({ "csi": { "volumeHandle": "another" } }),
        json!({ "csi": { "driver": "another.example.com" } }),
        json!({ "csi": { "volumeAttributes": { "a": "1" } } }),
        json!({ "volumeMode": "Block" }),
    ] {
        let answer = merge(&volumes, &name, &json!({ "spec": spec })).await;
        assert_eq!(code(answer), refused(422, "Invalid"), "{spec}");
    }
    let may_change = json!({ "spec": {
        "capacity": { "storage": "2Gi" }, "persistentVolumeReclaimPolicy": "Delete", "storageClassName": "other" } });
    merge(&volumes, &name, &may_change).await.unwrap();
    remove(&volumes, &name).await;
}

/// Bound to a volume of its own: whoever binds claims leaves it so.
pub(crate) async fn a_claim_changes_its_size_and_class_when_it_is_bound(client: Client, namespace: &str) {
    let volumes: Api<PersistentVolume> = Api::all(client.clone());
    let classes: Api<StorageClass> = Api::all(client.clone());
    let claims: Api<PersistentVolumeClaim> = Api::namespaced(client, namespace);
    let name = format!("{namespace}-of-claim");
    let grows =
        json!({ "metadata": { "name": name }, "provisioner": "none.example.com", "allowVolumeExpansion": true });
    classes.create(&PostParams::default(), &object(grows)).await.unwrap();
    let class = &name;
    let claim = |name: &str, volume: Option<&str>| {
        object(json!({ "metadata": { "name": name }, "spec": {
            "accessModes": ["ReadWriteOnce"], "storageClassName": class, "volumeName": volume,
            "resources": { "requests": { "storage": "1Gi" } } } }))
    };
    let spec = |spec: Value| json!({ "spec": spec });
    let size = |size: &str| spec(json!({ "resources": { "requests": { "storage": size } } }));

    claims.create(&PostParams::default(), &claim("unbound", None)).await.unwrap();
    for change in
        [size("2Gi"), spec(json!({ "accessModes": ["ReadOnlyMany"] })), spec(json!({ "storageClassName": "x" }))]
    {
        assert_eq!(code(merge(&claims, "unbound", &change).await), refused(422, "Invalid"), "{change}");
    }
    remove(&claims, "unbound").await;

    let mut of_claim = volume(&name);
    of_claim.spec.as_mut().unwrap().storage_class_name = Some(class.clone());
    of_claim.spec.as_mut().unwrap().claim_ref =
        object(json!({ "apiVersion": "v1", "kind": "PersistentVolumeClaim", "namespace": namespace, "name": "bound" }));
    volumes.create(&PostParams::default(), &of_claim).await.unwrap();
    claims.create(&PostParams::default(), &claim("bound", Some(&name))).await.unwrap();
    let bound =
        json!({ "status": { "phase": "Bound", "capacity": { "storage": "1Gi" }, "accessModes": ["ReadWriteOnce"] } });
    claims.patch_status("bound", &PatchParams::default(), &Patch::Merge(bound)).await.unwrap();
    assert_eq!(code(merge(&claims, "bound", &spec(json!({ "volumeName": "another" }))).await), refused(422, "Invalid"));
    merge(&claims, "bound", &size("3Gi")).await.unwrap();
    merge(&claims, "bound", &size("2Gi")).await.unwrap();
    for too_small in ["1Gi", "512Mi"] {
        assert_eq!(code(merge(&claims, "bound", &size(too_small)).await), refused(422, "Invalid"), "{too_small}");
    }
    merge(&claims, "bound", &spec(json!({ "volumeAttributesClassName": "gold" }))).await.unwrap();
    merge(&claims, "bound", &spec(json!({ "volumeAttributesClassName": "silver" }))).await.unwrap();
    remove(&claims, "bound").await;
    remove(&volumes, &name).await;
    remove(&classes, &name).await;
}

pub(crate) async fn fields_of_storage_objects_that_may_not_change(client: Client, namespace: &str) {
    let name = format!("{namespace}-fixed");
    let made = json!({ "metadata": { "name": name }, "provisioner": "a.example.com", "parameters": { "a": "1" },
        "reclaimPolicy": "Delete", "volumeBindingMode": "Immediate" });
    let changes = [
        json!({ "provisioner": "b.example.com" }),
        json!({ "parameters": { "a": "2" } }),
        json!({ "reclaimPolicy": "Retain" }),
        json!({ "volumeBindingMode": "WaitForFirstConsumer" }),
    ];
    fixed::<StorageClass>(&Api::all(client.clone()), made, &changes, &json!({ "allowVolumeExpansion": true })).await;

    let made = json!({ "metadata": { "name": name }, "driverName": "a.example.com", "parameters": { "a": "1" } });
    let changes = [json!({ "driverName": "b.example.com" }), json!({ "parameters": { "a": "2" } })];
    let label = json!({ "metadata": { "labels": { "l": "1" } } });
    fixed::<VolumeAttributesClass>(&Api::all(client.clone()), made, &changes, &label).await;

    let made = json!({ "metadata": { "name": name }, "spec": { "attacher": "a.example.com", "nodeName": "n",
        "source": { "persistentVolumeName": "v" } } });
    let changes = [json!({ "spec": { "nodeName": "m" } }), json!({ "spec": { "attacher": "b.example.com" } })];
    fixed::<VolumeAttachment>(&Api::all(client.clone()), made, &changes, &label).await;

    let made = json!({ "metadata": { "name": name }, "spec": { "attachRequired": true, "volumeLifecycleModes": ["Persistent"] } });
    let changes =
        [json!({ "spec": { "attachRequired": false } }), json!({ "spec": { "volumeLifecycleModes": ["Ephemeral"] } })];
    fixed::<CSIDriver>(&Api::all(client.clone()), made, &changes, &json!({ "spec": { "storageCapacity": true } }))
        .await;

    let made = json!({ "metadata": { "name": name }, "storageClassName": "a", "capacity": "1Gi",
        "nodeTopology": { "matchLabels": { "zone": "a" } } });
    let changes = [json!({ "storageClassName": "b" }), json!({ "nodeTopology": { "matchLabels": { "zone": "b" } } })];
    let capacities: Api<CSIStorageCapacity> = Api::namespaced(client.clone(), namespace);
    fixed(&capacities, made, &changes, &json!({ "capacity": "2Gi" })).await;

    let drivers = |drivers: Value| json!({ "spec": { "drivers": drivers } });
    let driver = |id: &str, key: &str| json!({ "name": "a.example.com", "nodeID": id, "topologyKeys": [key] });
    let made = json!({ "metadata": { "name": name }, "spec": { "drivers": [driver("n", "zone")] } });
    let changes = [drivers(json!([driver("m", "zone")])), drivers(json!([driver("n", "rack")]))];
    let other = json!({ "name": "b.example.com", "nodeID": "m", "topologyKeys": null });
    let may = drivers(json!([driver("n", "zone"), other]));
    fixed::<CSINode>(&Api::all(client), made, &changes, &may).await;
}

/// An object as `made` refuses the changes and takes the last one.
async fn fixed<K>(api: &Api<K>, made: Value, changes: &[Value], may: &Value)
where
    K: Resource<DynamicType = ()> + Clone + DeserializeOwned + serde::Serialize + Debug,
{
    let made = api.create(&PostParams::default(), &object(made)).await.unwrap();
    let name = made.name_any();
    for change in changes {
        // Some of these kinds have to be updated with their version.
        let mut change = change.clone();
        change["metadata"]["resourceVersion"] = json!(made.resource_version());
        assert_eq!(code(merge(api, &name, &change).await), refused(422, "Invalid"), "{} {change}", K::kind(&()));
    }
    let mut may = may.clone();
    may["metadata"]["resourceVersion"] = json!(made.resource_version());
    merge(api, &name, &may).await.unwrap();
    remove(api, &name).await;
}
