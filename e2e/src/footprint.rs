//! What a process takes of memory and CPU, as the kernel counts it.

use std::{fs, time::Duration};

use anyhow::{Context as _, Result};
use rustix::param::clock_ticks_per_second;

/// Memory and CPU of one process at one moment.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Footprint {
    /// Bytes in memory, those of files shared with other processes included.
    pub resident: u64,
    /// Bytes of them that no file stands behind: heap, stacks, relocated data.
    pub anonymous: u64,
    /// The most bytes that have been in memory since the start.
    pub peak: u64,
    /// Threads.
    pub threads: u64,
    /// CPU time since the start, user and system, to 10 ms.
    pub cpu: Duration,
}

impl Footprint {
    /// Of a running process of this user.
    ///
    /// # Errors
    /// When it has ended.
    pub fn of(pid: i32) -> Result<Self> {
        let read = |file: &str| {
            let path = format!("/proc/{pid}/{file}");
            fs::read_to_string(&path).with_context(|| format!("cannot read {path}: has the process ended?"))
        };
        // The sums of this file are exact; those of `status` may lag by a few pages per CPU.
        let (memory, status, stat) = (read("smaps_rollup")?, read("status")?, read("stat")?);
        Self::parse(&memory, &status, &stat, clock_ticks_per_second()).context("/proc is not as expected")
    }

    fn parse(memory: &str, status: &str, stat: &str, hz: u64) -> Option<Self> {
        // The command in parentheses may hold any character; the state after it is field 3 of proc_pid_stat(5).
        let fields: Vec<&str> = stat.rsplit_once(')')?.1.split_ascii_whitespace().collect();
        let ticks = |number: usize| fields.get(number - 3)?.parse::<u64>().ok();
        let hundredths = (ticks(14)? + ticks(15)?) * 100 / hz.max(1);
        let resident = 1024 * number(memory, "Rss")?;
        Some(Self {
            resident,
            anonymous: 1024 * number(memory, "Anonymous")?,
            peak: resident.max(1024 * number(status, "VmHWM")?),
            threads: number(status, "Threads")?,
            cpu: Duration::from_millis(hundredths * 10),
        })
    }
}

fn number(text: &str, key: &str) -> Option<u64> {
    let value = text.lines().find_map(|line| line.strip_prefix(key)?.strip_prefix(':'))?;
    value.split_ascii_whitespace().next()?.parse().ok()
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
    use super::*;

    #[test]
    fn figures_are_found_among_others_of_similar_names() {
        let memory =
            "1000-2000 ---p 00000000 00:00 0 [rollup]\nRss: 12 kB\nPss: 5 kB\nPss_Anon: 1 kB\nAnonymous: 3 kB\n";
        let status = "Name:\tx\nVmHWM:\t     20 kB\nVmRSS:\t 12 kB\nThreads:\t2\n";
        let stat = "77 (a ) b) S 1 77 77 0 -1 4194560 1100 0 0 0 12 30 0 0 20 0 1 0 5000";
        let footprint = Footprint::parse(memory, status, stat, 100).unwrap();
        let cpu = Duration::from_millis(420);
        assert_eq!(footprint, Footprint { resident: 12288, anonymous: 3072, peak: 20480, threads: 2, cpu });
    }

    #[test]
    fn this_process_has_one() {
        let pid = i32::try_from(std::process::id()).unwrap();
        let footprint = Footprint::of(pid).unwrap();
        assert!(footprint.anonymous > 0 && footprint.anonymous <= footprint.resident);
        assert!(footprint.resident <= footprint.peak && footprint.threads > 0);
        assert!(Footprint::of(-1).unwrap_err().to_string().contains("has the process ended"));
    }
}
