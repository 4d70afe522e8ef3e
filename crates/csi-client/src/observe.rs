//! What operators see of each call: a metric and, at the highest verbosity, two log lines.
//!
//! Only calls that were sent are counted.

mod operations;

use std::sync::{Arc, OnceLock};
use std::time::Duration;

use csi_proto::Sanitize;
use prometheus::Registry;
use tonic::Code;

use operations::Operations;

use crate::status_text::code_name;
use crate::{CallError, DriverName, Error};

const NAME: &str = "csi_sidecar_operations_seconds";

/// The histogram `csi_sidecar_operations_seconds`, with name, labels, buckets and help of csi-lib-utils. Clones share it.
#[derive(Clone)]
pub struct CallMetrics {
    /// `None` where nobody reads the figures.
    operations: Option<Operations>,
    driver: Arc<OnceLock<DriverName>>,
    /// Characters.
    longest_logged: Arc<OnceLock<usize>>,
}

impl CallMetrics {
    /// Registers the histogram. One per registry and driver; [`Error::Metrics`] otherwise.
    pub fn register(registry: &Registry) -> Result<Self, Error> {
        let failed = |source| Error::Metrics { name: NAME, source };
        let operations = Operations::new(NAME).map_err(failed)?;
        registry.register(Box::new(operations.clone())).map_err(failed)?;
        Ok(Self { operations: Some(operations), driver: Arc::default(), longest_logged: Arc::default() })
    }

    /// Counts nothing: for programs that serve no metrics.
    pub fn none() -> Self {
        Self { operations: None, driver: Arc::default(), longest_logged: Arc::default() }
    }

    /// From here on the logs show no more than this many characters of a response.
    pub fn limit_logged_responses(&self, characters: usize) {
        self.longest_logged.get_or_init(|| characters);
    }

    fn shown(&self, text: String) -> String {
        match self.longest_logged.get().and_then(|limit| text.char_indices().nth(*limit)) {
            Some((at, _)) => format!("{} [cut, the whole response has {} bytes]", &text[..at], text.len()),
            None => text,
        }
    }

    /// Calls to a driver with a name of which this is true get the label `migrated`: whether they were for an object that
    /// the driver takes over from a plugin built into Kubernetes. The first function stays.
    pub fn label_migrated(&self, replaces_a_plugin: fn(&str) -> bool) {
        if let Some(operations) = &self.operations {
            operations.label_migrated(replaces_a_plugin);
        }
    }

    /// From here on calls are counted under this name. The first name stays.
    pub fn name_driver(&self, name: &DriverName) {
        let name = self.driver.get_or_init(|| name.clone());
        if let Some(operations) = &self.operations {
            operations.driver_is(name.as_ref());
        }
    }

    fn record(&self, method: &str, code: Code, migrated: bool, took: Duration) {
        let Some(operations) = &self.operations else { return };
        operations.record(self.driver.get().map(AsRef::as_ref), method, code_name(code), migrated, took);
    }
}

pub(crate) fn request<T: Sanitize>(method: &'static str, request: &T) {
    tracing::trace!(method, request = %request.sanitized(), "GRPC call");
}

