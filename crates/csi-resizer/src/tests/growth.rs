//! A claim, its volume and a driver that grows it: what the tests about growing share.

use std::time::Duration;

use csi_proto::csi::v1::node_service_capability::rpc::Type as NodeRpc;
use csi_proto::csi::v1::{
    ControllerExpandVolumeRequest, ControllerExpandVolumeResponse, NodeGetCapabilitiesResponse, NodeServiceCapability,
    controller_service_capability::rpc::Type as ControllerRpc, node_service_capability,
};
use fake_apiserver::{FakeApiServer, Matcher, Request};
use fake_driver::{FakeDriver, Identity, Rpc, Step};
use k8s_openapi::api::core::v1::{PersistentVolume, PersistentVolumeClaim};
use serde_json::{Value, json};
use storage_kube::names::ClaimUid;
use storage_kube::uid::Uid;
use tonic::Code;

use super::objects::{CLAIM, NAMESPACE, VOLUME};
use super::scene::Scene;

/// Less than the shortest delay of the defaults: what happens in it is one try.
pub(super) const ONE_TRY: Duration = Duration::from_millis(500);
pub(super) const GI: i64 = 1 << 30;

/// The driver makes volumes as big as asked.
pub(super) fn grows(driver: &FakeDriver, node_required: bool) {
    driver.script_always(Rpc::ControllerExpandVolume, move || {
        Step::respond(move |request: &ControllerExpandVolumeRequest| {
            let capacity_bytes = request.capacity_range.unwrap_or_default().required_bytes;
            Ok(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required: node_required })
        })
    });
}

/// The driver answers this size, whatever it is asked for.
pub(super) fn answers(driver: &FakeDriver, capacity_bytes: i64, node_expansion_required: bool) {
    driver.script_always(Rpc::ControllerExpandVolume, move || {
        Step::respond(move |_: &ControllerExpandVolumeRequest| {
            Ok(ControllerExpandVolumeResponse { capacity_bytes, node_expansion_required })
        })
    });
}

/// The driver refuses.
pub(super) fn refuses(driver: &FakeDriver, code: Code) {
    driver.script_always(Rpc::ControllerExpandVolume, move || Step::fail(code, "no"));
}

/// Volumes grow on their nodes alone.
pub(super) fn node_only(identity: &mut Identity) {
    identity.set(ControllerRpc::ExpandVolume, false);
}

/// A node service without capabilities.
pub(super) fn node_has_nothing(driver: &FakeDriver) {
    driver.script_always(Rpc::NodeGetCapabilities, || {
        Step::respond(|_: &csi_proto::csi::v1::NodeGetCapabilitiesRequest| Ok(NodeGetCapabilitiesResponse::default()))
    });
}

/// The node service of such a driver.
pub(super) fn node_expands(_: &FakeApiServer, driver: &FakeDriver) {
    driver.script_always(Rpc::NodeGetCapabilities, || {
        Step::respond(|_: &csi_proto::csi::v1::NodeGetCapabilitiesRequest| {
            let rpc = node_service_capability::Rpc { r#type: NodeRpc::ExpandVolume.into() };
            let r#type = Some(node_service_capability::Type::Rpc(rpc));
            Ok(NodeGetCapabilitiesResponse { capabilities: vec![NodeServiceCapability { r#type }] })
        })
    });
}

impl Scene {
    /// Adds a claim and the volume it is bound to, with the claim's UID in `claimRef`. Returns the UID.
    pub(super) fn add_pair(&self, claim: Value, mut volume: Value) -> ClaimUid {
        let claim = self.api.create_json::<PersistentVolumeClaim>(claim);
        let uid = claim["metadata"]["uid"].as_str().unwrap().to_owned();
        volume["spec"]["claimRef"]["uid"] = json!(uid);
        self.add_volume(volume);
        ClaimUid(Uid::from(uid.as_str()))
    }

    /// Lets everything happen that can happen within `time`.
    pub(super) async fn pass(&self, time: Duration) {
        tokio::time::sleep(time).await;
    }

    /// How many bytes the driver was asked for, call by call.
    pub(super) fn asked(&self) -> Vec<i64> {
        let requests = self.driver.requests::<ControllerExpandVolumeRequest>();
        requests.iter().map(|request| request.capacity_range.unwrap().required_bytes).collect()
    }

    /// The user asks for another size.
    pub(super) fn ask_for(&self, size: &str) {
        self.merge_claim(&json!({ "spec": { "resources": { "requests": { "storage": size } } } }));
    }

    /// Somebody changes the claim.
    pub(super) fn merge_claim(&self, change: &Value) {
        self.api.merge::<PersistentVolumeClaim>(NAMESPACE, CLAIM, change);
    }

    /// The claim in JSON.
    pub(super) fn claim_json(&self) -> Value {
        self.api.get_json::<PersistentVolumeClaim>(NAMESPACE, CLAIM).expect("the claim is there")
    }

    /// The volume in JSON.
    pub(super) fn volume_json(&self) -> Value {
        self.api.get_json::<PersistentVolume>("", VOLUME).expect("the volume is there")
    }

    /// `status` of the claim: capacity, allocated, resize status.
    pub(super) fn sizes(&self) -> [Option<String>; 3] {
        let status = &self.claim_json()["status"];
        ["capacity", "allocatedResources", "allocatedResourceStatuses"]
            .map(|field| status[field]["storage"].as_str().map(str::to_owned))
    }

    /// Types of the conditions that are there, in order.
    pub(super) fn conditions(&self) -> Vec<String> {
        let claim = self.claim_json();
        let all = claim["status"]["conditions"].as_array().cloned().unwrap_or_default();
        all.iter().map(|condition| condition["type"].as_str().unwrap().to_owned()).collect()
    }

    /// Events as `Kind Reason message`, in the order in which they were made; repeats are not told apart.
    pub(super) fn events(&self) -> Vec<String> {
        let text = |value: &Value| value.as_str().unwrap_or_default().to_owned();
        let event = |request: &Request| {
            let body = &request.body;
            format!("{} {} {}", text(&body["type"]), text(&body["reason"]), text(&body["message"]))
        };
        self.api.requests_of(&Matcher::of("create", "events")).iter().map(|request| event(request)).collect()
    }

    /// Whether an event with this reason was made.
    pub(super) fn told(&self, reason: &str) -> bool {
        self.events().iter().any(|event| event.split(' ').nth(1) == Some(reason))
    }

    /// Writes to claims and volumes so far, as lines.
    pub(super) fn patches(&self) -> Vec<String> {
        let requests = self.api.requests();
        let patches = requests.iter().filter(|request| request.verb == "patch" && request.resource != "events");
        patches.map(|request| request.summary()).collect()
    }
}
