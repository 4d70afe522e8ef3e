//! The frame of every sidecar that works as a leader: metrics over HTTP, the connection to the driver, leader terms.
//!
//! The flow: a sidecar reads its flags and fills a [`Boot`] → [`Boot::serve`] serves HTTP, keeps the connection and waits
//! for the driver → the sidecar's own function makes what outlives a term of the [`Started`] → each leader term runs
//! what that function returned → one of them ends the process, the others end in good order.

use std::convert::Infallible;
use std::sync::Arc;
use std::time::Duration;

use controller_runtime::{
    ApiServer, Continuity, ElectionMetrics, Health, Informers, LeadError, Tasks, Term, WorkQueueMetrics, kube_client,
    lead,
};
use csi_client::{CallMetrics, Driver, DriverInfo, Error as DriverError, Handshake};
use prometheus::Registry;
use tracing::info;

use crate::args::Standard;
use crate::exit::Exit;
use crate::metrics::Metrics;
use crate::shutdown::Shutdown;
use crate::{http, kube_config, process_env, termination_log};

/// The API server gives up on a request after a minute; a request without answer for half of it is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// What a sidecar knows when its command line has been read.
pub struct Boot {
    /// The shared flags.
    pub standard: Standard,
    /// How to reach the API server.
    pub kube_config: kube::Config,
    /// The signals.
    pub shutdown: Shutdown,
    /// What every new connection to the driver is asked.
    pub handshake: Handshake,
    /// The deadline of every CSI call.
    pub timeout: Duration,
    /// Characters of a response of the driver that the logs show; none: all of it.
    pub longest_logged_response: Option<usize>,
    /// Whether a driver of this name replaces a plugin built into Kubernetes: its calls are counted with a label more.
    pub replaces_a_plugin: fn(&str) -> bool,
    /// The lock's name, made of the driver's name, before the rule for names of Leases.
    pub lock_name: fn(&str) -> String,
}

/// How long the API server may be out of reach before a term without a lease ends: as long as a leader goes on without a
/// renewal by default.
const LONGEST_OUTAGE: Duration = Duration::from_secs(10);

/// What a sidecar is given when its driver is ready, to make what outlives a leader term.
pub struct Started {
    /// What the driver has said of itself.
    pub info: Arc<DriverInfo>,
    /// The driver.
    pub driver: Driver,
    /// For requests, under the client-side limit if there is one.
    pub api_server: ApiServer,
    /// Without the limit: for what has one of its own, and for events, which do not queue behind the writes they tell of.
    pub unlimited: ApiServer,
    /// From which a term makes its caches.
    pub informers: Informers,
    /// Where the queues are counted.
    pub queue_metrics: WorkQueueMetrics,
}

/// The configuration of all clients, which introduce themselves as `agent`.
///
/// # Errors
/// The exit codes of [`kube_config::load`]; 255 for an agent that cannot be a header.
pub fn clients_config(source: &kube_config::Source<'_>, agent: &str) -> Result<kube::Config, Exit> {
    let mut config = kube_config::load(source, &process_env)?;
    kube_client::set_user_agent(&mut config, agent).map_err(fatal)?;
    Ok(config)
}

