//! Figures that the Go resizer does not have.

use prometheus::{IntGauge, Registry};

/// The metrics of this program's own.
#[derive(Clone)]
pub(crate) struct ResizerMetrics {
    disabled: IntGauge,
}

impl ResizerMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let disabled = IntGauge::new(
            "csi_resizer_disabled",
            "1 when the driver can neither expand nor modify volumes, so that nothing is done.",
        )?;
        registry.register(Box::new(disabled.clone()))?;
        Ok(Self { disabled })
    }

    pub(crate) fn disabled(&self) {
        self.disabled.set(1);
    }
}