pub(crate) fn response<T: Sanitize>(
    metrics: &CallMetrics,
    method: &'static str,
    migrated: bool,
    outcome: &Result<T, CallError>,
    took: Duration,
) {
    match outcome {
        Ok(response) => {
            tracing::trace!(method, response = metrics.shown(response.sanitized()), "GRPC response");
            metrics.record(method, Code::Ok, migrated, took);
        }
        Err(error) => {
            tracing::trace!(method, err = %error, "GRPC response");
            if error.was_sent() {
                metrics.record(method, error.code(), migrated, took);
            }
        }
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use prometheus::TextEncoder;

    use super::*;

    fn text(registry: &Registry) -> String {
        TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
    }

    #[test]
    fn the_histogram_looks_as_in_the_go_sidecars() {
        let registry = Registry::new();
        let metrics = CallMetrics::register(&registry).unwrap();
        metrics.record("/csi.v1.Identity/Probe", Code::Ok, false, Duration::from_millis(200));
        metrics.name_driver(&DriverName::from("a.example.com".to_owned()));
        metrics.name_driver(&DriverName::from("b.example.com".to_owned()));
        metrics.record("/csi.v1.Controller/CreateVolume", Code::DeadlineExceeded, true, Duration::from_secs(20));
        let text = text(&registry);
        let lines = [
            "# HELP csi_sidecar_operations_seconds [ALPHA] Container Storage Interface operation duration with gRPC error code status total",
            "# TYPE csi_sidecar_operations_seconds histogram",
            "csi_sidecar_operations_seconds_bucket{driver_name=\"unknown-driver\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/Probe\",le=\"0.1\"} 0",
            "csi_sidecar_operations_seconds_bucket{driver_name=\"unknown-driver\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/Probe\",le=\"0.25\"} 1",
            "csi_sidecar_operations_seconds_bucket{driver_name=\"a.example.com\",grpc_status_code=\"DeadlineExceeded\",method_name=\"/csi.v1.Controller/CreateVolume\",le=\"15\"} 0",
            "csi_sidecar_operations_seconds_bucket{driver_name=\"a.example.com\",grpc_status_code=\"DeadlineExceeded\",method_name=\"/csi.v1.Controller/CreateVolume\",le=\"25\"} 1",
            "csi_sidecar_operations_seconds_sum{driver_name=\"a.example.com\",grpc_status_code=\"DeadlineExceeded\",method_name=\"/csi.v1.Controller/CreateVolume\"} 20",
        ];
        for line in lines {
            assert!(text.lines().any(|found| found == line), "{line}\nnot in\n{text}");
        }
        let bounds = text.lines().filter(|line| line.contains("unknown-driver") && line.contains("_bucket")).count();
        assert_eq!(bounds, 14, "thirteen buckets of the Go sidecars and +Inf");
    }

    #[test]
    fn only_a_driver_that_replaces_a_plugin_has_the_label_migrated() {
        let registry = Registry::new();
        let metrics = CallMetrics::register(&registry).unwrap();
        metrics.label_migrated(|driver| driver == "a.example.com");
        metrics.record("/csi.v1.Identity/Probe", Code::Ok, false, Duration::ZERO);
        let count = |labels: &str| format!("csi_sidecar_operations_seconds_count{{{labels}}} 1");
        let probe = "driver_name=\"unknown-driver\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Identity/Probe\"";
        let shows = |line: &str| text(&registry).lines().any(|found| found == line);
        assert!(shows(&count(probe)));
        metrics.name_driver(&DriverName::from("a.example.com".to_owned()));
        metrics.record("/csi.v1.Controller/DeleteVolume", Code::Ok, true, Duration::ZERO);
        let delete =
            "driver_name=\"a.example.com\",grpc_status_code=\"OK\",method_name=\"/csi.v1.Controller/DeleteVolume\"";
        assert!(shows(&count(&format!("{probe},migrated=\"false\""))), "{}", text(&registry));
        assert!(shows(&count(&format!("{delete},migrated=\"true\""))), "{}", text(&registry));
        let unlabelled =
            text(&registry).lines().filter(|line| line.contains('{') && !line.contains("migrated=")).count();
        assert_eq!(unlabelled, 0);
    }

    #[test]
    fn a_logged_response_is_cut_between_characters() {
        let metrics = CallMetrics::register(&Registry::new()).unwrap();
        assert_eq!(metrics.shown("äöü".to_owned()), "äöü");
        metrics.limit_logged_responses(2);
        assert_eq!(metrics.shown("äö".to_owned()), "äö");
        assert_eq!(metrics.shown("äöü".to_owned()), "äö [cut, the whole response has 6 bytes]");
    }

    #[test]
    fn a_second_registration_is_an_error_with_the_name_of_the_metric() {
        let registry = Registry::new();
        let _first = CallMetrics::register(&registry).unwrap();
        let error = CallMetrics::register(&registry).err().unwrap();
        assert!(error.to_string().contains(NAME), "{error}");
    }
}
