//! The crate against drivers on real sockets: client and driver share one runtime, the clock is paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "a failed test says so by panicking")]
#![allow(clippy::disallowed_methods, reason = "what a test spawns ends with its runtime")]

mod calling;
mod client;
mod connecting;
mod logs;
mod probing;
mod raw_server;
mod reconnecting;
mod session;
mod transport;
