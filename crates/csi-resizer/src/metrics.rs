//! Figures that the Go resizer does not have.

use prometheus::{IntGauge, Registry};

/// The metrics of this program's own.
#[derive(Clone)]
pub(crate) struct ResizerMetrics {
    disabled: IntGauge,
    pods_forbidden: IntGauge,
}

impl ResizerMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let disabled = IntGauge::new(
            "csi_resizer_disabled",
            "1 when the driver can neither expand nor modify volumes, so that nothing is done.",
        )?;
        let pods_forbidden = IntGauge::new(
            "csi_resizer_pods_forbidden",
            "1 when pods may not be listed, so that it is not known whether a volume is in use.",
        )?;
        registry.register(Box::new(disabled.clone()))?;
        registry.register(Box::new(pods_forbidden.clone()))?;
        Ok(Self { disabled, pods_forbidden })
    }

    pub(crate) fn disabled(&self) {
        self.disabled.set(1);
    }

    pub(crate) fn pods_forbidden(&self) {
        self.pods_forbidden.set(1);
    }
}
