//! `--node-deployment`: three processes, each with a driver of its own, as on three nodes.

use std::collections::BTreeMap;
use std::path::Path;

use anyhow::{Context as _, Result};
use e2e::scene::{PATIENCE, Scene};
use e2e::sidecar::{Role, Settings};
use e2e::{Driver, Sidecar, eventually};
use serde_json::json;

const NODES: [&str; 3] = ["n1", "n2", "n3"];
const KEY: &str = "topology.outrigger.dev/node";
const CAPABILITIES: &str = "--capabilities=CONTROLLER_SERVICE,CREATE_DELETE_VOLUME,GET_CAPACITY";

/// The drivers and provisioners of the three nodes; the first driver is the scene's.
struct Nodes {
    scene: Scene,
    others: Vec<Driver>,
    _provisioners: Vec<Sidecar>,
}

impl Nodes {
    /// `last` are flags more for the driver of the last node.
    async fn start(purpose: &str, last: &[&str]) -> Result<Self> {
        let place = |node: &str| format!("--topology={KEY}={node}");
        let scene = Scene::start(purpose, &[CAPABILITIES, &place(NODES[0])]).await?;
        let second = Driver::start(scene.driver.name(), &[CAPABILITIES, &place(NODES[1])]).await?;
        let place = place(NODES[2]);
        let flags: Vec<&str> = [CAPABILITIES, &place].into_iter().chain(last.iter().copied()).collect();
        let third = Driver::start(scene.driver.name(), &flags).await?;
        let mut provisioners = Vec::new();
        for (node, driver) in NODES.into_iter().zip([&scene.driver, &second, &third]) {
            provisioners.push(provisioner(&scene.account.kubeconfig, driver, node).await?);
        }
        Ok(Self { scene, others: vec![second, third], _provisioners: provisioners })
    }

    fn drivers(&self) -> impl Iterator<Item = (&'static str, &Driver)> {
        NODES.into_iter().zip([&self.scene.driver].into_iter().chain(&self.others))
    }

    /// Finished calls of an RPC by node.
    fn calls(&self, rpc: &str) -> Result<BTreeMap<&'static str, usize>> {
        self.drivers().map(|(node, driver)| Ok((node, driver.calls(rpc)?.len()))).collect()
    }

    /// Creates the claims, waits until they are bound, and gives volumes and selected nodes.
    async fn bound(&self, claims: &[String]) -> Result<Vec<(String, String)>> {
        for claim in claims {
            self.scene.claim(claim, &json!({})).await?;
        }
        let mut bound = Vec::new();
        for claim in claims {
            let volume = self.scene.bound(claim).await?;
            let object = self.scene.claims().get(claim).await?;
            let annotations = object.metadata.annotations.unwrap_or_default();
            let node = annotations.get("volume.kubernetes.io/selected-node").context("the claim has a node")?;
            bound.push((volume, node.clone()));
        }
        Ok(bound)
    }
}

async fn provisioner(kubeconfig: &Path, driver: &Driver, node: &str) -> Result<Sidecar> {
    let settings = Settings::new(Role::Provisioner, kubeconfig, &driver.address())?
        .flag("--node-deployment")
        .flag("--node-deployment-base-delay=2s")
        .flag("--node-deployment-max-delay=4s")
        .environment("NODE_NAME", node);
    e2e::scene::leading(settings).await
}

fn claims(count: usize) -> Vec<String> {
    (0..count).map(|n| format!("data-{n}")).collect()
}

#[tokio::test]
async fn three_nodes_share_the_claims_and_each_deletes_its_own_volumes() -> Result<()> {
    let nodes = Nodes::start("nodes", &[]).await?;
    let claims = claims(30);
    let bound = nodes.bound(&claims).await?;
    let mut by_node: BTreeMap<&str, usize> = NODES.into_iter().map(|node| (node, 0)).collect();
    for (volume, node) in &bound {
        *by_node.get_mut(node.as_str()).context("one of the three")? += 1;
        let spec = nodes.scene.volumes().get(volume).await?.spec.context("a volume has a spec")?;
        let affinity = serde_json::to_string(&spec.node_affinity)?;
        assert!(affinity.contains(&format!("\"{node}\"")), "{volume} is where its claim was taken: {affinity}");
        let attributes = spec.csi.and_then(|csi| csi.volume_attributes).unwrap_or_default();
        let identity = &attributes["storage.kubernetes.io/csiProvisionerIdentity"];
        assert!(identity.ends_with(&format!("{}-{node}", nodes.scene.driver.name())), "{identity}");
    }
    assert_eq!(nodes.calls("CreateVolume")?, by_node, "exactly one call for each claim, on the node that took it");
    assert!(by_node.values().all(|count| *count > 0), "all take part: {by_node:?}");

    for claim in &claims {
        nodes.scene.delete_claim(claim).await?;
    }
    for (volume, _) in &bound {
        eventually::gone(&nodes.scene.volumes(), volume, PATIENCE).await?;
    }
    assert_eq!(nodes.calls("DeleteVolume")?, by_node, "each volume once, by the node that has it");
    Ok(())
}

#[tokio::test]
async fn a27_claims_go_where_the_class_allows_them_and_where_they_fit() -> Result<()> {
    let nodes = Nodes::start("nodes-fit", &["--capacity=1024"]).await?;
    let bound = nodes.bound(&claims(12)).await?;
    assert!(bound.iter().all(|(_, node)| node != "n3"), "there is no space on n3: {bound:?}");

    let allowed = json!([{ "matchLabelExpressions": [{ "key": KEY, "values": ["n2", "n3"] }] }]);
    nodes.scene.add_class(&json!({ "allowedTopologies": allowed })).await?;
    let more: Vec<_> = (0..12).map(|n| format!("more-{n}")).collect();
    let bound = nodes.bound(&more).await?;
    assert!(bound.iter().all(|(_, node)| node == "n2"), "allowed are n2 and n3, which has no space: {bound:?}");
    assert_eq!(nodes.calls("CreateVolume")?["n3"], 0);
    Ok(())
}
