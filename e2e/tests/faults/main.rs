//! `csi-provisioner` and `local-driver` on a real control plane, with everything around them failing: processes killed
//! and paused, the API server slow or out of reach, the driver gone. What counts afterwards is that no volume is lost,
//! leaked or made twice.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod claims;
mod driver;
mod hand_over;
mod killed;
mod lease;
mod link;
mod reclaim;
mod set_back;
mod slow_api;
mod store;
mod streamed_lists;
