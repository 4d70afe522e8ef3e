//! The entry of a driver in the node's CSINode, as everyone who watches sees it, and the socket that leads to it.

use std::{
    fs,
    os::unix::{fs::MetadataExt as _, net::UnixStream},
    pin::Pin,
};

use anyhow::{Context as _, Result, bail};
use e2e::{Site, eventually, scene::PATIENCE};
use futures_util::{Stream, TryStreamExt as _};
use k8s_openapi::api::storage::v1::CSINode;
use kube::{
    Api, ResourceExt as _,
    api::{WatchEvent, WatchParams},
};

/// What an entry is that is not there.
pub(crate) const ABSENT: &str = "absent";

/// Every state of the entry since [`follow`](Self::follow): the API server leaves none out.
pub(crate) struct Entry {
    api: Api<CSINode>,
    node: String,
    driver: String,
    events: Pin<Box<dyn Stream<Item = kube::Result<WatchEvent<CSINode>>> + Send>>,
    version: String,
    history: Vec<String>,
}

impl Entry {
    /// Begins with the state of this moment.
    pub(crate) async fn follow(site: &Site, driver: &str) -> Result<Self> {
        let api: Api<CSINode> = Api::all(site.client.clone());
        let node = site.node().name().to_owned();
        let found = api.get(&node).await?;
        let version = found.resource_version().context("an object has a version")?;
        let only_it = WatchParams::default().fields(&format!("metadata.name={node}"));
        let events = Box::pin(api.watch(&only_it, &version).await?);
        let history = vec![state(&found, driver)];
        Ok(Self { api, node, driver: driver.to_owned(), events, version, history })
    }

    /// The states up to this moment: `NODE_ID TOPOLOGY_KEY...`, or [`ABSENT`]. None twice in a row.
    pub(crate) async fn history(&mut self) -> Result<Vec<String>> {
        let latest = self.api.get(&self.node).await?.resource_version();
        while latest.as_ref() != Some(&self.version) {
            let event = tokio::time::timeout(PATIENCE, self.events.try_next()).await;
            match event.context("no event of a change that was made")?? {
                Some(WatchEvent::Added(found) | WatchEvent::Modified(found)) => {
                    self.version = found.resource_version().unwrap_or_default();
                    let state = state(&found, &self.driver);
                    if self.history.last() != Some(&state) {
                        self.history.push(state);
                    }
                }
                Some(WatchEvent::Bookmark(_)) => {}
                other => bail!("{other:?} in a watch of CSINode"),
            }
        }
        Ok(self.history.clone())
    }

    /// Waits for a state.
    pub(crate) async fn becomes(&mut self, wanted: &str) -> Result<()> {
        let what = format!("the entry of {} to be {wanted}", self.driver);
        let reached = eventually(&what, PATIENCE, async || {
            Ok((self.history().await?.last().map(String::as_str) == Some(wanted)).then_some(()))
        });
        reached.await.with_context(|| format!("{:?}", self.history))
    }
}

fn state(node: &CSINode, driver: &str) -> String {
    let Some(entry) = node.spec.drivers.iter().find(|entry| entry.name == driver) else { return ABSENT.to_owned() };
    let keys = entry.topology_keys.iter().flatten().map(String::as_str);
    std::iter::once(&*entry.node_id).chain(keys).collect::<Vec<_>>().join(" ")
}

/// Device and inode of the registration socket that is at its path. Those of a file that is gone may be given again.
pub(crate) fn socket_file(site: &Site) -> Result<(u64, u64)> {
    let found = fs::symlink_metadata(site.registration_socket()).context("no registration socket")?;
    Ok((found.dev(), found.ino()))
}

/// Whether somebody listens there.
pub(crate) fn is_served(site: &Site) -> bool {
    UnixStream::connect(site.registration_socket()).is_ok()
}
