//! The histogram of calls, with the label `migrated` or without it.
//!
//! Which of the two is known when the driver has told its name, and the labels of a histogram cannot change: there are two, and
//! one of them is served.

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Error, HistogramOpts, HistogramVec};

const HELP: &str = "[ALPHA] Container Storage Interface operation duration with gRPC error code status total";
const BUCKETS: [f64; 13] = [0.1, 0.25, 0.5, 1.0, 2.5, 5.0, 10.0, 15.0, 25.0, 50.0, 120.0, 300.0, 600.0];
const LABELS: [&str; 4] = ["driver_name", "method_name", "grpc_status_code", "migrated"];
/// Of a driver that has not told its name yet.
const UNKNOWN: &str = "unknown-driver";

/// Says of a driver's name whether its calls get the label.
type Condition = fn(&str) -> bool;

#[derive(Clone)]
pub(super) struct Operations {
    plain: HistogramVec,
    labelled: HistogramVec,
    replaces_a_plugin: Arc<OnceLock<Condition>>,
    /// Set when the driver has a name, whether it gets the label.
    is_labelled: Arc<OnceLock<bool>>,
}

impl Operations {
    pub(super) fn new(name: &str) -> Result<Self, Error> {
        let histogram = |labels| HistogramVec::new(HistogramOpts::new(name, HELP).buckets(BUCKETS.to_vec()), labels);
        let [driver, method, code, _] = LABELS;
        Ok(Self {
            plain: histogram(&[driver, method, code])?,
            labelled: histogram(&LABELS)?,
            replaces_a_plugin: Arc::default(),
            is_labelled: Arc::default(),
        })
    }

    pub(super) fn label_migrated(&self, replaces_a_plugin: Condition) {
        self.replaces_a_plugin.get_or_init(|| replaces_a_plugin);
    }

    pub(super) fn driver_is(&self, name: &str) {
        self.is_labelled.get_or_init(|| self.replaces_a_plugin.get().is_some_and(|replaces| replaces(name)));
    }

    /// `driver` is `None` until it has told its name: such a call is shown either way.
    pub(super) fn record(&self, driver: Option<&str>, method: &str, code: &str, migrated: bool, took: Duration) {
        let seconds = took.as_secs_f64();
        let labelled = self.is_labelled.get().copied();
        let (driver, flag) = (driver.unwrap_or(UNKNOWN), if migrated { "true" } else { "false" });
        if labelled != Some(true) {
            self.plain.with_label_values(&[driver, method, code]).observe(seconds);
        }
        if labelled.unwrap_or(self.replaces_a_plugin.get().is_some()) {
            self.labelled.with_label_values(&[driver, method, code, flag]).observe(seconds);
        }
    }
}

impl Collector for Operations {
    fn desc(&self) -> Vec<&Desc> {
        self.plain.desc()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        if self.is_labelled.get() == Some(&true) { self.labelled.collect() } else { self.plain.collect() }
    }
}
