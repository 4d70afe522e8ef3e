//! The process, from its command line to its exit code: flags → API server → driver → caches → leader terms.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{Duration, SystemTime, UNIX_EPOCH};

use controller_runtime::{ElectionMetrics, Health, Informer, LeadError, Tasks, WorkQueueMetrics, kube_client, lead};
use csi_client::{CallMetrics, Driver, DriverInfo, Error as DriverError, Handshake};
use kube::{Api, Client};
use sidecar::feature_gates::FeatureGates;
use sidecar::shutdown::Shutdown;
use sidecar::{Exit, Standard, http, kube_config, logging, process_env, termination_log};
use storage_kube::names::Interner;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::args::{Config, FEATURE_GATES, ProvisionerArgs};
use crate::metrics::ProvisionerMetrics;
use crate::migration::ProvisionerNames;
use crate::records::{AttachmentProjection, ClaimProjection, ClassProjection, VolumeProjection};
use crate::settings::{DriverFacts, Settings};
use crate::term::{self, Process};
use crate::term_context::Caches;

/// The API server gives up on a request after a minute; a request without answer for half of it is sent again.
const REQUEST_TIMEOUT: Duration = Duration::from_secs(30);

/// How long a process that does not lead yet waits with its first lists. One that leads at once lists when its term
/// begins, and that list is the term's barrier: one made before would have to be made again.
const LISTS_OF_A_STANDBY: Duration = Duration::from_secs(1);

/// How often every object is looked at again, as in the Go provisioner's library.
const RESYNC: Duration = Duration::from_mins(15);

/// Runs the program until it is told to end, or cannot go on.
///
/// # Errors
/// What to print and the exit code: 1 for errors, 2 for the command line, 255 where the Go provisioner ends fatally.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let args: ProvisionerArgs = sidecar::parse(argv)?;
    logging::init(&args.standard.logging()?)?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    if args.standard.version {
        return Err(Exit::version(env!("CARGO_PKG_VERSION")));
    }
    let config = args.config(&gates)?;
    let mut standard = args.standard.validate(&process_env)?;
    standard.log_ignored_flags();
    if let Some(http) = &mut standard.http {
        http.pprof_asked = args.enable_pprof;
    }
    let shutdown = Shutdown::listen()?;
    let kubeconfig = kube_config::kubeconfig_from_env(standard.kubeconfig.clone(), &process_env);
    let master = Some(args.master.as_str()).filter(|master| !master.is_empty());
    let mut kube_config =
        kube_config::load(&kube_config::Source { kubeconfig: kubeconfig.as_deref(), master }, &process_env).await?;
    let agent = concat!("csi-provisioner/", env!("CARGO_PKG_VERSION"), " (outrigger)");
    kube_client::set_user_agent(&mut kube_config, agent).map_err(|error| Exit::fatal(error.to_string()))?;
    Box::pin(Boot { config, standard, kube_config, shutdown }.serve()).await
}

struct Boot {
    config: Config,
    standard: Standard,
    kube_config: kube::Config,
    shutdown: Shutdown,
}

impl Boot {
    /// Serves metrics, keeps the connection to the driver, and leads, until one of them ends the process.
    async fn serve(self) -> Result<(), Exit> {
        let metrics = sidecar::metrics::Metrics::new()?;
        let registry = metrics.registry();
        let call_metrics = CallMetrics::register(registry).map_err(fatal)?;
        let queue_metrics = WorkQueueMetrics::register(registry).map_err(fatal)?;
        let election_metrics = ElectionMetrics::register(registry).map_err(fatal)?;
        let provisioner_metrics = ProvisionerMetrics::register(registry).map_err(fatal)?;
        let tasks = Tasks::new();
        let health = Health::new();
        if let Some(settings) = self.standard.http.clone() {
            let server = http::bind(settings, metrics.clone(), health.clone()).await?;
            tasks.spawn("http", server.run(tasks.token()));
        }
        let (driver, connection) = Driver::new(csi_client::Settings {
            address: self.standard.csi_address.clone(),
            handshake: Handshake::Controller,
            timeout: self.config.timeout,
            metrics: call_metrics,
        });
        let shutdown = self.shutdown.token();
        let ended = {
            let served = self.lead(&driver, &tasks, health, (queue_metrics, election_metrics, provisioner_metrics));
            tokio::pin!(served);
            tokio::select! {
                result = &mut served => result,
                error = connection.run() => {
                    // The term ends in good order, so that another replica does not have to wait for the lease to run out.
                    shutdown.cancel();
                    let _ = tokio::time::timeout(self.config.timeout, &mut served).await;
                    Err(driver_failed(&error))
                }
                failure = tasks.failed() => Err(Exit::error(failure.to_string())),
            }
        };
        tasks.shutdown().await;
        ended
    }

