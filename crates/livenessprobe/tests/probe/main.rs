//! The program against drivers on real sockets: probe, driver and HTTP client share one runtime, the clock is paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test says so by panicking")]
#![allow(clippy::disallowed_methods, reason = "what a test spawns ends with its runtime")]

mod contract_rows;
mod flags;
mod metrics;
mod process;
mod scene;
mod sharing;
mod unreachable_driver;
