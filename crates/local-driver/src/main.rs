//! The `local-driver` process: flags, log, signals, exit code.

use std::process::ExitCode;

use clap::Parser;
use local_driver::{Args, Config, Error, run};
use tokio::signal::unix::{SignalKind, signal};
use tokio_util::sync::CancellationToken;

/// File system work runs on these; more would only wait for the same disk.
const BLOCKING_THREADS: usize = 4;

fn main() -> ExitCode {
    let args = Args::parse();
    tracing_subscriber::fmt().with_writer(std::io::stderr).with_max_level(args.log_level).init();
    match start(&args) {
        Ok(()) => ExitCode::SUCCESS,
        Err(error) => {
            tracing::error!("{error}");
            ExitCode::FAILURE
        }
    }
}

fn start(args: &Args) -> Result<(), Error> {
    let config = Config::try_from(args)?;
    let runtime = tokio::runtime::Builder::new_current_thread()
        .enable_all()
        .max_blocking_threads(BLOCKING_THREADS)
        .build()
        .map_err(Error::Runtime)?;
    let result = runtime.block_on(async {
        let mut terminate = signal(SignalKind::terminate()).map_err(Error::Runtime)?;
        let mut interrupt = signal(SignalKind::interrupt()).map_err(Error::Runtime)?;
        let shutdown = CancellationToken::new();
        let driver = run(config, shutdown.clone());
        tokio::pin!(driver);
        tokio::select! {
            result = &mut driver => return result,
            _ = terminate.recv() => {}
            _ = interrupt.recv() => {}
        }
        tracing::info!("told to stop");
        shutdown.cancel();
        driver.await
    });
    // A call past the drain time is not waited for: each step it takes on disk may be the last.
    runtime.shutdown_background();
    result
}
