//! The metrics of one process: a registry, what every process reports, and the text scrapers read.

use prometheus::{IntCounter, IntCounterVec, IntGauge, Opts, Registry};

use crate::exit::Exit;

mod process;
mod text_format;

/// The content type of [`Metrics::render`].
pub const CONTENT_TYPE: &str = "text/plain; version=0.0.4; charset=utf-8; escaping=underscores";

/// The registry all parts of the process register with, and the figures about serving it. Clones share both.
#[derive(Debug, Clone)]
pub struct Metrics {
    registry: Registry,
    served: IntCounter,
    in_flight: IntGauge,
}

impl Metrics {
    /// A registry that holds the `process_*` and `promhttp_metric_handler_*` metrics.
    pub fn new() -> Result<Self, Exit> {
        Self::build().map_err(|error| Exit::fatal(format!("cannot set up metrics: {error}")))
    }

    /// A registry that holds `process_start_time_seconds` and nothing else of the process: what the Go programs serve that have
    /// no Kubernetes client.
    pub fn start_time_only() -> Result<Self, Exit> {
        Self::build_start_time_only().map_err(|error| Exit::fatal(format!("cannot set up metrics: {error}")))
    }

    fn build_start_time_only() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        if let Some(gauge) = process::start_time()? {
            registry.register(Box::new(gauge))?;
        }
        let unseen = Opts::new("promhttp_metric_handler_requests", "Not registered.");
        Ok(Self { registry, served: IntCounter::with_opts(unseen.clone())?, in_flight: IntGauge::with_opts(unseen)? })
    }

    fn build() -> Result<Self, prometheus::Error> {
        let registry = Registry::new();
        let requests = IntCounterVec::new(
            Opts::new("promhttp_metric_handler_requests_total", "Total number of scrapes by HTTP status code."),
            &["code"],
        )?;
        let in_flight =
            IntGauge::new("promhttp_metric_handler_requests_in_flight", "Current number of scrapes being served.")?;
        // Go's handler shows these from the start, so that a rate over them has a first point.
        let served = requests.with_label_values(&["200"]);
        requests.with_label_values(&["500"]);
        requests.with_label_values(&["503"]);
        registry.register(Box::new(requests))?;
        registry.register(Box::new(in_flight.clone()))?;
        registry.register(Box::new(process::ProcessMetrics::new()?))?;
        Ok(Self { registry, served, in_flight })
    }

    /// Where collectors are registered.
    pub fn registry(&self) -> &Registry {
        &self.registry
    }

    /// All metrics in the Prometheus text format, for one scrape.
    pub fn render(&self) -> String {
        self.in_flight.inc();
        let text = text_format::encode(&self.registry.gather());
        self.served.inc();
        self.in_flight.dec();
        text
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    fn value(text: &str, series: &str) -> f64 {
        text.lines()
            .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
            .unwrap_or_else(|| panic!("{series} in\n{text}"))
            .parse()
            .unwrap()
    }

    #[test]
    fn a_program_without_kubernetes_client_reports_when_it_started_and_nothing_else() {
        let metrics = Metrics::start_time_only().unwrap();
        metrics.render();
        let text = metrics.render();
        let lines: Vec<_> = text.lines().collect();
        assert_eq!(
            lines[..2],
            [
                "# HELP process_start_time_seconds [ALPHA] Start time of the process since unix epoch in seconds.",
                "# TYPE process_start_time_seconds gauge",
            ]
        );
        assert!(value(&text, "process_start_time_seconds") > 1e9);
        assert_eq!(lines.len(), 3, "{text}");
    }

    #[test]
    fn a_process_reports_itself_and_its_scrapes() {
        let metrics = Metrics::new().unwrap();
        let first = metrics.render();
        for name in [
            "process_cpu_seconds_total",
            "process_start_time_seconds",
            "process_resident_memory_bytes",
            "process_virtual_memory_bytes",
            "process_open_fds",
            "process_max_fds",
        ] {
            value(&first, name);
        }
        let total = |code: &str| format!("promhttp_metric_handler_requests_total{{code=\"{code}\"}}");
        assert!(value(&first, &total("200")).abs() < 0.5);
        let second = metrics.render();
        assert!((value(&second, &total("200")) - 1.0).abs() < 0.5);
        assert!(value(&second, &total("503")).abs() < 0.5);
        let in_flight = "promhttp_metric_handler_requests_in_flight";
        assert!((value(&second, in_flight) - 1.0).abs() < 0.5);
    }
}
