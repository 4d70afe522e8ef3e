//! One leader term, from the barrier at its start to its last write.

use std::convert::Infallible;
use std::sync::Arc;

use controller_runtime::{
    ApiServer, Backoff, EventRecorder, EventWriter, Informers, Term, WorkQueueMetrics, run_workers,
};
use csi_client::Driver;
use parking_lot::Mutex;
use sidecar::TermAdmission;
use tokio::time::Instant;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::attachments::AttachmentKnowledge;
use crate::caches::Caches;
use crate::capacity::place::Place;
use crate::capacity::process::CapacityProcess;
use crate::capacity::{self, Capacity};
use crate::claim::awaiting_nodes::AwaitingNodes;
use crate::claim::in_progress::InProgress;
use crate::claim::infeasible::Infeasible;
use crate::claim::provisioned::{self, ProvisionedClaims};
use crate::claim::{self, sync_claim};
use crate::metrics::ProvisionerMetrics;
use crate::new_connections;
use crate::node_deployment::competition::Competition;
use crate::save_volume::{self, sync_unsaved};
use crate::settings::{ProvisioningFlags, Settings};
use crate::source_protection::{holds::Holds, snapshot_sweep, sync_source};
use crate::subscriptions::subscribe;
use crate::term_context::{Queues, TermContext};
use crate::topology::cluster::ClusterView;
use crate::volume::finalizer_writes::FinalizerWrites;
use crate::volume::reclaimed::Reclaimed;
use crate::volume::sync_volume;
use controller_runtime::discovery::ServedKind;

/// What outlives a term.
pub(crate) struct Process {
    pub(crate) settings: Arc<Settings>,
    /// Whether gate `VolumeAttributesClass` holds.
    pub(crate) attributes_classes: ServedKind,
    pub(crate) informers: Informers,
    pub(crate) driver: Driver,
    pub(crate) api_server: ApiServer,
    /// For capacities, which have a limit of their own, and events, which do not queue behind the writes they tell of.
    pub(crate) unlimited: ApiServer,
    pub(crate) host_name: String,
    pub(crate) worker_threads: usize,
    pub(crate) backoff: Backoff,
    pub(crate) queue_metrics: WorkQueueMetrics,
    pub(crate) metrics: ProvisionerMetrics,
    /// Only where capacities are to be published.
    pub(crate) capacity: Option<Arc<CapacityProcess>>,
}

/// Works until the term drains. Dropped at any moment when leadership is lost: queues, workers and memory go with it.
pub(crate) async fn work(process: Arc<Process>, term: Term) -> Result<(), Infallible> {
    if let Some((context, writer)) = begin(&process, &term).await {
        work_in(&process, &context, writer, term.number()).await;
    }
    Ok(())
}

/// Waits until it is known which kinds the API server has, which settles what the term does. None: the term drains first.
pub(crate) async fn begin(process: &Process, term: &Term) -> Option<(Arc<TermContext>, EventWriter)> {
    let (drain, client) = (term.draining(), process.unlimited.client());
    let capacities = async {
        match &process.capacity {
            Some(capacity) => Place::find(&client, &capacity.flags.namespace).await,
            None => None,
        }
    };
    tokio::select! {
        biased;
        () = drain.cancelled() => None,
        ((), place) = async { tokio::join!(process.attributes_classes.find_out(&client), capacities) } => {
            Some(context(process, term, place))
        }
    }
}

/// The work of the term that `context` was made for.
pub(crate) async fn work_in(process: &Process, context: &Arc<TermContext>, writer: EventWriter, term: u64) {
    let drain = &context.draining;
    // What the previous leader did must be seen before anything is deleted.
    tokio::select! {
        biased;
        () = drain.cancelled() => return,
        () = context.caches.synced() => {}
    }
    info!(term, "caches are current, work starts");
    let subscriptions = subscribe(context);
    let worked = CancellationToken::new();
    let workers = async {
        tokio::join!(
            reconcile(context, process.worker_threads, drain),
            new_connections::end_waits(context, process.driver.new_connections(), drain),
            capacity::work(context, drain),
        );
        drop(subscriptions);
        claim::last_try(context).await;
        save_volume::last_try(context).await;
        worked.cancel();
    };
    tokio::join!(workers, writer.run(worked.clone()));
}

