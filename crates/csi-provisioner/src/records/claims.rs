//! The cache of claims, as those see it who ask for a claim that waits.

use std::sync::Arc;

use controller_runtime::{Change, Informer, Subscription};
use storage_kube::names::{ClaimUid, ClassName};

use super::{ClaimProjection, ClaimRecord};

/// Claims that wait for a volume of this driver. The one watch behind it also keeps protected sources, which only
/// [`subscribe_for`](Self::subscribe_for) shows.
#[derive(Debug, Clone)]
pub(crate) struct Claims(Informer<ClaimProjection>);

impl Claims {
    pub(crate) fn new(informer: Informer<ClaimProjection>) -> Self {
        Self(informer)
    }

    /// The claim, if it waits.
    pub(crate) fn get(&self, claim: &ClaimUid) -> Option<Arc<ClaimRecord>> {
        self.0.get(claim)?.waiting().cloned()
    }

    /// Claims that wait for a volume of this class.
    pub(crate) fn in_group(&self, class: &ClassName) -> Vec<ClaimUid> {
        self.0.in_group(class)
    }

    /// See [`Informer::synced`].
    pub(crate) async fn synced(&self) {
        self.0.synced().await;
    }

    /// See [`Informer::subscribe_for`].
    pub(crate) fn subscribe_for<O: Send + Sync + 'static>(
        &self,
        owner: &Arc<O>,
        react: fn(&O, &Change<'_, ClaimProjection>),
    ) -> Subscription {
        self.0.subscribe_for(owner, react)
    }

    /// How many claims are kept, sources included.
    #[cfg(test)]
    pub(crate) fn len(&self) -> usize {
        self.0.len()
    }
}
