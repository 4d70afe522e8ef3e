//! Figures about calls that wait and calls in flight, which the Go attacher does not have.

use std::time::Duration;

use prometheus::{Histogram, HistogramOpts, IntGauge, Registry};

/// The metrics of this program's own.
#[derive(Clone)]
pub(crate) struct AttacherMetrics {
    in_flight: IntGauge,
    waiting: IntGauge,
    waited: Histogram,
}

/// Seconds.
const BUCKETS: &[f64] = &[0.1, 0.5, 1.0, 5.0, 10.0, 30.0, 60.0, 300.0, 1800.0];

impl AttacherMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let in_flight = IntGauge::new(
            "csi_attacher_calls_in_flight",
            "ControllerPublishVolume and ControllerUnpublishVolume calls in flight; at most --worker-threads.",
        )?;
        let waiting = IntGauge::new(
            "csi_attacher_calls_waiting",
            "Calls that are ready to be made and wait for one of the --worker-threads.",
        )?;
        let options = HistogramOpts::new(
            "csi_attacher_call_wait_seconds",
            "Seconds that calls have waited for one of the --worker-threads.",
        );
        let waited = Histogram::with_opts(options.buckets(BUCKETS.to_vec()))?;
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(waiting.clone()))?;
        registry.register(Box::new(waited.clone()))?;
        Ok(Self { in_flight, waiting, waited })
    }

    pub(crate) fn calls_wait(&self, count: usize) {
        self.waiting.set(i64::try_from(count).unwrap_or(i64::MAX));
    }

    pub(crate) fn call_begins(&self, waited: Duration) {
        self.in_flight.inc();
        self.waited.observe(waited.as_secs_f64());
    }

    pub(crate) fn call_ends(&self) {
        self.in_flight.dec();
    }
}
