//! One complete listing of the driver's volumes, or none.

use std::collections::{HashMap, HashSet};
use std::time::Duration;

use csi_client::{CallError, ControllerClient};
use csi_proto::csi::v1::ListVolumesRequest;
use csi_proto::csi::v1::list_volumes_response::Entry;
use thiserror::Error;

/// Why there is no listing. A part of one would show volumes as not published that are on the other pages.
#[derive(Debug, Error)]
pub(crate) enum ListError {
    #[error("ListVolumes: {0}")]
    Call(#[from] CallError),
    #[error(
        "ListVolumes gave next_token {token:?} a second time, after {pages} pages: the driver's paging must be fixed, or its \
         volumes fit into one page (--max-entries=0)"
    )]
    RepeatedToken { token: String, pages: usize },
    #[error("ListVolumes was not complete within {limit:?}, after {pages} pages: raise --timeout or --max-entries")]
    TooSlow { limit: Duration, pages: usize },
}

/// Where each volume is published.
#[derive(Debug, Default)]
pub(crate) struct Listing {
    /// By handle; none for a volume of which the driver does not say where it is.
    volumes: HashMap<String, Option<Vec<String>>>,
}

impl Listing {
    /// Whether the volume is published at the node; none when the driver does not say. A volume that is not listed is
    /// published nowhere.
    pub(crate) fn is_published(&self, handle: &str, node_id: &str) -> Option<bool> {
        match self.volumes.get(handle) {
            None => Some(false),
            Some(None) => None,
            Some(Some(nodes)) => Some(nodes.iter().any(|node| node == node_id)),
        }
    }

    /// How many volumes are listed.
    pub(crate) fn len(&self) -> usize {
        self.volumes.len()
    }

    fn add(&mut self, entry: Entry) {
        let Some(volume) = entry.volume else { return };
        self.volumes.insert(volume.volume_id, entry.status.map(|status| status.published_node_ids));
    }
}

/// Asks for all pages, within `limit`.
pub(crate) async fn list(driver: &ControllerClient, max_entries: i32, limit: Duration) -> Result<Listing, ListError> {
    let mut listing = Listing::default();
    let mut tokens = HashSet::new();
    let pages = pages(driver, max_entries, &mut listing, &mut tokens);
    match tokio::time::timeout(limit, pages).await {
        Ok(Ok(())) => Ok(listing),
        Ok(Err(error)) => Err(error),
        Err(_) => Err(ListError::TooSlow { limit, pages: tokens.len() }),
    }
}

async fn pages(
    driver: &ControllerClient,
    max_entries: i32,
    listing: &mut Listing,
    tokens: &mut HashSet<String>,
) -> Result<(), ListError> {
    let mut token = String::new();
    loop {
        let answer = driver.list_volumes(ListVolumesRequest { max_entries, starting_token: token }).await?;
        answer.entries.into_iter().for_each(|entry| listing.add(entry));
        if answer.next_token.is_empty() {
            return Ok(());
        }
        if !tokens.insert(answer.next_token.clone()) {
            return Err(ListError::RepeatedToken { token: answer.next_token, pages: tokens.len() });
        }
        token = answer.next_token;
    }
}
