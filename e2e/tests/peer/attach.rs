//! `csi-attacher` beside the Go one. For the same VolumeAttachment both leave the same behind: objects, patches, calls to the
//! driver and what is at the driver.

mod flags;
mod ignored_paths;
mod life;
mod metrics;
mod mixed;
mod observed;
mod scenarios;

use anyhow::Result;
use e2e::attach_scene::AttachScene;
use e2e::sidecar::{Role, Settings};
use e2e::{Sidecar, peer};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::Value;

use crate::differences::assert_only_listed;
use crate::site::{PATIENCE, Side};
use ignored_paths::RULES;

/// How many setups run at a time; each has two attachers and two drivers.
const AT_ONCE: usize = 3;

#[tokio::test]
async fn the_same_result_for_the_same_attachment() -> Result<()> {
    let setups = scenarios::setups();
    let runs = stream::iter(&setups).map(|setup| async move {
        let (go, ours) = tokio::try_join!(observed::observe(setup, Side::Go), observed::observe(setup, Side::Ours))?;
        anyhow::Ok((setup.name, go, ours))
    });
    let runs: Vec<_> = runs.buffer_unordered(AT_ONCE).try_collect().await?;
    assert_only_listed(&runs, RULES, repeated);
    Ok(())
}

/// What ours called more often than the scenario needs although the driver had never failed. The comparison alone would let it
/// pass when Go did so, too.
fn repeated(scenario: &str, ours: &Value) -> Vec<String> {
    let wanted = ours["at most"].as_u64();
    let calls = ours["calls"].as_object().into_iter().flatten();
    let at_once = calls.filter(|(_, calls)| calls["codes"] == serde_json::json!(["OK"]));
    let more = at_once.filter(|(_, calls)| calls["count"].as_u64() > wanted);
    more.map(|(rpc, calls)| format!("{scenario}: ours called {rpc} more often than {wanted:?} times: {calls}"))
        .collect()
}

/// An attacher of that side that does not compete for a lease.
async fn settings(scene: &AttachScene, side: Side) -> Result<Settings> {
    let (kubeconfig, address) = (&scene.account.kubeconfig, scene.driver.address());
    match side {
        Side::Go => peer::settings(Role::Attacher, kubeconfig, &address).await,
        Side::Ours => Settings::new(Role::Attacher, kubeconfig, &address),
    }
}

/// Waits until an attacher without leader election works, or one with it leads.
async fn works(attacher: &mut Sidecar, side: Side) -> Result<()> {
    let text = match side {
        Side::Go => "Starting CSI attacher",
        Side::Ours => "work starts",
    };
    attacher.process().logged(text, PATIENCE).await
}
