//! What kube-controller-manager's attach-detach controller makes of what the attacher says. The nodes have no kubelet: the tests
//! say what theirs would say.

use anyhow::{Context as _, Result};
use e2e::attach_scene::AttachScene;
use e2e::scene::{PATIENCE, leading};
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, Pod, Sidecar, eventually};
use k8s_openapi::api::core::v1::{self, Node, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::VolumeAttachment;
use kube::api::{DeleteParams, ListParams, Patch, PatchParams, PostParams};
use kube::{Api, ResourceExt as _};
use serde_json::{Value, json};
use std::time::Duration;

const LISTS: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,PUBLISH_UNPUBLISH_VOLUME,PUBLISH_READONLY,\
    LIST_VOLUMES,LIST_VOLUMES_PUBLISHED_NODES";
/// In this number of listings, a second apart and more, the controller has compared what is attached at least once.
const LISTINGS: usize = 4;
/// The claim, and the volume that the driver has for it.
const DATA: &str = "data";
/// The attach-detach controller waits six minutes for a volume that is in use (`ReconcilerMaxWaitForUnmountDuration`), and
/// no flag says otherwise.
const FORCED: Duration = Duration::from_mins(8);

/// A pod on a node, with a volume that the attach-detach controller had attached for it.
struct Attached {
    scene: AttachScene,
    attacher: Sidecar,
    handle: String,
    attachment: String,
}

impl Attached {
    async fn start(cluster: &Cluster, purpose: &str, node_id: &str) -> Result<Self> {
        let scene = AttachScene::start(cluster, purpose, &[LISTS]).await?;
        scene.add_node("node", node_id).await?;
        let settings = Settings::new(Role::Attacher, &scene.account.kubeconfig, &scene.driver.address())?;
        let attacher = leading(scene.competing(settings).flag("--reconcile-sync=1s")).await?;
        let handle = scene.add_volume(DATA, &json!({}), &json!({})).await?;
        let attached = Self { attachment: String::new(), scene, attacher, handle };
        attached.create_node(&json!([])).await?;
        attached.create_claim().await?;
        let node = attached.node();
        let pod = Pod::new("user").claim(DATA, "/data").field("nodeName", json!(node));
        pod.create(&attached.scene.client, &attached.scene.namespace).await?;
        let told = |node: &Node| node.status.as_ref().is_some_and(|status| status.volumes_attached.is_some());
        eventually::object(&attached.nodes(), &node, "told what is attached", PATIENCE, told).await?;
        let attachments = attached.scene.attachments().list(&ListParams::default()).await?;
        let ours = attachments.into_iter().find(|attachment| attachment.spec.node_name == node);
        Ok(Self { attachment: ours.context("an attachment of the node")?.name_any(), ..attached })
    }

    fn node(&self) -> String {
        self.scene.name("node")
    }

    fn nodes(&self) -> Api<Node> {
        Api::all(self.scene.client.clone())
    }

    async fn create_node(&self, taints: &Value) -> Result<()> {
        let annotations = json!({ "volumes.kubernetes.io/controller-managed-attach-detach": "true" });
        let node =
            json!({ "metadata": { "name": self.node(), "annotations": annotations }, "spec": { "taints": taints } });
        self.nodes().create(&PostParams::default(), &serde_json::from_value(node)?).await?;
        Ok(())
    }

    async fn create_claim(&self) -> Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.scene.client.clone(), &self.scene.namespace);
        let spec = json!({ "accessModes": ["ReadWriteOnce"], "storageClassName": "", "volumeName": self.scene.name(DATA),
            "resources": { "requests": { "storage": "1Mi" } } });
        let claim = json!({ "metadata": { "name": DATA }, "spec": spec });
        claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
        Ok(())
    }

    /// What a kubelet says that has mounted the volume, or nothing.
    async fn say_in_use(&self, in_use: bool) -> Result<()> {
        let volume = format!("kubernetes.io/csi/{}^{}", self.scene.driver.name(), self.handle);
        let status = json!({ "status": { "volumesInUse": if in_use { vec![volume] } else { Vec::new() } } });
        self.nodes().patch_status(&self.node(), &PatchParams::default(), &Patch::Merge(status)).await?;
        Ok(())
    }

    async fn delete_pod(&self) -> Result<()> {
        let pods: Api<v1::Pod> = Api::namespaced(self.scene.client.clone(), &self.scene.namespace);
        pods.delete("user", &DeleteParams::default().grace_period(0)).await?;
        eventually::gone(&pods, "user", PATIENCE).await
    }

    /// Node, CSINode and pod go while the volume is mounted, and the driver takes it away by itself.
    async fn lose_node(&self) -> Result<()> {
        self.say_in_use(true).await?;
        self.nodes().delete(&self.node(), &DeleteParams::default()).await?;
        eventually::gone(&self.nodes(), &self.node(), PATIENCE).await?;
        self.scene.remove_node("node").await?;
        self.delete_pod().await?;
        self.scene.calls.unpublish(&self.handle, "node-1").await?;
        self.listings().await
    }

    async fn listings(&self) -> Result<()> {
        let listed = || anyhow::Ok(self.scene.driver.calls("ListVolumes")?.len());
        let before = listed()?;
        eventually("listings", PATIENCE, async || Ok((listed()? >= before + LISTINGS).then_some(()))).await
    }

    async fn attachment(&self) -> Result<VolumeAttachment> {
        Ok(self.scene.attachments().get(&self.attachment).await?)
    }

    async fn detached(&self, bound: Duration) -> Result<()> {
        eventually::gone(&self.scene.attachments(), &self.attachment, bound).await
    }

    /// Nothing holds the volume any more.
    async fn delete_volume(&self) -> Result<()> {
        let claims: Api<PersistentVolumeClaim> = Api::namespaced(self.scene.client.clone(), &self.scene.namespace);
        claims.delete(DATA, &DeleteParams::default()).await?;
        self.scene.volumes().delete(&self.scene.name(DATA), &DeleteParams::default()).await?;
        eventually::gone(&self.scene.volumes(), &self.scene.name(DATA), PATIENCE).await
    }

    fn published(&self) -> Result<usize> {
        let course = self.scene.course_of(&self.handle)?;
        Ok(course.iter().filter(|call| *call == "ControllerPublishVolume OK").count())
    }
}

