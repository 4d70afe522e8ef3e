//! A driver that has so much in each zone, and nodes, classes and objects around it.

use std::collections::{BTreeMap, HashMap};
use std::sync::Arc;
use std::time::Duration;

use csi_proto::csi::v1::{GetCapacityRequest, GetCapacityResponse};
use fake_apiserver::FakeApiServer;
use fake_driver::{FakeDriver, Rpc, Step};
use k8s_openapi::api::core::v1::{Node, Pod};
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity, StorageClass};
use parking_lot::Mutex;
use serde_json::{Value, json};
use storage_kube::names::Namespace;

use super::super::objects::{DRIVER, class, with};
use super::super::scene::Scene;
use crate::capacity::budget::WriteLimit;
use crate::settings::CapacityFlags;

pub(super) const NAMESPACE: &str = "storage";
pub(super) const POD: &str = "provisioner-0";
pub(super) const GIB: i64 = 1 << 30;
pub(super) const POLL: Duration = Duration::from_mins(1);
/// Of the controller of the pod.
pub(super) const OWNER: &str = "0b9d3f0a-0000-4000-8000-00000000aaaa";

/// What the driver has.
#[derive(Debug, Clone, Default)]
pub(super) struct Pool(Arc<Mutex<State>>);

#[derive(Debug, Default)]
struct State {
    zones: HashMap<String, i64>,
    maximum: Option<i64>,
    takes: Duration,
}

impl Pool {
    /// Sets the capacity of a zone; in zones not set there is one GiB.
    pub(super) fn set(&self, zone: &str, bytes: i64) {
        self.0.lock().zones.insert(zone.to_owned(), bytes);
    }

    pub(super) fn set_maximum(&self, bytes: Option<i64>) {
        self.0.lock().maximum = bytes;
    }

    /// How long each call takes.
    pub(super) fn set_takes(&self, time: Duration) {
        self.0.lock().takes = time;
    }

    fn answer(&self, request: &GetCapacityRequest) -> GetCapacityResponse {
        let state = self.0.lock();
        let segments = request.accessible_topology.as_ref().map(|topology| &topology.segments);
        let zone = segments.and_then(|segments| segments.get("zone")).map_or("", String::as_str);
        let times: i64 = request.parameters.get("times").map_or(1, |times| times.parse().unwrap());
        GetCapacityResponse {
            available_capacity: state.zones.get(zone).copied().unwrap_or(GIB) * times,
            maximum_volume_size: state.maximum,
            ..GetCapacityResponse::default()
        }
    }

    pub(super) fn serve(&self, driver: &FakeDriver) {
        let pool = self.clone();
        driver.script_always(Rpc::GetCapacity, move || {
            let answering = pool.clone();
            let takes = pool.0.lock().takes;
            let step = Step::respond(move |request: &GetCapacityRequest| Ok(answering.answer(request)));
            if takes.is_zero() { step } else { step.after(takes) }
        });
    }
}

pub(super) fn flags() -> CapacityFlags {
    CapacityFlags {
        immediate_binding: false,
        poll_interval: POLL,
        owner_level: Some(1),
        threads: None,
        write_limit: WriteLimit::FollowsItems,
        namespace: Namespace::from(NAMESPACE),
        pod: Some(POD.to_owned()),
    }
}

/// A provisioner with these flags beside a pool, over what `prepare` has made.
pub(super) async fn scene(flags: CapacityFlags, pool: &Pool, prepare: impl FnOnce(&FakeApiServer)) -> Scene {
    Scene::arranged(
        |settings| settings.capacity = Some(flags),
        |api, driver| {
            add_pod(api);
            pool.serve(driver);
            prepare(api);
        },
    )
    .await
}

pub(super) fn add_pod(api: &FakeApiServer) {
    api.create_json::<Pod>(json!({
        "metadata": { "namespace": NAMESPACE, "name": POD, "ownerReferences": [owner()] },
    }));
}

