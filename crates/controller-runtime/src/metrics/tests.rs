#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

use std::time::Duration;

use prometheus::TextEncoder;

use super::*;
use crate::rate_limiter::Backoff;
use crate::work_queue::WorkQueue;

const SECOND: Duration = Duration::from_secs(1);
const BACKOFF: Backoff = Backoff { base: SECOND, max: Duration::from_mins(5) };

fn text(registry: &Registry) -> String {
    TextEncoder::new().encode_to_string(&registry.gather()).unwrap()
}

fn value(registry: &Registry, series: &str) -> f64 {
    let text = text(registry);
    let line = text
        .lines()
        .find_map(|line| line.strip_prefix(series)?.strip_prefix(' '))
        .unwrap_or_else(|| panic!("no {series} in\n{text}"));
    line.parse().unwrap()
}

#[test]
fn names_help_texts_and_types_are_upstreams() {
    let registry = Registry::new();
    let queues = WorkQueueMetrics::register(&registry).unwrap();
    let elections = ElectionMetrics::register(&registry).unwrap();
    let _queue: WorkQueue<u8> = WorkQueue::new("claims", BACKOFF, &queues);
    elections.set_leading("", true);
    elections.count_slow_path("");
    let text = text(&registry);
    let headers: Vec<&str> = text.lines().filter(|line| line.starts_with('#')).collect();
    assert_eq!(
        headers.join("\n"),
        "\
# HELP leader_election_master_status [ALPHA] Gauge of if the reporting system is master of the relevant lease, 0 indicates backup, 1 indicates master. 'name' is the string used to identify the lease. Please make sure to group by name.
# TYPE leader_election_master_status gauge
# HELP leader_election_slowpath_total [ALPHA] Total number of slow path exercised in renewing leader leases. 'name' is the string used to identify the lease. Please make sure to group by name.
# TYPE leader_election_slowpath_total counter
# HELP workqueue_adds_total [BETA] Total number of adds handled by workqueue
# TYPE workqueue_adds_total counter
# HELP workqueue_depth [BETA] Current depth of workqueue
# TYPE workqueue_depth gauge
# HELP workqueue_longest_running_processor_seconds [BETA] How many seconds has the longest running processor for workqueue been running.
# TYPE workqueue_longest_running_processor_seconds gauge
# HELP workqueue_oldest_waiting_seconds [ALPHA] How many seconds the oldest item of workqueue has been waiting for a worker. Items waiting for their retry are not counted.
# TYPE workqueue_oldest_waiting_seconds gauge
# HELP workqueue_queue_duration_seconds [BETA] How long in seconds an item stays in workqueue before being requested.
# TYPE workqueue_queue_duration_seconds histogram
# HELP workqueue_retries_total [BETA] Total number of retries handled by workqueue
# TYPE workqueue_retries_total counter
# HELP workqueue_unfinished_work_seconds [BETA] How many seconds of work has done that is in progress and hasn't been observed by work_duration. Large values indicate stuck threads. One can deduce the number of stuck threads by observing the rate at which this increases.
# TYPE workqueue_unfinished_work_seconds gauge
# HELP workqueue_work_duration_seconds [BETA] How long in seconds processing an item from workqueue takes.
# TYPE workqueue_work_duration_seconds histogram"
    );
    for line in [
        "leader_election_master_status{name=\"\"} 1",
        "leader_election_slowpath_total{name=\"\"} 1",
        "workqueue_adds_total{name=\"claims\"} 0",
        "workqueue_depth{name=\"claims\"} 0",
        "workqueue_longest_running_processor_seconds{name=\"claims\"} 0",
        "workqueue_oldest_waiting_seconds{name=\"claims\"} 0",
        "workqueue_queue_duration_seconds_count{name=\"claims\"} 0",
        "workqueue_retries_total{name=\"claims\"} 0",
        "workqueue_unfinished_work_seconds{name=\"claims\"} 0",
        "workqueue_work_duration_seconds_count{name=\"claims\"} 0",
    ] {
        assert!(text.lines().any(|found| found == line), "no {line} in\n{text}");
    }
}

#[test]
fn the_duration_buckets_are_upstreams_to_the_last_bit() {
    // What Go prints for ten buckets from 10e-9 by 10, rounding included.
    let expected = [1e-8, 1e-7, 1e-6, 9.999_999_999_999_999e-6, 9.999_999_999_999_999e-5, 0.001, 0.01, 0.1, 1.0, 10.0];
    let bits = |buckets: &[f64]| buckets.iter().map(|bound| bound.to_bits()).collect::<Vec<_>>();
    assert_eq!(bits(&duration_buckets()), bits(&expected), "{:?}", duration_buckets());
}

#[tokio::test(start_paused = true)]
async fn the_series_follow_a_key_through_its_queue() {
    let registry = Registry::new();
    let metrics = WorkQueueMetrics::register(&registry).unwrap();
    let queue = WorkQueue::new("claims", BACKOFF, &metrics);
    let read = |family: &str| value(&registry, &format!("{family}{{name=\"claims\"}}"));
    let close = |family: &str, expected: f64| {
        let found = read(family);
        assert!((found - expected).abs() < 1e-6, "{family}: {found}, expected {expected}");
    };

    queue.add("a");
    queue.add("a");
    queue.add("b");
    tokio::time::advance(3 * SECOND).await;
    close("workqueue_adds_total", 2.0);
    close("workqueue_depth", 2.0);
    close("workqueue_oldest_waiting_seconds", 3.0);

    queue.get().await;
    queue.get().await;
    close("workqueue_queue_duration_seconds_sum", 6.0);
    tokio::time::advance(5 * SECOND).await;
    queue.done(&"b");
    close("workqueue_work_duration_seconds_sum", 5.0);
    queue.add("a");
    tokio::time::advance(2 * SECOND).await;
    close("workqueue_depth", 1.0);
    close("workqueue_oldest_waiting_seconds", 2.0);
    close("workqueue_unfinished_work_seconds", 7.0);
    close("workqueue_longest_running_processor_seconds", 7.0);

    queue.done(&"a");
    assert_eq!(queue.get().await, "a");
    queue.add_rate_limited("a");
    queue.done(&"a");
    close("workqueue_retries_total", 1.0);
    close("workqueue_depth", 0.0);
    close("workqueue_oldest_waiting_seconds", 0.0);
    tokio::time::advance(4 * SECOND).await;
    close("workqueue_depth", 1.0);
    close("workqueue_oldest_waiting_seconds", 3.0);
    close("workqueue_unfinished_work_seconds", 0.0);
}

#[tokio::test(start_paused = true)]
async fn a_queue_that_is_gone_counts_as_empty() {
    let registry = Registry::new();
    let metrics = WorkQueueMetrics::register(&registry).unwrap();
    let depth = || value(&registry, "workqueue_depth{name=\"claims\"}");
    let first = WorkQueue::new("claims", BACKOFF, &metrics);
    let second = WorkQueue::new("claims", BACKOFF, &metrics);
    first.add(1);
    second.add(1);
    assert!((depth() - 2.0).abs() < f64::EPSILON);
    drop(first);
    assert!((depth() - 1.0).abs() < f64::EPSILON);
    drop(second);
    assert!(depth().abs() < f64::EPSILON);
}

#[test]
fn a_registry_takes_the_metrics_once() {
    let registry = Registry::new();
    WorkQueueMetrics::register(&registry).unwrap();
    let error = WorkQueueMetrics::register(&registry).unwrap_err();
    assert!(error.to_string().starts_with("metric workqueue_adds_total cannot be registered"), "{error}");
}