impl Boot {
    /// Serves metrics, keeps the connection to the driver, and leads, until one of them ends the process.
    ///
    /// `start` is called once, when the driver is ready; what it returns is run in each leader term, see
    /// [`lead`]. HTTP is served meanwhile, so `start` may wait for the API server; it is dropped at the end of the process.
    ///
    /// # Errors
    /// What to print and the exit code: 1 for errors, 255 where the Go provisioner ends fatally; the error of `start`.
    pub async fn serve<S, W, Fut>(self, metrics: Metrics, start: S) -> Result<(), Exit>
    where
        S: AsyncFnOnce(Started) -> Result<W, Exit>,
        W: FnMut(Term) -> Fut,
        Fut: Future<Output = Result<(), Infallible>>,
    {
        let call_metrics = CallMetrics::register(metrics.registry()).map_err(fatal)?;
        call_metrics.label_migrated(self.replaces_a_plugin);
        if let Some(characters) = self.longest_logged_response {
            call_metrics.limit_logged_responses(characters);
        }
        let counted = Counted::register(metrics.registry())?;
        let tasks = Arc::new(Tasks::new());
        let health = Health::new();
        if let Some(settings) = self.standard.http.clone() {
            let server = http::bind(settings, metrics.clone(), health.clone()).await?;
            tasks.spawn("http", server.run(tasks.token()));
        }
        let (driver, connection) = Driver::new(csi_client::Settings {
            address: self.standard.csi_address.clone(),
            handshake: self.handshake,
            timeout: self.timeout,
            metrics: call_metrics,
        });
        let shutdown = self.shutdown.token();
        let ended = {
            let served = self.lead(&driver, &tasks, health, counted, start);
            tokio::pin!(served);
            tokio::select! {
                result = &mut served => result,
                error = connection.run() => {
                    // The term ends in good order, so that another replica does not have to wait for the lease to run out.
                    shutdown.cancel();
                    let _ = tokio::time::timeout(self.timeout, &mut served).await;
                    Err(driver_failed(&error))
                }
                failure = tasks.failed() => Err(Exit::error(failure.to_string())),
            }
        };
        Tasks::shutdown_shared(tasks).await;
        ended
    }

    /// Waits for the driver and works in every leader term until told to end.
    async fn lead<S, W, Fut>(
        &self,
        driver: &Driver,
        tasks: &Arc<Tasks>,
        health: Health,
        counted: Counted,
        start: S,
    ) -> Result<(), Exit>
    where
        S: AsyncFnOnce(Started) -> Result<W, Exit>,
        W: FnMut(Term) -> Fut,
        Fut: Future<Output = Result<(), Infallible>>,
    {
        let shutdown = self.shutdown.token();
        let info = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            info = driver.ready() => info,
        };
        info!(driver = %info.name, "CSI driver is ready");
        let unlimited = ApiServer::of(&self.kube_config, REQUEST_TIMEOUT).map_err(fatal)?;
        let api_server = match &self.standard.request_limit {
            Some(limit) => limit.limit(&unlimited),
            None => unlimited.clone(),
        };
        let lock_name = (self.lock_name)(info.name.as_ref());
        let server = unlimited.clone();
        let started = Started {
            info,
            driver: driver.clone(),
            api_server,
            // Not under the limit: of a list in pages each would take its turn.
            informers: Informers::new(unlimited.clone(), counted.continuity.clone(), tasks),
            unlimited,
            queue_metrics: counted.queues,
        };
        let mut work = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            work = start(started) => work?,
        };
        let work = move |term| {
            // Those of the term before may have died in the outage that has ended it.
            server.leave_connections();
            work(term)
        };
        let election = self.standard.leader_election.as_ref();
        let election = election.map(|flags| flags.election(&lock_name, self.kube_config.clone(), counted.election));
        Box::pin(lead(election, counted.continuity, shutdown, health, work)).await.map_err(|error| lead_failed(&error))
    }
}

/// Metrics of the machinery around the work.
struct Counted {
    queues: WorkQueueMetrics,
    election: ElectionMetrics,
    continuity: Continuity,
}

impl Counted {
    fn register(registry: &Registry) -> Result<Self, Exit> {
        Ok(Self {
            queues: WorkQueueMetrics::register(registry).map_err(fatal)?,
            election: ElectionMetrics::register(registry).map_err(fatal)?,
            continuity: Continuity::register(LONGEST_OUTAGE, registry).map_err(fatal)?,
        })
    }
}

fn fatal(error: impl std::error::Error) -> Exit {
    Exit::fatal(error.to_string())
}

fn driver_failed(error: &DriverError) -> Exit {
    let message = error.to_string();
    match error {
        DriverError::DriverChanged { .. } => {
            termination_log::write(termination_log::PATH.as_ref(), &message);
            Exit::error(message)
        }
        DriverError::Address { .. } | DriverError::ProbeFailed { .. } => Exit::error(message),
        DriverError::Metrics { .. }
        | DriverError::NoName { .. }
        | DriverError::EmptyName { .. }
        | DriverError::NoCapabilities { .. }
        | DriverError::NoNodeInfo { .. } => Exit::fatal(message),
    }
}

fn lead_failed(error: &LeadError<Infallible>) -> Exit {
    Exit::error(error.to_string())
}
