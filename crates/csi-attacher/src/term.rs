//! One leader term, from the barrier at its start to its last write.

use std::convert::Infallible;
use std::sync::Arc;

use controller_runtime::{ApiServer, Informers, Lane, Term, WorkQueueMetrics, run_lane, run_workers};
use csi_client::Driver;
use kube::Api;
use sidecar::TermAdmission;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::attachment::left_behind::LeftBehind;
use crate::attachment::node_detaches::NodeDetaches;
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
use crate::turns::Turns;
use crate::volume::own_patches::OwnPatches;
use crate::volume::sync_volume;
use crate::{backlog, new_connections, reconcile};

/// What outlives a term.
pub(crate) struct Process {
    pub(crate) settings: Arc<Settings>,
    pub(crate) informers: Informers,
    pub(crate) driver: Driver,
    pub(crate) api_server: ApiServer,
    pub(crate) queue_metrics: WorkQueueMetrics,
    pub(crate) metrics: AttacherMetrics,
}

/// Runs beyond the calls in flight, so that writes to the API server do not hold up calls.
const RUNS_BESIDE_CALLS: usize = 32;

/// Works until the term drains. Dropped at any moment when leadership is lost: queues, workers and memory go with it.
pub(crate) async fn work(process: Arc<Process>, term: Term) -> Result<(), Infallible> {
    let context = context(&process, &term);
    work_in(&context, &process.driver, term.number()).await;
    Ok(())
}

/// The work of the term that `context` was made for.
pub(crate) async fn work_in(context: &Arc<TermContext>, driver: &Driver, term: u64) {
    let drain = &context.draining;
    // What the previous leader did must be seen before anything is detached.
    tokio::select! {
        biased;
        () = drain.cancelled() => return,
        () = context.caches.synced(&context.api) => {}
    }
    info!(term, "caches are current, work starts");
    let _subscriptions = subscribe(context);
    let facts = context.settings.facts;
    let compared = async {
        if facts.publishes && facts.lists_published_nodes {
            reconcile::run(context).await;
        }
    };
    tokio::join!(
        run(context, drain),
        compared,
        backlog::watch(context),
        new_connections::end_waits(context, driver.new_connections()),
    );
}

/// Everything of the term: its caches, and what writes or calls, behind its gate.
pub(crate) fn context(process: &Process, term: &Term) -> Arc<TermContext> {
    let settings = &process.settings;
    let api = term.gate().client(&process.api_server);
    let caches = Arc::new(Caches::start(settings, &process.informers));
    Arc::new(TermContext {
        settings: Arc::clone(settings),
        attachments: Api::all(api.clone()),
        api,
        driver: process.driver.controller(Arc::new(TermAdmission(term.gate().clone()))),
        draining: term.draining(),
        queues: Queues::new(settings.backoff, &process.queue_metrics),
        slots: CallSlots::new(settings.worker_threads, process.metrics.clone()),
        call_turns: Turns::default(),
        attachment_projection: AttachmentProjection::new(settings, &caches.interners),
        volume_projection: VolumeProjection::new(settings, &caches.interners),
        remembered: Remembered::default(),
        left_behind: LeftBehind::default(),
        waiting_for_node: WaitingForNode::default(),
        node_detaches: NodeDetaches::default(),
        own_patches: OwnPatches::default(),
        mismatches: Mismatches::new(settings.facts.publishes && settings.facts.lists_published_nodes),
        caches,
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
