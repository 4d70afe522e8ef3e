//! Our `csi-provisioner` beside the Go one: sharing a Lease with it, and doing the same for the same claim.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod flags;
mod metrics;
mod mixed;
mod same_result;
mod site;
