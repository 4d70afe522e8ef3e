//! One leader term, from the barrier at its start to its last write.

use std::convert::Infallible;
use std::sync::Arc;

use controller_runtime::{ApiServer, InformerError, Lane, Term, WorkQueueMetrics, run_lane, run_workers};
use csi_client::Driver;
use kube::Api;
use sidecar::TermAdmission;
use tokio_util::sync::CancellationToken;
use tracing::{error, info};

use crate::attachment::left_behind::LeftBehind;
use crate::attachment::remembered::Remembered;
use crate::attachment::sync_attachment;
use crate::attachment::waiting_for_node::WaitingForNode;
use crate::caches::Caches;
use crate::call_slots::CallSlots;
use crate::metrics::AttacherMetrics;
use crate::reconcile::mismatches::Mismatches;
use crate::records::{AttachmentProjection, VolumeProjection};
use crate::settings::Settings;
use crate::subscriptions::subscribe;
use crate::term_context::{Queues, TermContext};
use crate::volume::own_patches::OwnPatches;
use crate::volume::sync_volume;
use crate::{backlog, reconcile};

/// What outlives a term.
pub(crate) struct Process {
    pub(crate) settings: Arc<Settings>,
    pub(crate) caches: Arc<Caches>,
    pub(crate) driver: Driver,
    pub(crate) api_server: ApiServer,
    pub(crate) queue_metrics: WorkQueueMetrics,
    pub(crate) metrics: AttacherMetrics,
    /// Whether another process may have worked before this term.
    pub(crate) elects: bool,
}

/// Runs beyond the calls in flight, so that writes to the API server do not hold up calls.
const RUNS_BESIDE_CALLS: usize = 32;

/// Works until the term drains. Dropped at any moment when leadership is lost: queues, workers and memory go with it.
pub(crate) async fn work(process: Arc<Process>, term: Term) -> Result<(), Infallible> {
    let context = context(&process, &term);
    work_in(&process, &context, term.number()).await;
    Ok(())
}

/// The work of the term that `context` was made for.
pub(crate) async fn work_in(process: &Process, context: &Arc<TermContext>, term: u64) {
    let drain = &context.draining;
    process.caches.first_lists.begin();
    tokio::select! {
        biased;
        () = drain.cancelled() => return,
        () = current(process) => {}
    }
    info!(term, "caches are current, work starts");
    let _subscriptions = subscribe(context);
    let facts = context.settings.facts;
    let compared = async {
        if facts.publishes && facts.lists_published_nodes {
            reconcile::run(context).await;
        }
    };
    tokio::join!(run(context, drain), compared, backlog::watch(context));
}

/// Everything of the term that writes or calls, behind its gate.
pub(crate) fn context(process: &Process, term: &Term) -> Arc<TermContext> {
    let settings = &process.settings;
    let api = term.gate().client(&process.api_server);
    Arc::new(TermContext {
        settings: Arc::clone(settings),
        caches: Arc::clone(&process.caches),
        attachments: Api::all(api.clone()),
        api,
        driver: process.driver.controller(Arc::new(TermAdmission(term.gate().clone()))),
        draining: term.draining(),
        queues: Queues::new(settings.backoff, &process.queue_metrics),
        slots: CallSlots::new(settings.worker_threads, process.metrics.clone()),
        attachment_projection: AttachmentProjection::new(settings, &process.caches.interners),
        volume_projection: VolumeProjection::new(settings, &process.caches.interners),
        remembered: Remembered::default(),
        left_behind: LeftBehind::default(),
        waiting_for_node: WaitingForNode::default(),
        own_patches: OwnPatches::default(),
        mismatches: Mismatches::new(settings.facts.publishes && settings.facts.lists_published_nodes),
    })
}

async fn run(context: &Arc<TermContext>, drain: &CancellationToken) {
    let queues = &context.queues;
    let threads = context.settings.worker_threads;
    let limit = threads.saturating_add(RUNS_BESIDE_CALLS);
    let attachments = |lane: Lane| {
        let context = Arc::clone(context);
        run_lane(queues.attachments.clone(), lane, limit, drain.clone(), move |name| {
            sync_attachment(Arc::clone(&context), name, lane)
        })
    };
    let volumes = Arc::clone(context);
    tokio::join!(
        attachments(Lane::Urgent),
        attachments(Lane::Ordinary),
        run_workers(queues.volumes.clone(), threads, drain.clone(), move |name| sync_volume(
            Arc::clone(&volumes),
            name
        )),
    );
}

/// Returns when no cache is older than the start of the term: what the previous leader did must be seen before anything
/// is detached.
async fn current(process: &Process) {
    let (caches, publishes) = (&process.caches, process.settings.facts.publishes);
    if !process.elects {
        caches.attachments.synced().await;
        if publishes {
            tokio::join!(caches.volumes.synced(), caches.nodes.synced());
        }
        return;
    }
    if let Err(error) = caught_up(caches, publishes).await {
        // A cache has no task any more, which ends the process.
        error!(err = %error, "the caches will not be known to be current, no work is done");
        std::future::pending::<()>().await;
    }
}

async fn caught_up(caches: &Caches, publishes: bool) -> Result<(), InformerError> {
    if publishes {
        tokio::try_join!(caches.attachments.caught_up(), caches.volumes.caught_up(), caches.nodes.caught_up())?;
        Ok(())
    } else {
        caches.attachments.caught_up().await
    }
}
