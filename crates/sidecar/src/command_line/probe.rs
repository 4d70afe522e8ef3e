//! A command line to try the dialects on.
#![allow(clippy::unwrap_used)]

use crate::flag_value::{go_bool, go_int, go_uint};
use crate::go_duration::GoDuration;

/// What words make of the defaults.
pub(super) type Change = fn(&mut Probe);

#[derive(Debug, PartialEq, clap::Parser)]
#[command(name = "probe")]
pub(super) struct Probe {
    #[arg(long, default_value = "/run/csi/socket")]
    pub(super) csi_address: String,
    #[arg(long)]
    pub(super) leader_election: bool,
    #[arg(long, default_value_t = true)]
    pub(super) immediate_topology: bool,
    #[arg(long, default_value = "10s")]
    pub(super) timeout: GoDuration,
    #[arg(long, value_parser = go_uint, default_value = "100")]
    pub(super) worker_threads: u64,
    #[arg(long, value_parser = go_int, default_value = "-1")]
    pub(super) length: i64,
    #[arg(long = "v", short = 'v', value_parser = go_uint, default_value = "0")]
    pub(super) verbosity: u64,
    #[arg(
        long,
        value_parser = go_bool, num_args = 0..=1, require_equals = true,
        default_missing_value = "true"
    )]
    pub(super) automaxprocs: Option<bool>,
    #[arg(long)]
    pub(super) label: Vec<String>,
}

pub(super) fn defaults() -> Probe {
    Probe {
        csi_address: "/run/csi/socket".into(),
        leader_election: false,
        immediate_topology: true,
        timeout: "10s".parse().unwrap(),
        worker_threads: 100,
        length: -1,
        verbosity: 0,
        automaxprocs: None,
        label: vec![],
    }
}
