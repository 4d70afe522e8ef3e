//! The HTTP answers.

use http::StatusCode;
use sidecar::Metrics;
use sidecar::http::{Answer, covers, not_found, plain, scrape};

use crate::args::HEALTHZ;
use crate::shared_probe::{Asker, Outcome};

/// What is served on the main address.
pub(crate) struct Content {
    pub(crate) asker: Asker,
    /// The metrics and their path, where they are served beside the health.
    pub(crate) metrics: Option<(String, Metrics)>,
}

impl Content {
    /// Decides by path alone: any method will do, as in Go.
    pub(crate) async fn answer(&self, path: &str) -> Answer {
        if path == HEALTHZ {
            return health(self.asker.ask().await);
        }
        match &self.metrics {
            Some((registered, metrics)) if covers(registered, path) => scrape(metrics),
            _ => not_found(),
        }
    }
}

fn health(outcome: Option<Outcome>) -> Answer {
    let unhealthy = |text: String| plain(StatusCode::INTERNAL_SERVER_ERROR, text);
    match outcome {
        Some(Ok(())) => plain(StatusCode::OK, "ok"),
        Some(Err(error)) => unhealthy(error.to_string()),
        None => unhealthy("this livenessprobe is shutting down".to_owned()),
    }
}
