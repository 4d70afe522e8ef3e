//! Learning the driver's name, which the metrics carry.
//!
//! Asked until the driver tells it; until then the health is told with the reason why it has not.

use std::time::Duration;

use csi_client::{Address, CallMetrics, Error, Session, Waiting, pause_after_dial};
use tokio::time::sleep;
use tokio_util::sync::CancellationToken;

/// How long one `GetPluginInfo` may take. Longer than any health check, so that a slow driver is not asked for ever in vain.
const PATIENCE: Duration = Duration::from_secs(30);

/// Whether the name is known, and if not, why.
#[derive(Debug, Default)]
pub(crate) struct DriverName {
    known: CancellationToken,
    waiting: Waiting,
}

impl DriverName {
    /// Resolves once the driver has told its name.
    pub(crate) async fn known(&self) {
        self.known.cancelled().await;
    }

    /// Why the name is not known; `None` when it is.
    pub(crate) fn missing_because(&self) -> Option<String> {
        if self.known.is_cancelled() { None } else { Some(self.waiting.reason().to_string()) }
    }

    /// Asks until the driver tells its name. Ends with an error only for a driver that has none.
    pub(crate) async fn learn(&self, address: &Address, metrics: &CallMetrics) -> Result<(), Error> {
        let name = tokio::select! {
            biased;
            name = self.ask_until_told(address, metrics) => name,
            never = self.waiting.report(address) => match never {},
        };
        if name.is_empty() {
            return Err(Error::EmptyName { address: address.clone() });
        }
        tracing::info!(%address, driver = name, "The CSI driver has told its name");
        metrics.name_driver(&name.into());
        self.known.cancel();
        Ok(())
    }

    async fn ask_until_told(&self, address: &Address, metrics: &CallMetrics) -> String {
        let mut failures = 0_u32;
        loop {
            match self.ask(address, metrics).await {
                Ok(name) => return name,
                Err(reason) => self.waiting.because(reason),
            }
            sleep(pause_after_dial(failures)).await;
            failures = failures.saturating_add(1);
        }
    }

    async fn ask(&self, address: &Address, metrics: &CallMetrics) -> Result<String, String> {
        let session = Session::open(address, metrics).await.map_err(|error| error.to_string())?;
        self.waiting.because("the driver accepted the connection and has not answered GetPluginInfo yet");
        let answer = session.plugin_info(PATIENCE).await;
        session.close().await;
        match answer {
            Ok(info) => Ok(info.name),
            Err(error) => Err(format!("the driver has not told its name: {error}; look at its log")),
        }
    }
}