/// Everything of the term: its caches, and what writes or calls, behind its gate. The event writer is to be run. Capacities
/// are published in `capacities`, if there is such a place.
pub(crate) fn context(process: &Process, term: &Term, capacities: Option<Place>) -> (Arc<TermContext>, EventWriter) {
    let component = format!("{}_{}_{}", process.settings.names.driver, process.host_name, uuid::Uuid::new_v4());
    let (events, writer) = EventRecorder::new(term.gate().client(&process.unlimited), component, String::new());
    let settings = settings(process);
    let caches = Arc::new(Caches::start(&settings, &process.informers));
    let context = Arc::new(TermContext {
        cluster: cluster(&settings, &caches),
        metrics: process.metrics.clone(),
        begun: Instant::now(),
        api: term.gate().client(&process.api_server),
        driver: process.driver.controller(Arc::new(TermAdmission(term.gate().clone()))),
        events,
        draining: term.draining(),
        queues: Queues::new(process.backoff, &process.queue_metrics),
        awaiting_nodes: AwaitingNodes::default(),
        competition: Competition::default(),
        in_progress: InProgress::default(),
        infeasible: Infeasible::new(process.backoff.max),
        provisioned: ProvisionedClaims::default(),
        reclaimed: Reclaimed::default(),
        finalizer_writes: FinalizerWrites::default(),
        capacity: process
            .capacity
            .as_ref()
            .zip(capacities)
            .map(|(capacity, place)| Capacity::new(capacity, place, process, term.gate())),
        holds: Holds::default(),
        attachments: AttachmentKnowledge::default(),
        unsaved: Mutex::default(),
        own_writes: Mutex::default(),
        settings,
        caches,
    });
    (context, writer)
}

/// The nodes whose topology decides where volumes may be, where it has a say.
fn cluster(settings: &Settings, caches: &Caches) -> Option<ClusterView> {
    if !settings.topology() {
        return None;
    }
    let driver = &settings.names.driver;
    match (&settings.node, &caches.nodes) {
        (Some(node), _) => {
            let place = node.place.clone().unwrap_or_default();
            Some(ClusterView::of_node(driver, node.name.clone(), &place))
        }
        (None, nodes) => nodes.as_ref().map(|nodes| ClusterView::watched(driver, nodes)),
    }
}

/// The settings of a term: those of the process, without a gate whose kind the API server does not have.
fn settings(process: &Process) -> Arc<Settings> {
    let settings = &process.settings;
    if process.attributes_classes.may_be_served() {
        return Arc::clone(settings);
    }
    let flags = ProvisioningFlags { attributes_class_gate: false, ..settings.flags.clone() };
    Arc::new(Settings { flags, ..(**settings).clone() })
}

/// How many volumes are written at once when writing them failed before; as in the Go provisioner.
const SAVE_WORKERS: usize = 4;

async fn reconcile(context: &Arc<TermContext>, threads: usize, drain: &CancellationToken) {
    let queues = &context.queues;
    let (claims, volumes, unsaved) = (Arc::clone(context), Arc::clone(context), Arc::clone(context));
    let (sources, flags) = (Arc::clone(context), &context.settings.flags);
    let sweep = async {
        if let Some(period) = flags.snapshot_sweep.filter(|_| context.settings.driver.snapshots) {
            snapshot_sweep::run(Arc::clone(context), period, drain.clone()).await;
        }
    };
    tokio::join!(
        run_workers(queues.claims.clone(), threads, drain.clone(), move |uid| sync_claim(Arc::clone(&claims), uid)),
        run_workers(queues.volumes.clone(), threads, drain.clone(), move |name| sync_volume(
            Arc::clone(&volumes),
            name
        )),
        run_workers(queues.unsaved.clone(), SAVE_WORKERS, drain.clone(), move |name| sync_unsaved(
            Arc::clone(&unsaved),
            name
        )),
        run_workers(queues.sources.clone(), flags.cloning_protection_threads, drain.clone(), move |key| sync_source(
            Arc::clone(&sources),
            key
        )),
        provisioned::requeue_overdue(context, drain),
        sweep,
    );
}
