//! What upstream's deployment files allow is enough, with nothing added.

use anyhow::Result;
use e2e::scene::PATIENCE;
use e2e::{Pod, Site, audit};
use serde_json::json;

#[tokio::test]
async fn a_pod_has_its_volume_with_the_rights_of_upstream() -> Result<()> {
    let Some(site) = Site::start("rights", &[]).await? else { return Ok(()) };
    site.claim("data", &json!({})).await?;
    let pod = Pod::new("pod").claim("data", "/data").runs(&["write", "/data/file", "text"]);
    let pod = pod.create(&site.client, &site.namespace).await?;
    pod.succeeded().await?;
    let volume = site.bound("data").await?;
    pod.delete().await?;
    site.detached(&volume, PATIENCE).await?;
    site.delete_claim("data").await?;
    site.gone(&volume).await?;

    let requests = site.cluster().audit()?;
    let of = |account: &str| {
        requests.iter().filter(|one| one.caller == (site.namespace.clone(), account.to_owned())).collect::<Vec<_>>()
    };
    for account in ["csi-attacher", "csi-provisioner"] {
        // Upstream lets the attacher write no events, not even the one that says who leads.
        let announces = |one: &audit::Request| account == "csi-attacher" && one.resource == "events";
        let refused = of(account).into_iter().filter(|one| [401, 403].contains(&one.code) && !announces(one));
        let refused: Vec<_> = refused.collect();
        assert!(refused.is_empty(), "{account}: {refused:#?}");
    }
    // All it ever writes for a volume, so that the above was about something.
    for resource in ["volumeattachments", "volumeattachments/status", "persistentvolumes"] {
        let patched = of("csi-attacher").into_iter().any(|one| one.verb == "patch" && one.resource == resource);
        assert!(patched, "no patch of {resource}");
    }
    assert!(of("csi-attacher").iter().all(|one| one.verb != "update" || one.resource == "leases"), "patches only");
    Ok(())
}