fn is_attached(attachment: &VolumeAttachment) -> bool {
    attachment.status.as_ref().is_some_and(|status| status.attached)
}

/// Without `attached` the controller would forget the volume, and nobody would delete the attachment, ever.
async fn n11_the_controller_remembers(attached: &mut Attached) -> Result<()> {
    attached.lose_node().await?;
    let attachment = attached.attachment().await?;
    assert!(is_attached(&attachment) && attachment.metadata.deletion_timestamp.is_none(), "{attachment:#?}");
    attached.attacher.process().logged("out-of-service", PATIENCE).await
}

#[tokio::test]
async fn n11_a_volume_of_a_node_that_is_gone_is_detached_when_the_node_is_out_of_service() -> Result<()> {
    let cluster = Cluster::start_for_nodes().await?;
    let mut attached = Attached::start(&cluster, "node-lost", "node-1").await?;
    n11_the_controller_remembers(&mut attached).await?;
    attached.create_node(&json!([{ "key": "node.kubernetes.io/out-of-service", "effect": "NoExecute" }])).await?;
    attached.detached(PATIENCE).await?;
    assert_eq!(attached.scene.published_to(&attached.handle)?, [""; 0]);
    assert_eq!(attached.published()?, 1, "no pod has asked for it again");
    attached.delete_volume().await
}

#[tokio::test]
#[ignore = "takes the six minutes of the attach-detach controller"]
async fn n11_a_volume_of_a_node_that_is_gone_is_detached_by_force_after_six_minutes() -> Result<()> {
    let cluster = Cluster::start_for_nodes().await?;
    let mut attached = Attached::start(&cluster, "node-lost", "node-1").await?;
    n11_the_controller_remembers(&mut attached).await?;
    attached.detached(FORCED).await?;
    assert_eq!(attached.published()?, 1);
    attached.delete_volume().await
}

#[tokio::test]
async fn n12_a_node_that_the_driver_calls_otherwise_keeps_its_volume_and_is_detached_at_both_ids() -> Result<()> {
    let cluster = Cluster::start_for_nodes().await?;
    let attached = Attached::start(&cluster, "node-renamed", "node-1").await?;
    attached.say_in_use(true).await?;
    attached.scene.remove_node("node").await?;
    attached.scene.add_node("node", "uuid-1").await?;
    attached.listings().await?;
    assert!(is_attached(&attached.attachment().await?));
    assert_eq!(attached.published()?, 1, "the volume is listed at the former id, which is the node's");
    attached.delete_pod().await?;
    attached.say_in_use(false).await?;
    attached.detached(PATIENCE).await?;
    let calls = attached.scene.calls_about(&attached.handle)?;
    let unpublished = calls.iter().filter(|call| call.rpc == "ControllerUnpublishVolume");
    let mut ids: Vec<_> = unpublished.map(|call| call.request["node_id"].as_str().unwrap_or_default()).collect();
    ids.sort_unstable();
    assert_eq!(ids, ["node-1", "uuid-1"]);
    assert_eq!(attached.scene.published_to(&attached.handle)?, [""; 0]);
    attached.delete_volume().await
}
