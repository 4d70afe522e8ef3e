//! The process, from its command line to its exit code.

use std::ffi::OsString;
use std::net::SocketAddr;
use std::sync::Arc;

use controller_runtime::Tasks;
use controller_runtime::leader_election::Health;
use csi_client::CallMetrics;
use sidecar::http::{self, Listener, Server, Settings};
use sidecar::{Exit, Metrics, Shutdown, logging};
use tokio_util::sync::CancellationToken;

use crate::args::{Config, LivenessArgs, MetricsPlace};
use crate::check::Check;
use crate::driver_name::DriverName;
use crate::healthz::Content;
use crate::shared_probe::SharedProbe;

/// Runs the program until it is told to end, or cannot go on.
///
/// # Errors
/// What to print and the exit code: 1 for errors, 2 for the command line.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let args: LivenessArgs = sidecar::parse_go_flags(argv)?;
    logging::init(&args.logging.config()?)?;
    let config = args.config()?;
    args.logging.log_ignored_flags();
    let shutdown = Shutdown::listen()?;
    match Program::bind(config).await? {
        Some(program) => program.serve(shutdown.token()).await,
        None => Ok(()),
    }
}

/// The program with its addresses taken, answering nobody yet.
pub struct Program {
    config: Config,
    registry: Metrics,
    calls: CallMetrics,
    listener: Listener,
    metrics_server: Option<Server>,
}

impl Program {
    /// Takes the addresses. `None` when the one of `/healthz` cannot be had: logged, and for the Go program no error either.
    ///
    /// # Errors
    /// Code 1 when `--metrics-address` cannot be listened on.
    pub async fn bind(config: Config) -> Result<Option<Self>, Exit> {
        let registry = Metrics::start_time_only()?;
        let calls = match &config.metrics {
            Some(_) => CallMetrics::register(registry.registry()).map_err(|error| Exit::error(error.to_string()))?,
            None => CallMetrics::none(),
        };
        let metrics_server = match &config.metrics {
            Some(MetricsPlace::Alone { address, path }) => Some(bind_metrics(address, path, &registry).await?),
            Some(MetricsPlace::WithHealth { .. }) | None => None,
        };
        let address = &config.health_address;
        let listener = match Listener::bind(address).await {
            Ok(listener) => listener,
            Err(error) => {
                tracing::error!(
                    %error, address,
                    "Cannot serve /healthz; free the port, or choose another with --http-endpoint"
                );
                return Ok(None);
            }
        };
        tracing::info!(address = %listener.local_address(), "Serving /healthz");
        Ok(Some(Self { config, registry, calls, listener, metrics_server }))
    }

    /// Where `/healthz` is served, with the port it was given for port 0.
    pub fn health_address(&self) -> SocketAddr {
        self.listener.local_address()
    }

    /// Where the metrics are served, if they have an address of their own.
    pub fn metrics_address(&self) -> Option<SocketAddr> {
        self.metrics_server.as_ref().map(Server::local_address)
    }

    /// Serves until `shutdown`. A request under way is cut off then: whoever asks about a pod that ends has no use for the answer.
    ///
    /// # Errors
    /// Code 1 for a driver whose name is empty.
    pub async fn serve(self, shutdown: CancellationToken) -> Result<(), Exit> {
        let Self { config, registry, calls, listener, metrics_server } = self;
        let tasks = Tasks::new();
        let name = Arc::new(DriverName::default());
        let check = Check {
            address: config.csi_address.clone(),
            timeout: config.probe_timeout,
            metrics: calls.clone(),
            name: Arc::clone(&name),
        };
        let (asker, shared_probe) = SharedProbe::new(check);
        let metrics = match config.metrics {
            Some(MetricsPlace::WithHealth { path }) => Some((path, registry)),
            Some(MetricsPlace::Alone { .. }) | None => None,
        };
        let content = Arc::new(Content { asker, metrics });
        if let Some(server) = metrics_server {
            tasks.spawn("metrics", server.run(tasks.token()));
        }
        tasks.spawn("probe", shared_probe.run());
        tasks.spawn(
            "http",
            listener.serve(tasks.token(), move |request| {
                let content = Arc::clone(&content);
                async move { content.answer(request.uri().path()).await }
            }),
        );
        let no_name = async {
            match name.learn(&config.csi_address, &calls).await {
                Ok(()) => std::future::pending().await,
                Err(error) => error,
            }
        };
        let ended = tokio::select! {
            () = shutdown.cancelled() => Ok(()),
            error = no_name => Err(Exit::error(error.to_string())),
            failure = tasks.failed() => Err(Exit::error(failure.to_string())),
        };
        tasks.shutdown().await;
        ended
    }
}

async fn bind_metrics(address: &str, path: &str, registry: &Metrics) -> Result<Server, Exit> {
    let settings = Settings {
        address: address.to_owned(),
        metrics_path: path.to_owned(),
        leader_election_health: false,
        pprof_asked: false,
    };
    http::bind(settings, registry.clone(), Health::new()).await.map_err(|exit| Exit::error(exit.message))
}
