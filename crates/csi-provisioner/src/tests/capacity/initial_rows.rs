//! What there is at the start, and what there is when all has been done about it.

use std::time::Duration;

use serde_json::{Value, json};

use super::super::objects::{class, with};
use super::pool::{
    GIB, Pool, add_class, add_object, add_zone, all, flags, gauges, late, object, owner, scene, told, until,
};
use crate::settings::CapacityFlags;

struct Row {
    name: &'static str,
    zones: &'static [&'static str],
    classes: Vec<Value>,
    existing: Vec<Value>,
    flags: CapacityFlags,
    capacity: &'static [(&'static str, i64)],
    maximum: Option<i64>,
    objects: &'static [&'static str],
    /// create, patch, delete.
    writes: [usize; 3],
    goal: u32,
}

fn row(name: &'static str) -> Row {
    Row {
        name,
        zones: &[],
        classes: Vec::new(),
        existing: Vec::new(),
        flags: flags(),
        capacity: &[],
        maximum: None,
        objects: &[],
        writes: [0, 0, 0],
        goal: 0,
    }
}

fn one_of_each(name: &'static str) -> Row {
    Row { zones: &["z1"], classes: vec![late("fast", 1)], objects: &["fast z1 1Gi"], goal: 1, ..row(name) }
}

fn two_of_each(name: &'static str) -> Row {
    Row {
        zones: &["z1", "z2"],
        classes: vec![late("direct", 1), late("triple", 3)],
        capacity: &[("z1", GIB), ("z2", 2 * GIB)],
        objects: &["direct z1 1Gi", "direct z2 2Gi", "triple z1 3Gi", "triple z2 6Gi"],
        goal: 4,
        ..row(name)
    }
}

fn no_owner() -> CapacityFlags {
    CapacityFlags { owner_level: None, ..flags() }
}

fn without(mut object: Value, field: &str) -> Value {
    object["metadata"].as_object_mut().unwrap().remove(field);
    object
}

fn rows() -> Vec<Row> {
    let managed_by_other =
        json!({ "metadata": { "labels": { "csi.storage.k8s.io/managed-by": "external-provisioner-node-7" } } });
    vec![
        row("nothing"),
        Row { zones: &["z1"], ..row("a segment only") },
        Row { classes: vec![late("fast", 1)], ..row("a class only") },
        Row { writes: [1, 0, 0], ..one_of_each("one segment and one class") },
        Row { writes: [1, 0, 0], flags: no_owner(), ..one_of_each("no owner asked for") },
        Row {
            writes: [1, 0, 0],
            maximum: Some(1 << 20),
            objects: &["fast z1 1Gi/1Mi"],
            ..one_of_each("the driver reports a maximum size")
        },
        Row { zones: &["z1"], classes: vec![class("now", json!({}))], ..row("a class that binds at once") },
        Row {
            zones: &["z1"],
            classes: vec![class("now", json!({}))],
            flags: CapacityFlags { immediate_binding: true, ..flags() },
            objects: &["now z1 1Gi"],
            writes: [1, 0, 0],
            goal: 1,
            ..row("a class that binds at once, asked for")
        },
        Row { existing: vec![object("a", "fast", "z1", "1Gi")], ..one_of_each("an object that is right") },
        Row {
            existing: vec![object("a", "fast", "z1", "1Gi")],
            capacity: &[("z1", 2 * GIB)],
            objects: &["fast z1 2Gi"],
            writes: [0, 1, 0],
            ..one_of_each("an object that says something else")
        },
        Row {
            existing: vec![without(object("a", "fast", "z1", "1Gi"), "ownerReferences")],
            writes: [0, 1, 0],
            ..one_of_each("an object without its owner")
        },
        Row {
            existing: vec![object("a", "fast", "z1", "1Gi")],
            flags: no_owner(),
            ..one_of_each("an object with an owner, none asked for")
        },
        Row {
            zones: &["z1"],
            existing: vec![object("a", "fast", "z1", "1Gi")],
            writes: [0, 0, 1],
            ..row("an object whose class is missing")
        },
        Row {
            classes: vec![late("fast", 1)],
            existing: vec![object("a", "fast", "z1", "1Gi")],
            writes: [0, 0, 1],
            ..row("an object whose segment is missing")
        },
        Row {
            existing: vec![with(object("a", "slow", "z9", "7Gi"), &managed_by_other)],
            objects: &["slow z9 7Gi"],
            ..row("an object of another provisioner")
        },
        Row {
            existing: vec![without(object("a", "slow", "z9", "7Gi"), "labels")],
            objects: &["slow z9 7Gi"],
            ..row("an object without labels")
        },
        Row { writes: [4, 0, 0], ..two_of_each("two segments and two classes") },
        Row {
            existing: vec![
                object("a", "direct", "z1", "9Gi"),
                object("b", "direct", "z2", "9Gi"),
                object("c", "triple", "z1", "9Gi"),
                object("d", "triple", "z2", "9Gi"),
            ],
            writes: [0, 4, 0],
            ..two_of_each("two segments and two classes, all of them wrong")
        },
        Row {
            existing: vec![
                object("a", "direct", "z1", "9Gi"),
                object("b", "triple", "z2", "9Gi"),
                object("c", "gone", "z1", "9Gi"),
                object("d", "direct", "z9", "9Gi"),
            ],
            writes: [2, 2, 2],
            ..two_of_each("two to create, two to change, two to delete")
        },
    ]
}

#[tokio::test(start_paused = true)]
async fn every_start_has_its_outcome() {
    let rows = rows();
    assert_eq!(rows.len(), 19);
    for row in rows {
        let pool = Pool::default();
        pool.set_maximum(row.maximum);
        for (zone, bytes) in row.capacity {
            pool.set(zone, *bytes);
        }
        let owned = row.flags.owner_level.is_some();
        let untouched = row.writes == [0, 0, 0];
        let mut before = Vec::new();
        let scene = scene(row.flags, &pool, |api| {
            row.zones.iter().for_each(|zone| add_zone(api, zone));
            row.classes.into_iter().for_each(|class| add_class(api, class));
            row.existing.into_iter().for_each(|object| drop(add_object(api, object)));
            before = all(api);
        })
        .await;
        scene.pass(Duration::from_secs(30)).await;
        let name = row.name;
        assert_eq!(told(&scene.api), row.objects, "{name}");
        let writes = scene.writes();
        let counted = ["create", "patch", "delete"]
            .map(|verb| writes.iter().filter(|write| **write == format!("{verb} csistoragecapacities")).count());
        assert_eq!(counted, row.writes, "{name}");
        assert_eq!(writes.len(), counted.iter().sum::<usize>(), "{name}: {writes:?}");
        assert_eq!(gauges(&scene), [row.goal, row.goal, 0], "{name}");
        if untouched {
            assert_eq!(all(&scene.api), before, "{name}");
        } else if owned {
            for object in all(&scene.api) {
                assert_eq!(json!(object.metadata.owner_references), json!([owner()]), "{name}");
            }
        } else {
            assert!(all(&scene.api).iter().all(|object| object.metadata.owner_references.is_none()), "{name}");
        }
    }
}

#[tokio::test(start_paused = true)]
async fn a_class_without_a_binding_mode_gets_objects_and_one_of_another_driver_none() {
    let scene = scene(flags(), &Pool::default(), |api| {
        add_zone(api, "z1");
        add_class(api, with(late("nil", 1), &json!({ "volumeBindingMode": null })));
        add_class(api, with(late("other", 1), &json!({ "provisioner": "other.csi.example.com" })));
    })
    .await;
    until(&scene, &["nil z1 1Gi"]).await;
}
