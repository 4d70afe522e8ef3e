//! `csistoragecapacities_*`: how many objects there are and should be, counted when it is asked for.

use std::fmt;
use std::sync::{Arc, Weak};

use parking_lot::Mutex;
use prometheus::core::{Collector, Desc};
use prometheus::proto::{Gauge, Metric, MetricFamily, MetricType};
use prometheus::{Opts, Registry};

use super::Capacity;

/// Counts of one moment.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(crate) struct Counts {
    /// Objects that there should be.
    pub(crate) goal: usize,
    /// How many of them there are.
    pub(crate) current: usize,
    /// Objects beyond them.
    pub(crate) obsolete: usize,
}

/// Counts the objects of the term that is at work; zero in between.
#[derive(Clone)]
pub(crate) struct CapacityMetrics {
    descriptions: Arc<[Desc]>,
    at_work: Arc<Mutex<Weak<Capacity>>>,
}

const GAUGES: [(&str, &str); 3] = [
    ("csistoragecapacities_desired_goal", "[ALPHA] CSIStorageCapacity objects that should be there."),
    ("csistoragecapacities_desired_current", "[ALPHA] CSIStorageCapacity objects that should be there and are."),
    ("csistoragecapacities_obsolete", "[ALPHA] CSIStorageCapacity objects that are there and are to be deleted."),
];

impl CapacityMetrics {
    /// Creates the metrics and registers them.
    pub(crate) fn register(registry: &Registry) -> Result<Self, prometheus::Error> {
        let descriptions: Result<Vec<_>, _> = GAUGES
            .iter()
            .map(|(name, help)| Opts::new(*name, *help))
            .map(|opts| prometheus::core::Describer::describe(&opts))
            .collect();
        let metrics = Self { descriptions: descriptions?.into(), at_work: Arc::default() };
        registry.register(Box::new(metrics.clone()))?;
        Ok(metrics)
    }

    /// From here on this term's objects are counted.
    pub(crate) fn follow(&self, capacity: &Arc<Capacity>) {
        *self.at_work.lock() = Arc::downgrade(capacity);
    }
}

#[cfg(test)]
impl CapacityMetrics {
    pub(crate) fn at_work(&self) -> Option<Arc<Capacity>> {
        self.at_work.lock().upgrade()
    }
}

impl Collector for CapacityMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.descriptions.iter().collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        let at_work = self.at_work.lock().upgrade();
        let Counts { goal, current, obsolete } = at_work.map(|capacity| capacity.counts()).unwrap_or_default();
        let values = [goal, current, obsolete];
        GAUGES.iter().zip(values).map(|((name, help), value)| family(name, help, value)).collect()
    }
}

fn family(name: &str, help: &str, value: usize) -> MetricFamily {
    let mut gauge = Gauge::default();
    gauge.set_value(f64::from(u32::try_from(value).unwrap_or(u32::MAX)));
    let mut metric = Metric::default();
    metric.set_gauge(gauge);
    let mut family = MetricFamily::default();
    family.set_name(name.to_owned());
    family.set_help(help.to_owned());
    family.set_field_type(MetricType::GAUGE);
    family.set_metric(vec![metric]);
    family
}

impl fmt::Debug for CapacityMetrics {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("CapacityMetrics").finish_non_exhaustive()
    }
}
