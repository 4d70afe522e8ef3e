//! `controller_persistentvolume*` metrics, names and labels of the provisioning library that the Go provisioner uses.

use std::time::Duration;

use prometheus::{HistogramOpts, HistogramVec, IntCounterVec, Opts, Registry};

use crate::records::{ClaimRecord, VolumeRecord};

/// Counters and durations of provisioning and reclaim.
#[derive(Clone)]
pub(crate) struct ProvisionerMetrics {
    provision_total: IntCounterVec,
    provision_failed_total: IntCounterVec,
    provision_seconds: HistogramVec,
    delete_total: IntCounterVec,
    delete_failed_total: IntCounterVec,
    delete_seconds: HistogramVec,
}

const CLAIM_LABELS: &[&str] = &["class", "source"];
const VOLUME_LABELS: &[&str] = &["class"];

impl ProvisionerMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let counter = |name: &str, help: &str, labels: &[&str]| {
            let counter = IntCounterVec::new(Opts::new(name, help), labels)?;
            registry.register(Box::new(counter.clone()))?;
            Ok::<_, prometheus::Error>(counter)
        };
        let histogram = |name: &str, help: &str, labels: &[&str]| {
            let histogram = HistogramVec::new(HistogramOpts::new(name, help), labels)?;
            registry.register(Box::new(histogram.clone()))?;
            Ok::<_, prometheus::Error>(histogram)
        };
        Ok(Self {
            provision_total: counter(
                "controller_persistentvolumeclaim_provision_total",
                "Claims provisioned, by class and kind of data source.",
                CLAIM_LABELS,
            )?,
            provision_failed_total: counter(
                "controller_persistentvolumeclaim_provision_failed_total",
                "Failed tries to provision a claim, by class and kind of data source.",
                CLAIM_LABELS,
            )?,
            provision_seconds: histogram(
                "controller_persistentvolumeclaim_provision_duration_seconds",
                "Seconds taken by the try that provisioned a claim, by class and kind of data source.",
                CLAIM_LABELS,
            )?,
            delete_total: counter(
                "controller_persistentvolume_delete_total",
                "Volumes deleted, by class.",
                VOLUME_LABELS,
            )?,
            delete_failed_total: counter(
                "controller_persistentvolume_delete_failed_total",
                "Failed tries to delete a volume, by class.",
                VOLUME_LABELS,
            )?,
            delete_seconds: histogram(
                "controller_persistentvolume_delete_duration_seconds",
                "Seconds taken by the try that deleted a volume, by class.",
                VOLUME_LABELS,
            )?,
        })
    }

    pub(crate) fn provisioned(&self, claim: &ClaimRecord, took: Duration) {
        let labels = claim_labels(claim);
        self.provision_total.with_label_values(&labels).inc();
        self.provision_seconds.with_label_values(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn provision_failed(&self, claim: &ClaimRecord) {
        self.provision_failed_total.with_label_values(&claim_labels(claim)).inc();
    }

    pub(crate) fn deleted(&self, volume: &VolumeRecord, took: Duration) {
        let labels = [volume.class.label()];
        self.delete_total.with_label_values(&labels).inc();
        self.delete_seconds.with_label_values(&labels).observe(took.as_secs_f64());
    }

    pub(crate) fn delete_failed(&self, volume: &VolumeRecord) {
        self.delete_failed_total.with_label_values(&[volume.class.label()]).inc();
    }
}

/// The field of the claim, not the beta annotation, and `dataSource` alone.
fn claim_labels(claim: &ClaimRecord) -> [&str; 2] {
    [&claim.class_label, claim.data_source.as_ref().map_or("", |source| &source.kind)]
}
