//! Everything one leader term has: gated clients, the queue, and what it remembers of its own work. It dies with the term.

use std::sync::Arc;

use controller_runtime::{EventKind, EventRecorder, Informers, WorkQueue};
use csi_client::ControllerClient;
use k8s_openapi::api::core::v1::ObjectReference;
use storage_kube::names::ClaimUid;
use tokio_util::sync::CancellationToken;

use crate::caches::Caches;
use crate::claim::memory::Memories;
use crate::claim::pace::Pace;
use crate::expand::in_use::InUse;
use crate::metrics::ResizerMetrics;
use crate::records::ClaimRecord;
use crate::settings::Settings;

/// See the module.
pub(crate) struct TermContext {
    pub(crate) settings: Arc<Settings>,
    pub(crate) caches: Arc<Caches>,
    /// For caches that only some claims need.
    pub(crate) informers: Informers,
    /// Writes pass while the term's gate is open.
    pub(crate) api: kube::Client,
    /// Calls pass while the term's gate is open.
    pub(crate) driver: ControllerClient,
    pub(crate) events: EventRecorder,
    /// Cancelled when the term starts nothing new.
    pub(crate) draining: CancellationToken,
    pub(crate) queue: WorkQueue<ClaimUid>,
    pub(crate) pace: Arc<Pace>,
    pub(crate) memories: Memories,
    pub(crate) in_use: InUse,
    pub(crate) metrics: ResizerMetrics,
}

impl TermContext {
    /// The newest this term knows of a claim that has, or had until its own last write, something to do: the cache, or the
    /// API server's answer to an own write that the cache has not reached.
    pub(crate) fn claim(&self, uid: &ClaimUid) -> Option<Arc<ClaimRecord>> {
        let cached = self.caches.claims.get(uid)?;
        Some(self.memories.newest(cached))
    }

    /// The claim is gone, or has nothing to do any more.
    pub(crate) fn forget(&self, uid: &ClaimUid) {
        self.memories.forget(uid);
        self.pace.forget(uid);
        self.in_use.unmark(uid);
    }

    /// Tells something on the claim.
    pub(crate) fn tell(&self, claim: &ClaimRecord, kind: EventKind, reason: &str, message: String) {
        let about = ObjectReference {
            api_version: Some("v1".to_owned()),
            kind: Some("PersistentVolumeClaim".to_owned()),
            namespace: Some(claim.namespace.to_string()),
            name: Some(claim.name.to_string()),
            uid: Some(claim.uid.to_string()),
            resource_version: Some(claim.resource_version.clone()),
            ..ObjectReference::default()
        };
        self.events.record(&about, kind, reason, message);
    }
}
