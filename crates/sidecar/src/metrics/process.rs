//! The `process_*` metrics, read from `/proc/self` at each scrape.
//!
//! The prometheus crate's own collector counts whole CPU seconds only, which hides a process that uses little.

use std::sync::atomic::{AtomicU64, Ordering};

use prometheus::core::{Collector, Desc};
use prometheus::proto::MetricFamily;
use prometheus::{Counter, Gauge};
use rustix::param::{clock_ticks_per_second, page_size};
use rustix::process::{Resource, getrlimit};

const START_TIME: &str = "process_start_time_seconds";

#[derive(Debug)]
pub(super) struct ProcessMetrics {
    cpu_seconds: Counter,
    /// Ticks already counted in `cpu_seconds`, which can only be increased.
    ticks_counted: AtomicU64,
    start_time: Gauge,
    resident: Gauge,
    virtual_memory: Gauge,
    open_files: Gauge,
    max_files: Gauge,
}

impl ProcessMetrics {
    pub(super) fn new() -> Result<Self, prometheus::Error> {
        Ok(Self {
            cpu_seconds: Counter::new("process_cpu_seconds_total", "Total user and system CPU time spent in seconds.")?,
            ticks_counted: AtomicU64::new(0),
            start_time: Gauge::new(START_TIME, "Start time of the process since unix epoch in seconds.")?,
            resident: Gauge::new("process_resident_memory_bytes", "Resident memory size in bytes.")?,
            virtual_memory: Gauge::new("process_virtual_memory_bytes", "Virtual memory size in bytes.")?,
            open_files: Gauge::new("process_open_fds", "Number of open file descriptors.")?,
            max_files: Gauge::new("process_max_fds", "Maximum number of open file descriptors.")?,
        })
    }

    fn refresh(&self, usage: &Usage) {
        let hz = clock_ticks_per_second();
        let before = self.ticks_counted.swap(usage.cpu_ticks, Ordering::Relaxed);
        self.cpu_seconds.inc_by(ratio(usage.cpu_ticks.saturating_sub(before), hz));
        if let Some(start) = usage.start_time() {
            self.start_time.set(start);
        }
        let page = u64::try_from(page_size()).unwrap_or(0);
        self.resident.set(ratio(usage.resident_pages.saturating_mul(page), 1));
        self.virtual_memory.set(ratio(usage.virtual_bytes, 1));
        if let Ok(files) = std::fs::read_dir("/proc/self/fd") {
            // The listing itself holds one descriptor.
            let open = files.count().saturating_sub(1);
            self.open_files.set(ratio(u64::try_from(open).unwrap_or(0), 1));
        }
        if let Some(limit) = getrlimit(Resource::Nofile).current {
            self.max_files.set(ratio(limit, 1));
        }
    }

    fn all(&self) -> [&dyn Collector; 6] {
        [&self.cpu_seconds, &self.start_time, &self.resident, &self.virtual_memory, &self.open_files, &self.max_files]
    }
}

/// The start time alone, as csi-lib-utils registers it; without /proc nothing.
pub(super) fn start_time() -> Result<Option<Gauge>, prometheus::Error> {
    let help = "[ALPHA] Start time of the process since unix epoch in seconds.";
    let start = read("/proc/self/stat").as_deref().and_then(Usage::parse).and_then(|usage| usage.start_time());
    let gauge = Gauge::new(START_TIME, help)?;
    Ok(start.map(|start| {
        gauge.set(start);
        gauge
    }))
}

impl Collector for ProcessMetrics {
    fn desc(&self) -> Vec<&Desc> {
        self.all().into_iter().flat_map(Collector::desc).collect()
    }

    fn collect(&self) -> Vec<MetricFamily> {
        // Without /proc there is nothing to report; better no series than zeros.
        let Some(usage) = read("/proc/self/stat").as_deref().and_then(Usage::parse) else {
            return Vec::new();
        };
        self.refresh(&usage);
        self.all().into_iter().flat_map(Collector::collect).collect()
    }
}

/// What `/proc/self/stat` says of a process (`proc_pid_stat(5)`).
#[derive(Debug, PartialEq, Eq)]
struct Usage {
    cpu_ticks: u64,
    /// Ticks from boot to the start of the process.
    started_ticks: u64,
    virtual_bytes: u64,
    resident_pages: u64,
}

impl Usage {
    fn parse(stat: &str) -> Option<Self> {
        // The second field is the command in parentheses and may hold any character.
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        // Numbered as in the manual, where the state is field 3.
        let field = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        Some(Self {
            cpu_ticks: field(14)? + field(15)?,
            started_ticks: field(22)?,
            virtual_bytes: field(23)?,
            resident_pages: field(24)?,
        })
    }

    /// Seconds since the epoch.
    fn start_time(&self) -> Option<f64> {
        let boot = read("/proc/stat").as_deref().and_then(boot_seconds)?;
        Some(ratio(boot, 1) + ratio(self.started_ticks, clock_ticks_per_second()))
    }
}

fn boot_seconds(stat: &str) -> Option<u64> {
    stat.lines().find_map(|line| line.strip_prefix("btime "))?.trim().parse().ok()
}

fn read(path: &str) -> Option<String> {
    std::fs::read_to_string(path).ok()
}

#[expect(clippy::cast_precision_loss, reason = "metrics are floats; none of these figures comes near 2^53")]
fn ratio(value: u64, by: u64) -> f64 {
    value as f64 / by.max(1) as f64
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_command_with_spaces_and_parentheses_does_not_shift_the_fields() {
        let stat = "77 (a ) b (c) S 1 77 77 0 -1 4194560 1100 0 0 0 12 30 0 0 20 0 1 0 \
                    5000 9000000 321 18446744073709551615 1 1 0 0";
        assert_eq!(
            Usage::parse(stat),
            Some(Usage { cpu_ticks: 42, started_ticks: 5000, virtual_bytes: 9_000_000, resident_pages: 321 })
        );
        assert_eq!(Usage::parse("77 (x) S 1"), None);
        assert_eq!(Usage::parse(""), None);
    }

    #[test]
    fn boot_time_is_one_line_of_many() {
        assert_eq!(boot_seconds("cpu 1 2\nbtime 1796063379\nintr 0"), Some(1_796_063_379));
        assert_eq!(boot_seconds("cpu 1 2"), None);
    }
}
