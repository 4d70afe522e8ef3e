//! The registration socket and the kubelet: registrars end, come back, replace each other, and are refused.

use std::{fs, os::unix::fs::symlink, time::Duration};

use anyhow::Result;
use e2e::{Pod, Site, eventually, scene::PATIENCE, site::REGISTERED};
use serde_json::json;

use crate::csi_node::{ABSENT, Entry, is_served, socket_file};

const NODE: &str = e2e::site::NODE;

#[tokio::test]
async fn a_registrar_that_ends_takes_its_driver_off_the_node_until_the_next_one() -> Result<()> {
    let Some(mut site) = Site::start("ended", &[]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    assert_eq!(site.registrar().unwrap().stop().await?, 0);
    assert!(!site.registration_socket().exists());
    entry.becomes(ABSENT).await?;
    site.stop_registrar().await?;
    site.start_registrar()?;
    site.registered().await?;
    assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);
    Ok(())
}

#[tokio::test]
async fn f2_a_killed_registrar_costs_nothing_and_the_next_one_takes_its_stale_socket() -> Result<()> {
    let Some(mut site) = Site::start("killed", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let steps = ["write", "/data/file", "kept", "then", "await", "/data/go", "then", "read", "/data/file"];
    let old = Pod::new("old").claim("data", "/data").runs(&steps).create(&site.client, &site.namespace).await?;
    old.running().await?;
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    let stale = socket_file(&site)?;
    site.kill_registrar().await?;
    assert!(!is_served(&site));
    assert_eq!(socket_file(&site)?, stale, "a killed process leaves its socket");
    let meanwhile = Pod::new("meanwhile").claim("data", "/data").runs(&["read", "/data/file"]);
    let meanwhile = meanwhile.create(&site.client, &site.namespace).await?;
    assert_eq!(meanwhile.succeeded().await?, "kept");
    assert_eq!(entry.history().await?, [NODE]);

    site.start_registrar()?;
    site.registered().await?;
    assert!(is_served(&site));
    assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);
    let new = Pod::new("new").claim("data", "/data").runs(&["write", "/data/go", ""]);
    let new = new.create(&site.client, &site.namespace).await?;
    new.succeeded().await?;
    assert_eq!(old.succeeded().await?, "kept");
    assert_eq!(site.codes("ControllerPublishVolume")?, ["OK"]);
    for pod in [new, meanwhile, old] {
        pod.delete().await?;
    }
    site.unmounted().await
}

#[tokio::test]
async fn f2_a_deleted_socket_is_back_within_seconds_and_so_is_the_driver() -> Result<()> {
    let Some(site) = Site::start("deleted", &[]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    fs::remove_file(site.registration_socket())?;
    let back = async || Ok(is_served(&site).then_some(()));
    eventually("the socket to be back", Duration::from_secs(5), back).await?;
    site.registered_times(2).await?;
    assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);
    Ok(())
}

#[tokio::test]
async fn f2_in_a_rolling_update_the_old_registrar_leaves_the_new_ones_socket_alone() -> Result<()> {
    let Some(mut site) = Site::start("rolling", &[]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    let old = socket_file(&site)?;
    let mut next = site.registrar_program("next-registrar", site.driver.socket())?.start()?;
    next.logged(REGISTERED, PATIENCE).await?;
    site.registrar().unwrap().logged("standing by", PATIENCE).await?;
    let new = socket_file(&site)?;
    assert_ne!(new, old);
    assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);

    assert_eq!(site.registrar().unwrap().stop().await?, 0);
    assert_eq!(socket_file(&site)?, new);
    assert!(is_served(&site));
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").runs(&["write", "/data/file", "text"]);
    let pod = pod.create(&site.client, &site.namespace).await?;
    pod.succeeded().await?;
    pod.delete().await?;
    site.unmounted().await?;
    assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);

    assert_eq!(next.stop().await?, 0);
    assert!(!site.registration_socket().exists());
    entry.becomes(ABSENT).await
}

#[tokio::test]
async fn f2_an_old_registrar_that_has_not_seen_the_new_one_leaves_its_socket_alone_too() -> Result<()> {
    let Some(mut site) = Site::start("at-once", &[]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    let old = socket_file(&site)?;
    let mut next = site.registrar_program("next-registrar", site.driver.socket())?.start()?;
    let taken = async || Ok(Some(socket_file(&site)?).filter(|found| *found != old));
    let new = eventually("the next registrar to take the path", PATIENCE, taken).await?;
    // Within the second between two looks at the path.
    assert_eq!(site.registrar().unwrap().stop().await?, 0);
    assert_eq!(socket_file(&site)?, new);
    next.logged(REGISTERED, PATIENCE).await?;
    assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);
    Ok(())
}

#[tokio::test]
async fn f2_after_an_update_that_is_taken_back_the_old_registrar_registers_again() -> Result<()> {
    let Some(site) = Site::start("taken-back", &[]).await? else { return Ok(()) };
    for killed in [false, true] {
        let times = site.registrations();
        let mut next = site.registrar_program("next-registrar", site.driver.socket())?.start()?;
        let taken = async || Ok((next.log().matches(REGISTERED).count() > usize::from(killed)).then_some(()));
        eventually("the next registrar to register", PATIENCE, taken).await?;
        assert_eq!(site.registrations(), times);
        let mut entry = Entry::follow(&site, site.driver.name()).await?;
        if killed {
            next.kill().await?;
        } else {
            assert_eq!(next.stop().await?, 0);
        }
        site.registered_times(times + 1).await?;
        assert_eq!(entry.history().await?, [NODE, ABSENT, NODE]);
        assert!(is_served(&site));
    }
    Ok(())
}

#[tokio::test]
async fn f4_a_refused_registrar_makes_its_socket_again_until_the_kubelet_agrees() -> Result<()> {
    let Some(mut site) = Site::start("misled", &[]).await? else { return Ok(()) };
    let mut entry = Entry::follow(&site, site.driver.name()).await?;
    site.stop_registrar().await?;
    entry.becomes(ABSENT).await?;
    let wrong = site.driver.socket().with_file_name("wrong.sock");
    let noticed = |site: &Site| {
        let socket = format!("desired state cache\" path=\"{}\"", site.registration_socket().display());
        let log = site.node().kubelet_log();
        log.lines().filter(|line| line.contains(&socket) && line.contains("updating timestamp")).count()
    };
    let before = noticed(&site);
    let mut registrar = site.registrar_program("misled-registrar", &wrong)?.start()?;
    registrar.logged("Kubelet refuses the driver", PATIENCE).await?;
    let again = async || Ok((noticed(&site) >= before + 3).then_some(()));
    eventually("two more sockets that the kubelet sees", PATIENCE, again).await?;
    assert_eq!(registrar.exit_code()?, None);
    assert_eq!(entry.history().await?.last().unwrap(), ABSENT);

    symlink(site.driver.socket(), &wrong)?;
    entry.becomes(NODE).await?;
    registrar.logged(REGISTERED, PATIENCE).await?;
    let socket = socket_file(&site)?;
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").runs(&["write", "/data/file", "text"]);
    let pod = pod.create(&site.client, &site.namespace).await?;
    pod.succeeded().await?;
    pod.delete().await?;
    site.unmounted().await?;
    assert_eq!(socket_file(&site)?, socket, "nothing is tried again after a success");
    assert_eq!(entry.history().await?.last().unwrap(), NODE);
    Ok(())
}
