//! Our sidecars beside the Go ones: sharing a Lease with them, and doing the same for the same object. What is about the
//! attacher is in `attach`, about the resizer in `resize`, the rest is about the provisioner.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attach;
mod command_line;
mod differences;
mod exposition;
mod flags;
mod lease_history;
mod metrics;
mod mixed;
mod resize;
mod same_result;
mod site;
mod stand_ins;
mod vendor_args;
