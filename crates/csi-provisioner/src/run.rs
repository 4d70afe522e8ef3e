//! The process, from its command line to its exit code: flags → API server → driver → leader terms.

use std::ffi::OsString;
use std::sync::Arc;
use std::time::{SystemTime, UNIX_EPOCH};

use csi_client::{DriverInfo, Handshake};
use sidecar::feature_gates::FeatureGates;
use sidecar::{Boot, Exit, Metrics, Shutdown, Started, kube_config, leading, logging, process_env};
use storage_kube::in_tree::InTreePlugin;
use storage_kube::topology::Segment;

use crate::args::{Config, FEATURE_GATES, ProvisionerArgs};
use crate::attributes_class;
use crate::capacity::metrics::CapacityMetrics;
use crate::capacity::owner::{Owner, await_owner};
use crate::capacity::process::CapacityProcess;
use crate::capacity::segments::SegmentSource;
use crate::metrics::ProvisionerMetrics;
use crate::migration::ProvisionerNames;
use crate::settings::{DriverFacts, NodeFlags, Settings};
use crate::term::{self, Process};

/// Runs the program until it is told to end, or cannot go on.
///
/// # Errors
/// What to print and the exit code: 1 for errors, 2 for the command line, 255 where the Go provisioner ends fatally.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let args: ProvisionerArgs = sidecar::parse(argv)?;
    logging::init(&args.standard.logging()?)?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    let node = args.node(&process_env)?;
    if args.standard.version {
        return Err(Exit::version(env!("CARGO_PKG_VERSION")));
    }
    let config = args.config(&gates, node, &process_env)?;
    let mut standard = args.standard.validate(&process_env)?;
    standard.log_ignored_flags();
    if let Some(http) = &mut standard.http {
        http.pprof_asked = args.enable_pprof;
    }
    let shutdown = Shutdown::listen()?;
    let kubeconfig = kube_config::kubeconfig_from_env(standard.kubeconfig.clone(), &process_env);
    let master = Some(args.master.as_str()).filter(|master| !master.is_empty());
    let source = kube_config::Source { kubeconfig: kubeconfig.as_deref(), master };
    let agent = concat!("csi-provisioner/", env!("CARGO_PKG_VERSION"), " (outrigger)");
    let kube_config = leading::clients_config(&source, agent)?;
    let metrics = Metrics::new()?;
    let capacity_metrics = config.capacity.as_ref().map(|_| CapacityMetrics::register(metrics.registry())).transpose();
    let capacity_metrics = capacity_metrics.map_err(|error| Exit::fatal(error.to_string()))?;
    let own_metrics =
        ProvisionerMetrics::register(metrics.registry()).map_err(|error| Exit::fatal(error.to_string()))?;
    let boot = Boot {
        standard,
        kube_config,
        shutdown,
        handshake: if config.node.is_some() { Handshake::ControllerOfNode } else { Handshake::Controller },
        timeout: config.timeout,
        longest_logged_response: None,
        replaces_a_plugin: |driver| InTreePlugin::replaced_by(driver).is_some(),
        lock_name,
    };
    let serve = boot.serve(metrics, async |started| {
        let owner = match &config.capacity {
            Some(flags) => await_owner(&started.unlimited.client(), flags).await?,
            None => None,
        };
        let process = Arc::new(process(config, owner, capacity_metrics, started, own_metrics));
        Ok(move |term| Box::pin(term::work(Arc::clone(&process), term)))
    });
    Box::pin(serve).await
}

/// The Go provisioner replaces slashes before its general rule for lease names does the rest.
fn lock_name(driver: &str) -> String {
    driver.replace('/', "-")
}

/// What outlives a term, once the driver is known.
fn process(
    config: Config,
    owner: Option<Owner>,
    capacity_metrics: Option<CapacityMetrics>,
    started: Started,
    metrics: ProvisionerMetrics,
) -> Process {
    let driver = started.info.name.as_ref();
    let node = config.node.map(|node| NodeFlags { place: place(&started.info), ..node });
    let settings = Arc::new(Settings {
        names: ProvisionerNames::of(driver),
        driver: DriverFacts::of(&started.info),
        flags: config.provisioning,
        capacity: config.capacity,
        identity: provisioner_identity(driver, node.as_ref()),
        node,
        timeout: config.timeout,
    });
    let source = match &settings.node {
        Some(node) => SegmentSource::Fixed(node.place.clone().unwrap_or_default()),
        None => SegmentSource::Nodes,
    };
    let capacity = capacity_metrics.and_then(|metrics| CapacityProcess::new(&settings, owner, source, metrics));
    Process {
        informers: started.informers,
        capacity: capacity.map(Arc::new),
        attributes_classes: attributes_class::kind(settings.flags.discover_attributes_class),
        settings,
        driver: started.driver,
        api_server: started.api_server,
        unlimited: started.unlimited,
        host_name: sidecar::leader_election::host_name(),
        worker_threads: config.worker_threads,
        backoff: config.backoff,
        queue_metrics: started.queue_metrics,
        metrics,
    }
}

/// Where the node of this process is, if the driver was asked and says so.
fn place(driver: &DriverInfo) -> Option<Segment> {
    driver.node_topology.as_ref().map(|segments| segments.iter().collect())
}

/// `<unix milliseconds>-<0..9999>-<driver>`, and `-<node>` of a process that serves one.
fn provisioner_identity(driver: &str, node: Option<&NodeFlags>) -> String {
    let now = SystemTime::now().duration_since(UNIX_EPOCH).unwrap_or_default();
    let random = uuid::Uuid::new_v4().as_u128() % 10_000;
    let mut identity = format!("{}-{random}-{driver}", now.as_millis());
    if let Some(node) = node {
        identity.push('-');
        identity.push_str(node.name.as_str());
    }
    identity
}
