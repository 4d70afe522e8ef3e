//! Everything one leader term has: caches, gated clients, queues, and what it remembers of its own work. It dies with the term.

use std::collections::HashMap;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Backoff, EventRecorder, WorkQueue, WorkQueueMetrics};
use csi_client::ControllerClient;
use parking_lot::Mutex;
use storage_kube::names::{ClaimUid, VolumeName};
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;

use crate::attachments::AttachmentKnowledge;
use crate::caches::Caches;
use crate::capacity::Capacity;
use crate::claim::awaiting_nodes::AwaitingNodes;
use crate::claim::in_progress::InProgress;
use crate::claim::infeasible::Infeasible;
use crate::claim::provisioned::{ProvisionedClaims, TO_BE_SEEN};
use crate::data_source::SourceKey;
use crate::metrics::ProvisionerMetrics;
use crate::node_deployment::competition::Competition;
use crate::records::{ClaimRecord, ClassRecord, VolumeRecord};
use crate::save_volume::UnsavedVolume;
use crate::settings::Settings;
use crate::source_protection::holds::Holds;
use crate::topology::cluster::ClusterView;
use crate::volume::finalizer_writes::FinalizerWrites;
use crate::volume::reclaimed::{Reclaimed, Step};

/// The queues of one term.
pub(crate) struct Queues {
    pub(crate) claims: WorkQueue<ClaimUid>,
    pub(crate) volumes: WorkQueue<VolumeName>,
    pub(crate) unsaved: WorkQueue<VolumeName>,
    /// Sources whose finalizer may have to go. Named as in the Go provisioner, where it is the queue of clone sources.
    pub(crate) sources: WorkQueue<SourceKey>,
}

/// First delay before a volume whose object could not be written is tried again; a busy API server recovers in moments.
const FIRST_SAVE_RETRY: Duration = Duration::from_millis(5);

/// A wait that lasts is told again by the first resync after this time: the API server keeps events for an hour
/// (`--event-ttl` of kube-apiserver).
pub(crate) const TELL_AGAIN: Duration = Duration::from_mins(10);

impl Queues {
    pub(crate) fn new(backoff: Backoff, metrics: &WorkQueueMetrics) -> Self {
        Self {
            claims: WorkQueue::new("claims", backoff, metrics),
            volumes: WorkQueue::new("volumes", backoff, metrics),
            sources: WorkQueue::new("claims", backoff, metrics),
            unsaved: WorkQueue::new(
                "unsavedpvs",
                Backoff { base: FIRST_SAVE_RETRY.min(backoff.max), max: backoff.max },
                metrics,
            ),
        }
    }
}

/// See the module.
pub(crate) struct TermContext {
    pub(crate) settings: Arc<Settings>,
    /// When the term began.
    pub(crate) begun: Instant,
    pub(crate) caches: Arc<Caches>,
    pub(crate) metrics: ProvisionerMetrics,
    /// Writes pass while the term's gate is open.
    pub(crate) api: kube::Client,
    /// Calls pass while the term's gate is open.
    pub(crate) driver: ControllerClient,
    pub(crate) events: EventRecorder,
    /// Cancelled when the term starts nothing new.
    pub(crate) draining: CancellationToken,
    pub(crate) queues: Queues,
    /// The nodes, where topology has a say.
    pub(crate) cluster: Option<ClusterView>,
    pub(crate) awaiting_nodes: AwaitingNodes,
    pub(crate) competition: Competition,
    pub(crate) in_progress: InProgress,
    pub(crate) infeasible: Infeasible,
    pub(crate) provisioned: ProvisionedClaims,
    pub(crate) reclaimed: Reclaimed,
    pub(crate) finalizer_writes: FinalizerWrites,
    /// Only where capacities are published.
    pub(crate) capacity: Option<Arc<Capacity>>,
    pub(crate) holds: Holds,
    pub(crate) attachments: AttachmentKnowledge,
    pub(crate) unsaved: Mutex<HashMap<VolumeName, Arc<UnsavedVolume>>>,
    pub(crate) own_writes: Mutex<OwnWrites>,
}

