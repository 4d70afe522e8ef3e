//! The process, from its command line to its exit code: flags → HTTP → driver → registration.

use std::ffi::OsString;
use std::sync::Arc;

use sidecar::http::Listener;
use sidecar::{Exit, Shutdown, logging};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use tracing::info;

use crate::args::{Config, RegistrarArgs};
use crate::driver_watch::DriverWatch;
use crate::error::Error;
use crate::health::Health;
use crate::registrar::Registrar;

/// Runs the program until it is told to end, or cannot go on.
///
/// # Errors
/// What to print and the exit code: 1 for errors, 2 for the command line, 0 for `--help` and `--version`.
pub async fn run(argv: impl IntoIterator<Item = OsString>) -> Result<(), Exit> {
    let args: RegistrarArgs = sidecar::parse_go_flags(argv)?;
    logging::init(&args.logging.config()?)?;
    if args.version {
        return Err(Exit::version(env!("CARGO_PKG_VERSION")));
    }
    let Some(config) = args.config()? else {
        info!("Nothing to look at in this mode any more, ending");
        return Ok(());
    };
    args.log_ignored_flags();
    let shutdown = Shutdown::listen()?;
    Ok(serve(config, shutdown.token()).await?)
}

/// Registers the driver until `shutdown`.
pub(crate) async fn serve(config: Config, shutdown: CancellationToken) -> Result<(), Error> {
    let http = match &config.http_address {
        None => None,
        Some(address) => {
            let refused = |source| Error::Http { address: address.clone(), source };
            let listener = Listener::bind(address).await.map_err(refused)?;
            info!(address = %listener.local_address(), "Serving /healthz");
            Some(listener)
        }
    };
    let (answers, answered) = watch::channel(None);
    let driver = DriverWatch { address: config.csi_address.clone(), timeout: config.timeout, answers };
    let (timeout, pprof_asked) = (config.timeout, config.pprof_asked);
    let (registrar, registered) = Registrar::new(config);
    // A failure of the driver ends the registrar in good order.
    let end = shutdown.child_token();
    let registrar = registrar.run(answered, end.clone());
    let mut registrar = std::pin::pin!(registrar);
    let health = async {
        if let Some(listener) = http {
            let health = Arc::new(Health::new(registered, timeout, pprof_asked));
            listener.serve(end.clone(), move |request| Arc::clone(&health).answer(request)).await;
        }
        std::future::pending().await
    };
    tokio::select! {
        ended = registrar.as_mut() => ended,
        error = driver.run() => {
            end.cancel();
            registrar.await.and(Err(error))
        }
        never = health => never,
    }
}
