//! A CSI driver that keeps each volume as a directory or a sparse file on one node.
//!
//! The flow of one call: `server` accepts and picks the service → `calls` injects faults and writes the journal →
//! `controller`, `identity` or `node` checks the request (pure) → `state` answers from its index, or changes the
//! disk on a blocking thread and then the index, and `node` mounts, with the kernel's `mount_table` as its memory.
//!
//! What it promises: a volume, a snapshot or a publication that was answered survives a crash at any moment; a deletion that was
//! begun is finished at the next start at the latest; what is mounted is found again; no secret is stored, logged or
//! journalled.
//!
//! Not guaranteed: the size of a mount volume that is a directory is reported, not enforced; a copy of a mount volume that is written to
//! meanwhile shows each file at another moment; a volume is lost with the node.

mod args;
mod calls;
mod capabilities;
mod controller;
mod error;
mod fault;
mod identity;
mod image;
mod journal;
mod loop_device;
mod mount_table;
mod node;
mod program;
mod server;
mod state;
mod topology;
mod turns;
mod volume_capability;

pub use args::{Args, Config};
pub use capabilities::{Capabilities, Capability};
pub use error::Error;
pub use fault::Fault;
pub use journal::JournalLine;
pub use program::ProgramError;
pub use server::run;
pub use topology::{Places, Topology};
