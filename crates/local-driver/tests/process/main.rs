//! The driver as a process, through its socket.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, clippy::print_stdout)]

mod copying;
mod devices;
mod driver;
mod growing;
mod mounting;
mod node_request;
mod private_mounts;
mod publishing;
mod volumes;
