//! The process, from its command line to its exit code: flags → API server → driver → leader terms.

use std::ffi::OsString;
use std::sync::Arc;

use csi_client::Handshake;
use sidecar::feature_gates::FeatureGates;
use sidecar::{Boot, Exit, Metrics, Shutdown, Started, kube_config, leading, logging, process_env};
use storage_kube::in_tree::InTreePlugin;

use crate::args::{Config, FEATURE_GATES, ResizerArgs};
use crate::metrics::ResizerMetrics;
use crate::modify;
use crate::settings::{Settings, Unsupported};
use crate::term::{self, Process};

/// Runs the program until it is told to end, or cannot go on.
///
/// # Errors
/// What to print and the exit code: 1 for errors, 2 for the command line.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    Box::pin(serve(argv)).await.map_err(as_error)
}

/// The Go resizer ends fatally for a driver that can do nothing, and only then.
pub(crate) fn as_error(mut exit: Exit) -> Exit {
    if exit.code == Exit::fatal("").code {
        exit.code = Exit::error("").code;
    }
    exit
}

async fn serve(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let args: ResizerArgs = sidecar::parse_go_flags(argv)?;
    logging::init(&args.standard.logging()?)?;
    if args.standard.version {
        return Err(Exit::version(env!("CARGO_PKG_VERSION")));
    }
    let standard = args.standard.validate(&process_env)?;
    let gates = FeatureGates::new(FEATURE_GATES, &args.feature_gates)?;
    let config = args.config(&gates)?;
    standard.log_ignored_flags();
    let shutdown = Shutdown::listen()?;
    let master = Some(args.master.as_str()).filter(|master| !master.is_empty());
    let source = kube_config::Source { kubeconfig: standard.kubeconfig.as_deref(), master };
    let agent = concat!("csi-resizer/", env!("CARGO_PKG_VERSION"), " (outrigger)");
    let kube_config = leading::clients_config(&source, agent)?;
    let metrics = Metrics::new()?;
    let own_metrics = ResizerMetrics::register(metrics.registry()).map_err(|error| Exit::error(error.to_string()))?;
    let boot = Boot {
        standard,
        kube_config,
        shutdown,
        handshake: Handshake::ControllerOrNodeExpansion,
        timeout: config.timeout,
        longest_logged_response: None,
        replaces_a_plugin: |driver| InTreePlugin::replaced_by(driver).is_some(),
        lock_name,
    };
    let serve = boot.serve(metrics, async |started| {
        let process = process(&config, started, own_metrics).map(Arc::new);
        Ok(move |term| {
            let process = process.clone();
            Box::pin(async move {
                if let Ok(process) = process {
                    term::work(process, term).await
                } else {
                    term.draining().cancelled().await;
                    Ok(())
                }
            })
        })
    });
    Box::pin(serve).await
}

/// Of the Lease, before the rule for its names.
pub(crate) fn lock_name(driver: &str) -> String {
    format!("external-resizer-{driver}")
}

/// What outlives a term, once the driver is known. Without anything to do for the driver, the process stays and says so:
/// what it is for may change when the driver does, and ending again and again would take the driver's pod down with it.
pub(crate) fn process(config: &Config, started: Started, metrics: ResizerMetrics) -> Result<Process, Unsupported> {
    let settings = Settings::new(config, &started.info).inspect_err(|why| {
        tracing::error!(driver = %started.info.name, "{why}: nothing is resized or modified until the driver changes");
        metrics.disabled();
    })?;
    let settings = Arc::new(settings);
    Ok(Process {
        attributes_classes: modify::kind(settings.modifies && config.discover_attributes_class),
        informers: started.informers,
        settings,
        driver: started.driver,
        api_server: started.api_server,
        unlimited: started.unlimited,
        queue_metrics: started.queue_metrics,
        metrics,
    })
}
