//! Volumes that the driver cannot grow while pods use them.
//!
//! Pods are the biggest and busiest objects of a cluster, so none is looked at before the driver has said "in use"
//! (`FAILED_PRECONDITION`) of a volume. From then on the pods of the claim's namespace are watched, until no claim of the
//! namespace is marked any more. The Go resizer watches every pod from its start.

use std::collections::{HashMap, HashSet};
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{Collection, Informer, Projection, Subscription};
use kube::Api;
use kube::api::ListParams;
use parking_lot::Mutex;
use storage_kube::names::{ClaimName, ClaimUid, Namespace};
use storage_kube::uid::Uid;
use storage_kube::wire::PodClaims;
use tokio::time::timeout;
use tracing::{info, warn};

use crate::claim::Step;
use crate::records::ClaimRecord;
use crate::term_context::TermContext;

/// How long a claim waits for the first list of its namespace's pods. Without it the driver is asked again: it refuses once
/// more if the volume is in use.
const FIRST_LIST: Duration = Duration::from_secs(5);

/// The claims of a pod that runs or is to run.
struct PodRecord {
    claims: Vec<ClaimName>,
}

/// Keeps pods that use claims and have not ended.
struct PodProjection;

impl Projection for PodProjection {
    type Wire = PodClaims;
    type Key = Uid;
    type Record = PodRecord;
    type Group = ();

    fn key(&self, pod: &PodClaims) -> Option<Uid> {
        pod.metadata.uid.as_deref().map(Uid::from)
    }

    fn project(&self, pod: PodClaims) -> Option<PodRecord> {
        let claims: Vec<ClaimName> = pod.claims().map(ClaimName::from).collect();
        (!claims.is_empty() && !pod.has_ended()).then_some(PodRecord { claims })
    }
}

/// The namespaces that are watched, of one term.
#[derive(Default)]
pub(crate) struct InUse {
    watched: Mutex<HashMap<Namespace, Watched>>,
    /// The API server does not let this process see pods.
    forbidden: Mutex<bool>,
}

/// Dropped, the watch ends.
struct Watched {
    pods: Informer<PodProjection>,
    marked: Arc<Mutex<HashSet<ClaimUid>>>,
    _subscription: Subscription,
}

impl InUse {
    /// The claim is gone, or the driver has said something else of its volume.
    pub(crate) fn unmark(&self, claim: &ClaimUid) {
        self.watched.lock().retain(|_, watched| {
            let mut marked = watched.marked.lock();
            marked.remove(claim);
            !marked.is_empty()
        });
    }

    #[cfg(test)]
    pub(crate) fn watched(&self) -> usize {
        self.watched.lock().len()
    }
}

/// The driver has said that the claim's volume is in use.
pub(crate) async fn mark(term: &TermContext, claim: &ClaimRecord) {
    term.memories.change(&claim.uid, |memory| memory.was_in_use = true);
    if !term.settings.handle_in_use || *term.in_use.forbidden.lock() {
        return;
    }
    if may_see_pods(term, &claim.namespace).await {
        watch(term, claim);
    }
}

/// Whether the driver has called the volume in use, and a pod uses it.
pub(crate) async fn is_held_up(term: &TermContext, claim: &ClaimRecord) -> bool {
    if !term.settings.handle_in_use || !term.memories.get(&claim.uid).was_in_use {
        return false;
    }
    let pods = term.in_use.watched.lock().get(&claim.namespace).map(|watched| watched.pods.clone());
    let Some(pods) = pods else { return false };
    if timeout(FIRST_LIST, pods.synced()).await.is_err() {
        return false;
    }
    is_used(&pods, &claim.name)
}

fn is_used(pods: &Informer<PodProjection>, claim: &ClaimName) -> bool {
    pods.keys().iter().filter_map(|pod| pods.get(pod)).any(|pod| pod.claims.contains(claim))
}

/// A watch that is refused would be tried for ever and tell nothing.
async fn may_see_pods(term: &TermContext, namespace: &Namespace) -> bool {
    let api: Api<PodClaims> = Api::namespaced(term.api.clone(), namespace.as_str());
    match api.list(&ListParams::default().limit(1)).await {
        Err(kube::Error::Api(status)) if status.code == 403 => {
            *term.in_use.forbidden.lock() = true;
            term.metrics.pods_forbidden();
            warn!(
                "pods may not be listed, so drivers are asked to grow volumes that are in use again and again: allow list and watch \
                 on pods in the RBAC rules of csi-resizer, or set --handle-volume-inuse-error=false ({})",
                status.message
            );
            false
        }
        _ => true,
    }
}

fn watch(term: &TermContext, claim: &ClaimRecord) {
    let mut all = term.in_use.watched.lock();
    if let Some(watched) = all.get_mut(&claim.namespace) {
        watched.marked.lock().insert(claim.uid.clone());
        return;
    }
    info!(namespace = %claim.namespace, "pods are watched: the driver does not grow volumes that they use");
    let of_namespace = Collection::of::<PodClaims>().in_namespace(claim.namespace.as_str());
    let pods = term.informers.of(of_namespace, PodProjection, None);
    let marked = Arc::new(Mutex::new(HashSet::from([claim.uid.clone()])));
    let (queue, pace, claims) = (term.queue.clone(), Arc::clone(&term.pace), term.caches.claims.clone());
    let (waiting, of_namespace) = (Arc::clone(&marked), pods.clone());
    let subscription = pods.subscribe(move |change| {
        let (Some(old), None) = (change.old, change.new) else { return };
        // A pod that is gone or has ended lets go of its volumes; the last one that used one lets it grow.
        for uid in waiting.lock().iter() {
            let freed = |claim: &ClaimRecord| old.claims.contains(&claim.name) && !is_used(&of_namespace, &claim.name);
            if claims.get(uid).is_some_and(|claim| freed(&claim)) {
                pace.reset(uid, Step::Expand);
                queue.add(uid.clone());
            }
        }
    });
    all.insert(claim.namespace.clone(), Watched { pods, marked, _subscription: subscription });
}