    /// Waits for the driver, starts the caches, and works in every leader term until told to end.
    async fn lead(
        &self,
        driver: &Driver,
        tasks: &Tasks,
        health: Health,
        (queue_metrics, election_metrics, metrics): (WorkQueueMetrics, ElectionMetrics, ProvisionerMetrics),
    ) -> Result<(), Exit> {
        let shutdown = self.shutdown.token();
        let info = tokio::select! {
            () = shutdown.cancelled() => return Ok(()),
            info = driver.ready() => info,
        };
        info!(driver = %info.name, "CSI driver is ready");
        let unlimited = kube_client::client(&self.kube_config, REQUEST_TIMEOUT).map_err(fatal)?;
        let client = match &self.standard.request_limit {
            Some(limit) => limit.client(&unlimited),
            None => unlimited.clone(),
        };
        let settings = Arc::new(self.settings(&info));
        let process = Arc::new(Process {
            caches: Arc::new(start_caches(&settings, &client, tasks)),
            settings,
            driver: driver.clone(),
            client,
            events_client: unlimited,
            host_name: sidecar::leader_election::host_name(),
            worker_threads: self.config.worker_threads,
            backoff: self.config.backoff,
            queue_metrics,
            metrics,
            elects: self.standard.leader_election.is_some(),
        });
        // The Go provisioner replaces slashes before its general rule for lease names does the rest.
        let lock_name = info.name.as_ref().replace('/', "-");
        let election = self.standard.leader_election.as_ref();
        let election = election.map(|flags| flags.election(&lock_name, self.kube_config.clone(), election_metrics));
        Box::pin(lead(election, shutdown, health, |term| Box::pin(term::work(Arc::clone(&process), term))))
            .await
            .map_err(|error| lead_failed(&error))
    }

    fn settings(&self, driver: &DriverInfo) -> Settings {
        Settings {
            names: ProvisionerNames::of(driver.name.as_ref()),
            driver: DriverFacts::of(driver),
            flags: self.config.provisioning.clone(),
            identity: provisioner_identity(driver.name.as_ref()),
            timeout: self.config.timeout,
        }
    }
}

/// `<unix milliseconds>-<0..9999>-<driver>`.
fn provisioner_identity(driver: &str) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = uuid::Uuid::new_v4().as_u128() % 10_000;
    format!("{}-{random}-{driver}", now.as_millis())
}

/// One watch per kind, for the life of the process, from the first term or soon after.
pub(crate) fn start_caches(settings: &Settings, client: &Client, tasks: &Tasks) -> Caches {
    let names = &settings.names;
    let begin = CancellationToken::new();
    let (claims, task) =
        Informer::new(Api::all(client.clone()), ClaimProjection { names: names.clone() }, Some(RESYNC));
    tasks.spawn("claims", when_due(begin.clone(), task.run()));
    let (classes, task) =
        Informer::new(Api::all(client.clone()), ClassProjection { names: names.clone() }, Some(RESYNC));
    tasks.spawn("classes", when_due(begin.clone(), task.run()));
    let projection = VolumeProjection { names: names.clone(), interner: Interner::new() };
    let (volumes, task) = Informer::new(Api::all(client.clone()), projection, Some(RESYNC));
    tasks.spawn("volumes", when_due(begin.clone(), task.run()));
    let attachments = settings.driver.attaches.then(|| {
        let projection = AttachmentProjection { driver: names.driver.clone() };
        let (attachments, task) = Informer::new(Api::all(client.clone()), projection, None);
        tasks.spawn("attachments", when_due(begin.clone(), task.run()));
        attachments
    });
    Caches { claims, classes, volumes, attachments, begin }
}

async fn when_due(begin: CancellationToken, run: impl Future<Output = ()>) {
    let _ = tokio::time::timeout(LISTS_OF_A_STANDBY, begin.cancelled()).await;
    run.await;
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
        | DriverError::NoCapabilities { .. } => Exit::fatal(message),
    }
}

fn lead_failed(error: &LeadError<std::convert::Infallible>) -> Exit {
    Exit::error(error.to_string())
}
