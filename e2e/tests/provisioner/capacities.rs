//! CSIStorageCapacity objects, with what the API server allows of owners and rights.

use anyhow::Result;
use e2e::scene::{PATIENCE, Scene, leading};
use e2e::{Sidecar, eventually};
use k8s_openapi::api::core::v1::{ConfigMap, Node, Pod};
use k8s_openapi::api::rbac::v1::Role;
use k8s_openapi::api::storage::v1::{CSINode, CSIStorageCapacity};
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::json;

const POD: &str = "provisioner-0";

/// A provisioner of one pod, and an object that the provisioner of an earlier pod has left.
struct Left {
    scene: Scene,
    node: String,
}

impl Left {
    async fn start(purpose: &str) -> Result<Self> {
        let key = format!("{purpose}.outrigger.dev/zone");
        let capabilities = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,GET_CAPACITY";
        let flags = [&*format!("--topology={key}=z1"), capabilities, "--capacity=4194304"];
        let scene = Scene::start(purpose, &flags).await?;
        let left = Self { node: format!("{purpose}-1"), scene };
        let node = json!({ "metadata": { "name": left.node, "labels": { &key: "z1" } } });
        left.nodes().create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        let driver = json!({ "name": left.scene.driver.name(), "nodeID": left.node, "topologyKeys": [&key] });
        let csi_node = json!({ "metadata": { "name": left.node }, "spec": { "drivers": [driver] } });
        left.csi_nodes().create(&PostParams::default(), &serde_json::from_value(csi_node)?).await?;

        let spec = json!({ "serviceAccountName": left.scene.account.name,
            "containers": [{ "name": "sidecar", "image": "sidecar" }] });
        let pod = json!({ "metadata": { "name": POD }, "spec": spec });
        let pods: Api<Pod> = Api::namespaced(left.scene.client.clone(), &left.scene.namespace);
        pods.create(&PostParams::default(), &serde_json::from_value(pod)?).await?;
        let earlier = json!({ "metadata": { "name": "earlier" } });
        let maps: Api<ConfigMap> = Api::namespaced(left.scene.client.clone(), &left.scene.namespace);
        let earlier = maps.create(&PostParams::default(), &serde_json::from_value(earlier)?).await?;
        let owner = json!({ "apiVersion": "v1", "kind": "ConfigMap", "name": "earlier", "uid": earlier.uid(),
            "controller": true });
        let labels = json!({ "csi.storage.k8s.io/drivername": left.scene.driver.name(),
            "csi.storage.k8s.io/managed-by": "external-provisioner" });
        let object = json!({ "metadata": { "name": "left", "labels": labels, "ownerReferences": [owner] },
            "storageClassName": left.scene.class, "nodeTopology": { "matchLabels": { &key: "z1" } }, "capacity": "1Mi" });
        left.capacities().create(&PostParams::default(), &serde_json::from_value(object)?).await?;
        Ok(left)
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.scene.client.clone())
    }

    fn csi_nodes(&self) -> Api<CSINode> {
        Api::all(self.scene.client.clone())
    }

    fn capacities(&self) -> Api<CSIStorageCapacity> {
        Api::namespaced(self.scene.client.clone(), &self.scene.namespace)
    }

    async fn leader(&self) -> Result<Sidecar> {
        let settings = self.scene.replica()?.flag("--enable-capacity").flag("--capacity-ownerref-level=0");
        let settings = settings.flag("--capacity-for-immediate-binding").flag("--capacity-poll-interval=1s");
        leading(settings.environment("NAMESPACE", &self.scene.namespace).environment("POD_NAME", POD)).await
    }

    async fn says(&self, capacity: &str) -> Result<CSIStorageCapacity> {
        let says = |object: &CSIStorageCapacity| object.capacity.as_ref().is_some_and(|said| said.0 == capacity);
        eventually::object(&self.capacities(), "left", &format!("to say {capacity}"), PATIENCE, says).await
    }

    async fn corrected(&self) -> Result<()> {
        let object = self.says("4Mi").await?;
        let owners: Vec<_> = object.owner_references().iter().map(|owner| (&*owner.name, owner.controller)).collect();
        assert_eq!(owners, [(POD, Some(true))]);
        self.scene.claim("data", &json!({})).await?;
        self.scene.bound("data").await?;
        self.says("3Mi").await?;
        self.nodes().delete(&self.node, &DeleteParams::default()).await?;
        self.csi_nodes().delete(&self.node, &DeleteParams::default()).await?;
        Ok(())
    }
}

#[tokio::test]
async fn m1_an_object_of_an_earlier_owner_gets_the_number_and_the_owner() -> Result<()> {
    let left = Left::start("m1-owner").await?;
    let _provisioner = left.leader().await?;
    left.corrected().await
}

#[tokio::test]
async fn m7_a_role_that_grants_update_alone_is_enough() -> Result<()> {
    let left = Left::start("m7-update").await?;
    let roles: Api<Role> = Api::namespaced(left.scene.client.clone(), &left.scene.namespace);
    for role in roles.list(&ListParams::default()).await? {
        let mut rules = role.rules.clone().unwrap_or_default();
        let capacities = |rule: &&mut k8s_openapi::api::rbac::v1::PolicyRule| {
            rule.resources.iter().flatten().any(|resource| resource == "csistoragecapacities")
        };
        for rule in rules.iter_mut().filter(capacities) {
            rule.verbs.retain(|verb| verb != "patch");
        }
        let patch = Patch::Merge(json!({ "rules": rules }));
        roles.patch(&role.name_any(), &PatchParams::default(), &patch).await?;
    }
    let mut provisioner = left.leader().await?;
    left.corrected().await?;
    provisioner.process().logged("read and written whole", PATIENCE).await
}
