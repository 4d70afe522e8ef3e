//! For the same claim and class both provisioners leave the same behind: volume objects, calls to the driver, events,
//! requests to the API server and what is at the driver.

mod ignored_paths;
mod observed;
mod scenarios;

use anyhow::Result;
use futures_util::{StreamExt as _, TryStreamExt as _, stream};
use serde_json::{Value, json};

use crate::differences::assert_only_listed;
use crate::site::Side;
use ignored_paths::RULES;

/// How many setups run at a time; each has two provisioners and two drivers.
const AT_ONCE: usize = 3;

#[tokio::test]
async fn the_same_result_for_the_same_claim() -> Result<()> {
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

/// What ours did twice although it had success at once. The comparison alone would let it pass when Go did so, too.
fn repeated(scenario: &str, ours: &Value) -> Vec<String> {
    let calls = ours["calls"].as_object().into_iter().flatten();
    let at_once = calls.filter(|(_, calls)| calls["codes"] == json!(["OK"]));
    let requests = ours["requests"].as_object().into_iter().flatten();
    let writes = requests.filter(|(request, _)| request.ends_with(" persistentvolumes"));
    let counts = at_once.chain(writes).filter(|(_, counts)| counts["count"].as_u64() > Some(1));
    counts.map(|(what, counts)| format!("{scenario}: ours did {what} more than once: {counts}")).collect()
}
