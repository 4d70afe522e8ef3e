//! The driver ends and comes back, as it was or as another one.

use anyhow::Result;
use e2e::site::CAPABILITIES;
use e2e::{Pod, Site, eventually, scene::PATIENCE};
use k8s_openapi::api::core::v1::Node;
use kube::{
    Api,
    api::{Patch, PatchParams},
};
use serde_json::json;

use crate::csi_node::{ABSENT, Entry, is_served, socket_file};

/// How often the registrar, or who else, has asked the driver for its node.
fn questions(site: &Site, by_registrar: Option<i32>) -> Result<usize> {
    let mut calls = site.driver.calls("NodeGetInfo")?;
    calls.retain(|call| (call.peer_pid == by_registrar) == by_registrar.is_some());
    Ok(calls.len())
}

#[tokio::test]
async fn f1_a_driver_that_comes_back_as_it_was_is_not_registered_again() -> Result<()> {
    let Some(mut site) = Site::start("restart", &[]).await? else { return Ok(()) };
    let registrar = site.registrar().map(|registrar| registrar.pid());
    site.claim("data", &json!({})).await?;
    let steps = ["write", "/data/file", "kept", "then", "await", "/data/go", "then", "read", "/data/file"];
    let old = Pod::new("old").claim("data", "/data").runs(&steps).create(&site.client, &site.namespace).await?;
    old.running().await?;
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    let socket = socket_file(&site)?;
    for in_good_order in [true, false] {
        let asked = questions(&site, registrar)?;
        let driver = &mut site.scene.driver;
        if in_good_order {
            driver.stop().await?;
        } else {
            driver.kill().await?;
        }
        driver.start_again().await?;
        let what = "the registrar to ask the new process";
        eventually(what, PATIENCE, async || Ok((questions(&site, registrar)? > asked).then_some(()))).await?;
    }

    site.claim("more", &json!({})).await?;
    let new = Pod::new("new").claim("more", "/more").claim("data", "/data");
    let new = new.runs(&["write", "/more/file", "text", "then", "write", "/data/go", ""]);
    let new = new.create(&site.client, &site.namespace).await?;
    new.succeeded().await?;
    assert_eq!(old.succeeded().await?, "kept");
    assert_eq!(site.codes("ControllerPublishVolume")?, ["OK", "OK"], "one for each volume");
    new.delete().await?;
    old.delete().await?;
    site.unmounted().await?;

    // By all of this the kubelet has looked at its sockets many times.
    assert_eq!(entry.history().await?, [site.node().name()]);
    assert_eq!(socket_file(&site)?, socket);
    assert_eq!(site.registrations(), 1);
    let by_all = site.driver.calls("NodeGetInfo")?.len();
    assert_eq!(by_all - questions(&site, registrar)?, 1, "the kubelet has asked once");
    Ok(())
}

#[tokio::test]
async fn f1_a_driver_that_comes_back_with_another_node_id_is_registered_anew() -> Result<()> {
    let Some(mut site) = Site::start("node-id", &["--node-id=first"]).await? else { return Ok(()) };
    for claim in ["data", "more"] {
        site.claim(claim, &json!({})).await?;
    }
    let old = Pod::new("old").claim("data", "/data").create(&site.client, &site.namespace).await?;
    old.running().await?;
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    site.scene.driver.stop().await?;
    site.scene.driver.set_flags(&[CAPABILITIES, "--node-id=second"]);
    site.scene.driver.start_again().await?;
    entry.becomes("second").await?;
    assert_eq!(entry.history().await?, ["first", ABSENT, "second"]);

    let new = Pod::new("new").claim("more", "/more").runs(&["write", "/more/file", "text"]);
    let new = new.create(&site.client, &site.namespace).await?;
    new.succeeded().await?;
    new.delete().await?;
    old.delete().await?;
    let (data, more) = (site.bound("data").await?, site.bound("more").await?);
    site.detached(&more, PATIENCE).await?;
    site.detached(&data, PATIENCE).await?;
    // What was published at the first id is unpublished there, and at the id that the node has by now.
    let calls: [(&str, &[&str]); 2] = [
        ("ControllerPublishVolume", &["first", "second"]),
        ("ControllerUnpublishVolume", &["first", "second", "second"]),
    ];
    for (rpc, expected) in calls {
        let calls = site.driver.calls(rpc)?;
        assert!(calls.iter().all(|call| call.code == "OK"), "{calls:#?}");
        let mut ids: Vec<_> = calls.iter().map(|call| call.request["node_id"].as_str().unwrap()).collect();
        ids.sort_unstable();
        assert_eq!(ids, expected, "{rpc}");
    }
    assert_eq!(entry.history().await?, ["first", ABSENT, "second"]);
    site.unmounted().await
}

