//! The metrics client-go exports for queues and leader election, under the same names, help texts and buckets.
//!
//! Counters and histograms are ordinary Prometheus metrics. What a queue holds at this moment is read from the queue when
//! it is scraped, so nothing ticks in an idle process, and a queue that dies with its leader term leaves no count behind.

mod queue_gauges;

use std::sync::Arc;

use prometheus::{Histogram, HistogramOpts, HistogramVec, IntCounter, IntCounterVec, IntGaugeVec, Opts, Registry};

use self::queue_gauges::{LiveQueues, QueueGauges};
pub(crate) use self::queue_gauges::{QueueReading, QueueState};

/// A metric could not be added to the registry.
#[derive(Debug, thiserror::Error)]
#[error("metric {name} cannot be registered: {source}; each registry takes the queue and election metrics once")]
pub struct RegisterError {
    name: &'static str,
    source: prometheus::Error,
}

fn failed(name: &'static str) -> impl Fn(prometheus::Error) -> RegisterError {
    move |source| RegisterError { name, source }
}

/// Ten buckets from 10 ns to 10 s by powers of ten, as component-base has them. They are multiplied up, not written out,
/// because the rounding shows in the `le` labels.
fn duration_buckets() -> Vec<f64> {
    std::iter::successors(Some(10e-9), |bound| Some(bound * 10.0)).take(10).collect()
}

/// `workqueue_*` for all queues of a process, told apart by the label `name`. Queues of one name share their series.
#[derive(Clone, Debug)]
pub struct WorkQueueMetrics {
    adds: IntCounterVec,
    retries: IntCounterVec,
    queue_duration: HistogramVec,
    work_duration: HistogramVec,
    live: Arc<LiveQueues>,
}

impl WorkQueueMetrics {
    /// Registers the eight families. Fails when `registry` already holds one of them.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        let adds = counter(registry, "workqueue_adds_total", "[BETA] Total number of adds handled by workqueue")?;
        let retries =
            counter(registry, "workqueue_retries_total", "[BETA] Total number of retries handled by workqueue")?;
        let queue_duration = histogram(
            registry,
            "workqueue_queue_duration_seconds",
            "[BETA] How long in seconds an item stays in workqueue before being requested.",
        )?;
        let work_duration = histogram(
            registry,
            "workqueue_work_duration_seconds",
            "[BETA] How long in seconds processing an item from workqueue takes.",
        )?;
        let live = Arc::new(LiveQueues::default());
        let gauges = QueueGauges::new(live.clone()).map_err(failed("workqueue_depth"))?;
        registry.register(Box::new(gauges)).map_err(failed("workqueue_depth"))?;
        Ok(Self { adds, retries, queue_duration, work_duration, live })
    }

    /// The series of one queue. They exist, at zero, from here on.
    pub(crate) fn of_queue(&self, name: &str) -> QueueCounters {
        self.live.remember_name(name);
        QueueCounters {
            adds: self.adds.with_label_values(&[name]),
            retries: self.retries.with_label_values(&[name]),
            queue_duration: self.queue_duration.with_label_values(&[name]),
            work_duration: self.work_duration.with_label_values(&[name]),
        }
    }

    /// Has the gauges of `name` read from `queue` for as long as it lives.
    pub(crate) fn observe(&self, name: &str, queue: std::sync::Weak<dyn QueueState>) {
        self.live.observe(name, queue);
    }
}

/// The counters and histograms of one queue.
#[derive(Debug)]
pub(crate) struct QueueCounters {
    pub(crate) adds: IntCounter,
    pub(crate) retries: IntCounter,
    pub(crate) queue_duration: Histogram,
    pub(crate) work_duration: Histogram,
}

/// `leader_election_*`. The label `name` is empty, as upstream's sidecars leave it, unless a process holds several leases.
#[derive(Clone, Debug)]
pub struct ElectionMetrics {
    master_status: IntGaugeVec,
    slowpath: IntCounterVec,
}

impl ElectionMetrics {
    /// Registers both families. Fails when `registry` already holds one of them.
    pub fn register(registry: &Registry) -> Result<Self, RegisterError> {
        const STATUS: &str = "leader_election_master_status";
        let master_status = IntGaugeVec::new(
            Opts::new(
                STATUS,
                "[ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 \
                 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.",
            ),
            &["name"],
        )
        .map_err(failed(STATUS))?;
        registry.register(Box::new(master_status.clone())).map_err(failed(STATUS))?;
        let slowpath = counter(
            registry,
            "leader_election_slowpath_total",
            "[ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to \
             identify the lease. Please make sure to group by name.",
        )?;
        Ok(Self { master_status, slowpath })
    }

    /// Whether this process holds the lease known as `name`.
    pub fn set_leading(&self, name: &str, leading: bool) {
        self.master_status.with_label_values(&[name]).set(i64::from(leading));
    }

    /// One renewal that had to read the lease before writing it.
    pub fn count_slow_path(&self, name: &str) {
        self.slowpath.with_label_values(&[name]).inc();
    }
}

fn counter(registry: &Registry, name: &'static str, help: &str) -> Result<IntCounterVec, RegisterError> {
    let family = IntCounterVec::new(Opts::new(name, help), &["name"]).map_err(failed(name))?;
    registry.register(Box::new(family.clone())).map_err(failed(name))?;
    Ok(family)
}

fn histogram(registry: &Registry, name: &'static str, help: &str) -> Result<HistogramVec, RegisterError> {
    let options = HistogramOpts::new(name, help).buckets(duration_buckets());
    let family = HistogramVec::new(options, &["name"]).map_err(failed(name))?;
    registry.register(Box::new(family.clone())).map_err(failed(name))?;
    Ok(family)
}

#[cfg(test)]
mod tests;
