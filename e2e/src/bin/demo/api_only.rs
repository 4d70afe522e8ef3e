//! Without a node: a claim becomes a volume, and goes away again.

use std::time::Duration;

use anyhow::{Context as _, Result};
use e2e::sidecar::{Role, Settings};
use e2e::{Cluster, Driver, eventually};
use k8s_openapi::api::core::v1::{Event, PersistentVolume, PersistentVolumeClaim};
use k8s_openapi::api::storage::v1::StorageClass;
use kube::Api;
use kube::api::{DeleteParams, ListParams, PostParams};
use serde_json::json;

use crate::timeline::Timeline;

const NAMESPACE: &str = "default";
const CLAIM: &str = "data";
const PATIENCE: Duration = Duration::from_mins(1);

pub(crate) async fn show(timeline: &Timeline) -> Result<()> {
    timeline.say("starting etcd, kube-apiserver and kube-controller-manager");
    let cluster = Cluster::start().await?;
    timeline.say(format_args!("the API server is ready at {}", cluster.address()));
    let driver = Driver::start("local.outrigger.dev", &[]).await?;
    timeline.say(format_args!("CSI driver {} serves {}", driver.name(), driver.address()));
    let account = cluster.upstream_provisioner_account(NAMESPACE).await?;
    let settings = Settings::new(Role::Provisioner, &account.kubeconfig, &driver.address())?;
    let mut provisioner = settings.flag("--leader-election").flag("--leader-election-namespace=default").start()?;
    provisioner.process().logged("work starts", PATIENCE).await?;
    timeline.say("csi-provisioner leads, with no more rights than its upstream RBAC gives");

    let client = cluster.client().await?;
    let scene = Scene {
        claims: Api::namespaced(client.clone(), NAMESPACE),
        volumes: Api::all(client.clone()),
        events: Api::namespaced(client.clone(), NAMESPACE),
        driver,
        timeline,
    };
    scene.create_class(client).await?;
    let volume = scene.provision().await?;
    scene.delete(&volume).await?;

    timeline.end("csi-provisioner", Some(&mut provisioner)).await
}

struct Scene<'a> {
    claims: Api<PersistentVolumeClaim>,
    volumes: Api<PersistentVolume>,
    events: Api<Event>,
    driver: Driver,
    timeline: &'a Timeline,
}

impl Scene<'_> {
    async fn create_class(&self, client: kube::Client) -> Result<()> {
        let class = json!({ "metadata": { "name": "local" }, "provisioner": self.driver.name() });
        let classes: Api<StorageClass> = Api::all(client);
        classes.create(&PostParams::default(), &serde_json::from_value(class)?).await?;
        self.timeline.say(format_args!("StorageClass local names the driver as its provisioner"));
        Ok(())
    }

    /// Creates the claim and follows it until it is Bound; gives the name of its volume.
    async fn provision(&self) -> Result<String> {
        let claim = json!({
            "metadata": { "name": CLAIM },
            "spec": {
                "accessModes": ["ReadWriteOnce"],
                "storageClassName": "local",
                "resources": { "requests": { "storage": "1Gi" } },
            },
        });
        self.claims.create(&PostParams::default(), &serde_json::from_value(claim)?).await?;
        self.timeline.say(format_args!("PersistentVolumeClaim {NAMESPACE}/{CLAIM} created: 1Gi of class local"));
        let phase = |claim: &PersistentVolumeClaim| claim.status.as_ref().and_then(|status| status.phase.clone());
        let bound = eventually::object(&self.claims, CLAIM, "the claim to be Bound", PATIENCE, |claim| {
            phase(claim).as_deref() == Some("Bound")
        });
        let volume = bound.await?.spec.and_then(|spec| spec.volume_name).context("a Bound claim names its volume")?;
        self.timeline.show_calls(&self.driver)?;
        self.timeline.say(format_args!("the claim is Bound to PersistentVolume {volume}"));
        self.show_volume(&volume).await?;
        self.show_events().await?;
        Ok(volume)
    }

    /// Deletes the claim and follows its volume until nothing of it is left.
    async fn delete(&self, volume: &str) -> Result<()> {
        self.claims.delete(CLAIM, &DeleteParams::default()).await?;
        self.timeline.say("the claim is deleted, its class says that the volume goes with it");
        eventually::gone(&self.volumes, volume, PATIENCE).await?;
        self.timeline.show_calls(&self.driver)?;
        let left = std::fs::read_dir(self.driver.state_directory().join("volumes"))?.count();
        self.timeline.say(format_args!("PersistentVolume {volume} is gone, the driver has {left} volumes left"));
        Ok(())
    }

    async fn show_volume(&self, name: &str) -> Result<()> {
        let volume = self.volumes.get(name).await?;
        let spec = volume.spec.context("a volume has a spec")?;
        let csi = spec.csi.context("it is a CSI volume")?;
        let policy = spec.persistent_volume_reclaim_policy.unwrap_or_default();
        self.timeline
            .say(format_args!("  driver {}, handle {}, reclaim policy {policy}", csi.driver, csi.volume_handle));
        Ok(())
    }

    async fn show_events(&self) -> Result<()> {
        let of_claim =
            ListParams::default().fields(&format!("involvedObject.name={CLAIM},reason=ProvisioningSucceeded"));
        let events = eventually("the event of success", PATIENCE, async || {
            let events = self.events.list(&of_claim).await?.items;
            Ok(Some(events).filter(|events| !events.is_empty()))
        });
        for event in events.await? {
            let (reason, message) = (event.reason.unwrap_or_default(), event.message.unwrap_or_default());
            self.timeline.say(format_args!("  event {reason}: {message}"));
        }
        Ok(())
    }
}
