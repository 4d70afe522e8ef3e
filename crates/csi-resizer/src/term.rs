//! One leader term, from the barrier at its start to its last write.

use std::convert::Infallible;
use std::sync::Arc;

use controller_runtime::discovery::ServedKind;
use controller_runtime::{
    ApiServer, EventRecorder, EventWriter, Informers, Term, WorkQueue, WorkQueueMetrics, run_workers,
};
use csi_client::Driver;
use sidecar::TermAdmission;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::caches::Caches;
use crate::claim::memory::Memories;
use crate::claim::pace::Pace;
use crate::claim::sync_claim;
use crate::expand::in_use::InUse;
use crate::metrics::ResizerMetrics;
use crate::new_connections;
use crate::settings::Settings;
use crate::subscriptions::subscribe;
use crate::term_context::TermContext;

/// What outlives a term.
pub(crate) struct Process {
    pub(crate) settings: Arc<Settings>,
    /// Whether gate `VolumeAttributesClass` holds.
    pub(crate) attributes_classes: ServedKind,
    pub(crate) informers: Informers,
    pub(crate) driver: Driver,
    pub(crate) api_server: ApiServer,
    /// Events do not queue behind the writes they tell of.
    pub(crate) unlimited: ApiServer,
    pub(crate) queue_metrics: WorkQueueMetrics,
    pub(crate) metrics: ResizerMetrics,
}

/// Works until the term drains. Dropped at any moment when leadership is lost: queue, workers and memory go with it.
pub(crate) async fn work(process: Arc<Process>, term: Term) -> Result<(), Infallible> {
    if let Some((context, writer)) = begin(&process, &term).await {
        work_in(&context, writer, &process.driver, term.number()).await;
    }
    Ok(())
}

/// Waits until it is known which kinds the API server has, which settles what the term does. None: the term drains first.
pub(crate) async fn begin(process: &Process, term: &Term) -> Option<(Arc<TermContext>, EventWriter)> {
    let drain = term.draining();
    let client = process.api_server.client();
    tokio::select! {
        biased;
        () = drain.cancelled() => None,
        () = process.attributes_classes.find_out(&client) => Some(context(process, term)),
    }
}

/// The work of the term that `context` was made for.
pub(crate) async fn work_in(context: &Arc<TermContext>, writer: EventWriter, driver: &Driver, term: u64) {
    tokio::select! {
        biased;
        () = context.draining.cancelled() => return,
        () = context.caches.claims.synced() => {}
    }
    info!(term, "caches are current, work starts");
    let subscriptions = subscribe(context);
    let worked = CancellationToken::new();
    let workers = async {
        let claims = Arc::clone(context);
        let sync = move |uid| sync_claim(Arc::clone(&claims), uid);
        run_workers(context.queue.clone(), context.settings.workers, context.draining.clone(), sync).await;
        drop(subscriptions);
        worked.cancel();
    };
    let new_connections = new_connections::end_waits(context, driver.new_connections());
    tokio::join!(workers, new_connections, writer.run(worked.clone()));
}

/// Everything of the term: its caches, and what writes or calls, behind its gate. The event writer is to be run.
fn context(process: &Process, term: &Term) -> (Arc<TermContext>, EventWriter) {
    let settings = settings(process);
    let component = format!("external-resizer {}", settings.driver);
    let (events, writer) = EventRecorder::new(term.gate().client(&process.unlimited), component, String::new());
    let name = format!("{}-pvc", settings.driver);
    let context = Arc::new(TermContext {
        caches: Arc::new(Caches::start(&settings, &process.informers)),
        informers: process.informers.clone(),
        api: term.gate().client(&process.api_server),
        driver: process.driver.controller(Arc::new(TermAdmission(term.gate().clone()))),
        events,
        draining: term.draining(),
        queue: WorkQueue::new(name, settings.backoff, &process.queue_metrics),
        pace: Arc::new(Pace::new(settings.backoff)),
        memories: Memories::default(),
        in_use: InUse::default(),
        metrics: process.metrics.clone(),
        settings,
    });
    (context, writer)
}

/// The settings of a term: those of the process, without classes of attributes where the API server has no such kind.
fn settings(process: &Process) -> Arc<Settings> {
    if process.attributes_classes.may_be_served() {
        return Arc::clone(&process.settings);
    }
    Arc::new(Settings { modifies: false, ..(*process.settings).clone() })
}
