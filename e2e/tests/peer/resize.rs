//! `csi-resizer` beside the Go one. For the same claim and class both leave the same behind: status, volume, events, and what
//! the driver was asked.

mod flags;
mod ignored_paths;
mod life;
mod metrics;
mod mixed;
mod observed;
mod scenarios;

use anyhow::Result;
use e2e::resize_scene::ResizeScene;
use e2e::sidecar::{Role, Settings};
use e2e::{Sidecar, peer};
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::differences::assert_only_listed;
use crate::site::{PATIENCE, Side};
use ignored_paths::RULES;

/// How many setups run at a time; each has two resizers and two drivers.
const AT_ONCE: usize = 3;

#[tokio::test]
async fn the_same_result_for_the_same_resize() -> Result<()> {
    let setups = scenarios::setups();
    let runs = stream::iter(&setups).map(|setup| async move {
        let (go, ours) = (observed::observe(setup, Side::Go), observed::observe(setup, Side::Ours));
        let (go, ours) = match setup.driver_name {
            None => tokio::try_join!(go, ours)?,
            // Each would work on the claims of the other.
            Some(_) => (go.await?, ours.await?),
        };
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
    let at_once = calls.filter(|(_, calls)| calls["codes"] == json!(["OK"]));
    let more = at_once.filter(|(_, calls)| calls["count"].as_u64() > wanted);
    more.map(|(rpc, calls)| format!("{scenario}: ours called {rpc} more often than {wanted:?} times: {calls}"))
        .collect()
}

/// A resizer of that side that does not compete for a lease.
async fn settings(scene: &ResizeScene, side: Side) -> Result<Settings> {
    let (kubeconfig, address) = (&scene.account.kubeconfig, scene.driver.address());
    match side {
        Side::Go => peer::settings(Role::Resizer, kubeconfig, &address).await,
        Side::Ours => Settings::new(Role::Resizer, kubeconfig, &address),
    }
}

/// Waits until a resizer without leader election works, or one with it leads.
async fn works(resizer: &mut Sidecar, side: Side) -> Result<()> {
    let text = match side {
        Side::Go => "Starting external resizer",
        Side::Ours => "work starts",
    };
    resizer.process().logged(text, PATIENCE).await
}
