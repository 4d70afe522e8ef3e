//! Gauges that are read from the queues at scrape time.

use std::collections::BTreeMap;
use std::collections::HashMap;
use std::fmt;
use std::sync::{Arc, Weak};
use std::time::Duration;

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, LabelPair, Metric, MetricFamily, MetricType};

/// What a queue can say about itself.
pub(crate) trait QueueState: Send + Sync {
    fn read(&self) -> QueueReading;
}

/// One queue at one moment.
#[derive(Clone, Copy, Debug, Default, PartialEq)]
pub(crate) struct QueueReading {
    /// Keys to be processed, those included that are to run again after the run they are in.
    pub(crate) depth: usize,
    /// Ages of all running keys, summed.
    pub(crate) unfinished: Duration,
    /// Age of the oldest running key.
    pub(crate) longest_running: Duration,
    /// How long the oldest key has been ready without a worker. Keys waiting out a delay do not count.
    pub(crate) oldest_waiting: Duration,
}

impl QueueReading {
    fn combined(self, other: Self) -> Self {
        Self {
            depth: self.depth + other.depth,
            unfinished: self.unfinished + other.unfinished,
            longest_running: self.longest_running.max(other.longest_running),
            oldest_waiting: self.oldest_waiting.max(other.oldest_waiting),
        }
    }
}

/// The queues alive, by name. A name stays when its queues are gone: its series then read zero.
#[derive(Default)]
pub(super) struct LiveQueues {
    queues: Mutex<BTreeMap<String, Vec<Weak<dyn QueueState>>>>,
}

impl LiveQueues {
    pub(super) fn remember_name(&self, name: &str) {
        let mut queues = self.queues.lock();
        if !queues.contains_key(name) {
            queues.insert(name.to_owned(), Vec::new());
        }
    }

    pub(super) fn observe(&self, name: &str, queue: Weak<dyn QueueState>) {
        let mut queues = self.queues.lock();
        let same_name = queues.entry(name.to_owned()).or_default();
        same_name.retain(|queue| queue.strong_count() > 0);
        same_name.push(queue);
    }

    fn read(&self) -> Vec<(String, QueueReading)> {
        let queues = self.queues.lock();
        queues
            .iter()
            .map(|(name, same_name)| {
                let reading = same_name
                    .iter()
                    .filter_map(Weak::upgrade)
                    .map(|queue| queue.read())
                    .fold(QueueReading::default(), QueueReading::combined);
                (name.clone(), reading)
            })
            .collect()
    }
}

impl fmt::Debug for LiveQueues {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_set().entries(self.queues.lock().keys()).finish()
    }
}

/// One gauge family: its name, its help text, and what it takes from a reading.
struct Family {
    desc: Desc,
    value: fn(&QueueReading) -> f64,
}

/// The collector of all gauge families.
pub(super) struct QueueGauges {
    families: Vec<Family>,
    live: Arc<LiveQueues>,
}

impl QueueGauges {
    pub(super) fn new(live: Arc<LiveQueues>) -> Result<Self, prometheus::Error> {
        let family = |name: &str, help: &str, value| {
            Desc::new(name.to_owned(), help.to_owned(), vec!["name".to_owned()], HashMap::new())
                .map(|desc| Family { desc, value })
        };
        let families = vec![
            family("workqueue_depth", "[BETA] Current depth of workqueue", |reading| count(reading.depth))?,
            family(
                "workqueue_unfinished_work_seconds",
                "[BETA] How many seconds of work has done that is in progress and hasn't been observed by \
                 work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by \
                 observing the rate at which this increases.",
                |reading| reading.unfinished.as_secs_f64(),
            )?,
            family(
                "workqueue_longest_running_processor_seconds",
                "[BETA] How many seconds has the longest running processor for workqueue been running.",
                |reading| reading.longest_running.as_secs_f64(),
            )?,
            family(
                "workqueue_oldest_waiting_seconds",
                "[ALPHA] How many seconds the oldest item of workqueue has been waiting for a worker. Items waiting \
                 for their retry are not counted.",
                |reading| reading.oldest_waiting.as_secs_f64(),
            )?,
        ];
        Ok(Self { families, live })
    }
}

#[expect(clippy::cast_precision_loss, reason = "a queue of 2^53 keys does not fit into memory")]
fn count(depth: usize) -> f64 {
    depth as f64
}

impl Collector for QueueGauges {
    fn desc(&self) -> Vec<&Desc> {
        self.families.iter().map(|family| &family.desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let readings = self.live.read();
        self.families
            .iter()
            .map(|family| {
                let mut out = MetricFamily::default();
                out.set_name(family.desc.fq_name.clone());
                out.set_help(family.desc.help.clone());
                out.set_field_type(MetricType::GAUGE);
                out.set_metric(readings.iter().map(|(name, reading)| sample(name, (family.value)(reading))).collect());
                out
            })
            .collect()
    }
}

fn sample(queue: &str, value: f64) -> Metric {
    let mut label = LabelPair::default();
    label.set_name("name".to_owned());
    label.set_value(queue.to_owned());
    let mut gauge = Gauge::default();
    gauge.set_value(value);
    let mut metric = Metric::default();
    metric.set_label(vec![label]);
    metric.set_gauge(gauge);
    metric
}
