//! The process, from its command line to its exit code: flags → API server → driver → leader terms.

use std::ffi::OsString;
use std::sync::Arc;

use csi_client::Handshake;
use sidecar::feature_gates::FeatureGates;
use sidecar::{Boot, Exit, Metrics, Shutdown, Started, kube_config, leading, logging, process_env};
use storage_kube::in_tree::InTreePlugin;

use crate::args::{AttacherArgs, Config, FEATURE_GATES};
use crate::metrics::AttacherMetrics;
use crate::settings::Settings;
use crate::term::{self, Process};

/// Runs the program until it is told to end, or cannot go on.
///
/// # Errors
/// What to print and the exit code: 1 for errors, 2 for the command line.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    Box::pin(serve(argv)).await.map_err(as_error)
}

/// The Go attacher has no fatal ends: all of them are errors.
pub(crate) fn as_error(mut exit: Exit) -> Exit {
    if exit.code == Exit::fatal("").code {
        exit.code = Exit::error("").code;
    }
    exit
}

async fn serve(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let args: AttacherArgs = sidecar::parse_go_flags(argv)?;
    logging::init(&args.standard.logging()?)?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    if args.standard.version {
        return Err(Exit::version(env!("CARGO_PKG_VERSION")));
    }
    let standard = args.standard.validate(&process_env)?;
    let config = args.config(&gates)?;
    standard.log_ignored_flags();
    let shutdown = Shutdown::listen()?;
    let source = kube_config::Source { kubeconfig: standard.kubeconfig.as_deref(), master: None };
    let agent = concat!("csi-attacher/", env!("CARGO_PKG_VERSION"), " (outrigger)");
    let kube_config = leading::clients_config(&source, agent)?;
    let metrics = Metrics::new()?;
    let own_metrics = AttacherMetrics::register(metrics.registry()).map_err(|error| Exit::error(error.to_string()))?;
    let boot = Boot {
        standard,
        kube_config,
        shutdown,
        handshake: Handshake::ControllerIfServed,
        timeout: config.timeout,
        longest_logged_response: config.max_grpc_log_length,
        replaces_a_plugin: |driver| InTreePlugin::replaced_by(driver).is_some(),
        lock_name,
    };
    let serve = boot.serve(metrics, async |started| {
        let process = Arc::new(process(&config, started, own_metrics));
        Ok(move |term| Box::pin(term::work(Arc::clone(&process), term)))
    });
    Box::pin(serve).await
}

/// Of the Lease, before the rule for its names.
pub(crate) fn lock_name(driver: &str) -> String {
    format!("external-attacher-leader-{driver}")
}

/// What outlives a term, once the driver is known.
fn process(config: &Config, started: Started, metrics: AttacherMetrics) -> Process {
    let settings = Arc::new(Settings::new(config, &started.info));
    if !settings.facts.publishes {
        tracing::info!(driver = %settings.driver, "the driver does not attach volumes: attachments are only marked as attached");
    }
    Process {
        informers: started.informers,
        settings,
        driver: started.driver,
        api_server: started.api_server,
        queue_metrics: started.queue_metrics,
        metrics,
    }
}