/// The reference to the pod's controller, as objects have it.
pub(super) fn owner() -> Value {
    json!({ "apiVersion": "apps/v1", "kind": "StatefulSet", "name": "provisioner", "uid": OWNER, "controller": true })
}

/// A node in a zone where the driver is registered; the node has the zone's name.
pub(super) fn add_zone(api: &FakeApiServer, zone: &str) {
    add_node(api, zone, &json!({ "zone": zone }));
    add_csi_node(api, zone, &["zone"]);
}

pub(super) fn add_node(api: &FakeApiServer, name: &str, labels: &Value) {
    api.create_json::<Node>(json!({ "metadata": { "name": name, "labels": labels } }));
}

pub(super) fn add_csi_node(api: &FakeApiServer, name: &str, keys: &[&str]) {
    let driver = json!({ "name": DRIVER, "nodeID": name, "topologyKeys": keys });
    api.create_json::<CSINode>(json!({ "metadata": { "name": name }, "spec": { "drivers": [driver] } }));
}

pub(super) fn remove_zone(api: &FakeApiServer, zone: &str) {
    api.remove::<Node>(None, zone);
    api.remove::<CSINode>(None, zone);
}

/// A class that binds late; parameter `times` multiplies what the pool has.
pub(super) fn late(name: &str, times: i64) -> Value {
    let late = json!({ "volumeBindingMode": "WaitForFirstConsumer" });
    with(class(name, json!({ "times": times.to_string() })), &late)
}

pub(super) fn add_class(api: &FakeApiServer, class: Value) {
    api.create_json::<StorageClass>(class);
}

/// An object as this provisioner writes it.
pub(super) fn object(name: &str, class: &str, zone: &str, capacity: &str) -> Value {
    json!({
        "metadata": {
            "namespace": NAMESPACE,
            "name": name,
            "labels": {
                "csi.storage.k8s.io/drivername": DRIVER,
                "csi.storage.k8s.io/managed-by": "external-provisioner",
            },
            "ownerReferences": [owner()],
        },
        "storageClassName": class,
        "nodeTopology": { "matchLabels": { "zone": zone } },
        "capacity": capacity,
    })
}

pub(super) fn add_object(api: &FakeApiServer, object: Value) -> Value {
    api.create_json::<CSIStorageCapacity>(object)
}

pub(super) fn all(api: &FakeApiServer) -> Vec<CSIStorageCapacity> {
    api.list::<CSIStorageCapacity>()
}

/// `class zone capacity`, with `/maximum` if there is one, of all objects, sorted.
pub(super) fn told(api: &FakeApiServer) -> Vec<String> {
    let mut all: Vec<_> = all(api).iter().map(line).collect();
    all.sort();
    all
}

fn line(object: &CSIStorageCapacity) -> String {
    let labels: BTreeMap<_, _> =
        object.node_topology.as_ref().and_then(|topology| topology.match_labels.clone()).unwrap_or_default();
    let zone = labels.get("zone").map_or("-", String::as_str);
    let capacity = object.capacity.as_ref().map_or("-", |capacity| &capacity.0);
    let maximum = object.maximum_volume_size.as_ref().map(|maximum| format!("/{}", maximum.0)).unwrap_or_default();
    format!("{} {zone} {capacity}{maximum}", object.storage_class_name)
}

/// Waits until the objects say this.
pub(super) async fn until(scene: &Scene, expected: &[&str]) {
    let bound = Duration::from_mins(10);
    scene.api.until(&format!("{expected:?}"), bound, |api| (told(api) == expected).then_some(())).await;
}

/// Goal, current, obsolete, as a scraper sees them.
pub(super) fn gauges(scene: &Scene) -> [u32; 3] {
    ["desired_goal", "desired_current", "obsolete"].map(|name| {
        let name = format!("csistoragecapacities_{name}");
        let families = scene.registry.gather();
        let family = families.iter().find(|family| family.name() == name).expect(&name);
        #[expect(clippy::cast_possible_truncation, clippy::cast_sign_loss, reason = "counts")]
        let value = family.get_metric()[0].get_gauge().get_value() as u32;
        value
    })
}