#[tokio::test]
async fn f1_a_driver_that_comes_back_with_another_topology_is_registered_anew() -> Result<()> {
    let (zone, rack) = ("topology.f1.outrigger.dev/zone", "topology.f1.outrigger.dev/rack");
    let topology = |key: &str| format!("--topology={key}=a");
    let Some(mut site) = Site::start("topology", &[&topology(zone)]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    site.scene.driver.kill().await?;
    site.scene.driver.set_flags(&[CAPABILITIES, "--node-id=node-1", &topology(rack)]);
    site.scene.driver.start_again().await?;
    entry.becomes(&format!("node-1 {rack}")).await?;
    assert_eq!(entry.history().await?, [format!("node-1 {zone}"), ABSENT.to_owned(), format!("node-1 {rack}")]);
    Ok(())
}

#[tokio::test]
async fn f1_a_driver_that_comes_back_with_another_name_is_registered_instead() -> Result<()> {
    let Some(mut site) = Site::start("name", &[]).await? else { return Ok(()) };
    let (old_socket, renamed) = (site.registration_socket(), format!("re{}", site.driver.name()));
    let mut old = Entry::follow(&site, site.driver.name()).await?;
    let mut new = Entry::follow(&site, &renamed).await?;
    site.scene.driver.kill().await?;
    site.scene.driver.rename(&renamed);
    site.scene.driver.start_again().await?;
    new.becomes("node-1").await?;
    old.becomes(ABSENT).await?;
    assert_eq!(old.history().await?, ["node-1", ABSENT]);
    assert_eq!(new.history().await?, [ABSENT, "node-1"]);
    assert!(!old_socket.exists() && is_served(&site));
    Ok(())
}

/// Kubelet would refuse the other value, and have forgotten the driver by then.
#[tokio::test]
async fn o10_a_topology_that_the_node_contradicts_leaves_the_driver_registered() -> Result<()> {
    let key = "topology.o10.outrigger.dev/zone";
    let topology = |zone: &str| format!("--topology={key}={zone}");
    let Some(mut site) = Site::start("refused", &[&topology("a")]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    site.scene.driver.stop().await?;
    site.scene.driver.set_flags(&[CAPABILITIES, "--node-id=node-1", &topology("b")]);
    site.scene.driver.start_again().await?;
    site.registrar().unwrap().logged("another topology value", PATIENCE).await?;
    let state = format!("node-1 {key}");
    assert_eq!(entry.history().await?, [&*state]);

    // The cure of the warning.
    let nodes: Api<Node> = Api::all(site.client.clone());
    let unlabelled = json!({ "metadata": { "labels": { key: null } } });
    nodes.patch(site.node().name(), &PatchParams::default(), &Patch::Merge(unlabelled)).await?;
    site.kill_registrar().await?;
    site.start_registrar()?;
    let name = site.node().name().to_owned();
    let relabelled =
        |node: &Node| node.metadata.labels.as_ref().is_some_and(|all| all.get(key).is_some_and(|zone| zone == "b"));
    eventually::object(&nodes, &name, "the other zone", PATIENCE, relabelled).await?;
    entry.becomes(&state).await
}