/// What this term has said and done for claims that the cache still shows as waiting.
#[derive(Default)]
pub(crate) struct OwnWrites {
    /// The event that explains why the claim is left alone.
    told: HashMap<ClaimUid, (String, Instant)>,
    /// The resourceVersion that a claim has by a write of this term, and since when.
    versions: HashMap<ClaimUid, (u64, Instant)>,
}

impl TermContext {
    /// The names that the claim's volume may have.
    pub(crate) fn volume_names(&self, claim: &ClaimUid) -> impl Iterator<Item = VolumeName> + use<> {
        let flags = &self.settings.flags;
        let default = VolumeName::from(format!("pvc-{claim}").as_str());
        let configured =
            storage_kube::volume_name::volume_name(&flags.volume_name_prefix, &claim.to_string(), flags.uuid_length);
        configured.ok().filter(|configured| *configured != default).into_iter().chain([default])
    }

    /// The cached volume under one of these names.
    pub(crate) fn existing_volume(&self, claim: &ClaimUid) -> Option<Arc<VolumeRecord>> {
        self.volume_names(claim).find_map(|name| self.caches.volumes.get(&name))
    }

    /// The claim has its volume; remembered until the cache no longer shows the claim as waiting.
    /// `false` when it does not show it any more.
    pub(crate) fn note_provisioned(&self, claim: &ClaimUid) -> bool {
        let waits = self.caches.claims.get(claim).is_some();
        if waits {
            self.provisioned.volume_made(claim.clone());
        }
        waits
    }

    /// Whether this text is news for the claim, or was told so long ago that its event will be gone soon.
    pub(crate) fn is_to_be_told(&self, claim: &ClaimUid, text: &str) -> bool {
        let told = &mut self.own_writes.lock().told;
        if told.get(claim).is_some_and(|(known, since)| known == text && since.elapsed() < TELL_AGAIN) {
            return false;
        }
        told.insert(claim.clone(), (text.to_owned(), Instant::now()));
        true
    }

    /// This term has written the claim, which is in this version since; remembered until the cache shows it.
    pub(crate) fn note_own_version(&self, claim: &ClaimUid, version: &str) {
        if let (Some(_), Ok(version)) = (self.caches.claims.get(claim), version.parse()) {
            self.own_writes.lock().versions.insert(claim.clone(), (version, Instant::now()));
        }
    }

    /// Whether the record is older than what this term has written: an event will bring the claim back, and if none does
    /// in a minute, the resync. resourceVersions of one kind are ordered (KEP-5504).
    pub(crate) fn is_outdated(&self, claim: &ClaimRecord) -> bool {
        let mut own_writes = self.own_writes.lock();
        let Some((written, since)) = own_writes.versions.get(&claim.uid) else { return false };
        let is_older = claim.resource_version.parse::<u64>().is_ok_and(|shown| shown < *written);
        if is_older && since.elapsed() < TO_BE_SEEN {
            return true;
        }
        own_writes.versions.remove(&claim.uid);
        false
    }

    /// Unless another node was selected meanwhile: the driver has not been asked for that one.
    pub(crate) fn note_infeasible(&self, claim: &ClaimRecord, class: &ClassRecord) {
        if self.caches.claims.get(&claim.uid).is_some_and(|cached| cached.node() == claim.node()) {
            self.infeasible.add(claim.uid.clone(), class.uid.clone());
        }
    }

    /// Remembered until the cache no longer shows the volume.
    pub(crate) fn note_reclaimed(&self, volume: &VolumeRecord, step: Step) {
        if self.caches.volumes.get(&volume.name).is_some_and(|cached| cached.uid == volume.uid) {
            self.reclaimed.set(volume.uid.clone(), step);
        }
    }

    /// The claim is bound or gone: what was remembered for its sake goes too. A call in progress stays.
    pub(crate) fn forget_claim(&self, claim: &ClaimUid) {
        let mut own_writes = self.own_writes.lock();
        own_writes.told.remove(claim);
        own_writes.versions.remove(claim);
        self.provisioned.forget(claim);
        self.infeasible.forget(claim);
        self.awaiting_nodes.forget(claim);
        self.competition.forget(claim);
    }
}
