//! `csi-resizer`: grows volumes of one CSI driver, and changes their attributes, for PersistentVolumeClaims. A drop-in for
//! the Go `csi-resizer` 2.2.
//!
//! The flow of a claim, a file per step:
//!
//! 1. A claim changes: if there is something to do for it, its record enters the cache ([`records`]); a handler puts its UID
//!    into the queue ([`subscriptions`]).
//! 2. A worker takes the UID ([`term`]) and runs the claim's steps side by side ([`claim`]), each of them when its own backoff
//!    lets it ([`claim::pace`]). Their writes come one after the other ([`claim::writes`]). Nothing else works on the claim at
//!    that time.
//! 3. The volume is read live, and must be the claim's and of this driver ([`volume`]).
//! 4. Growing ([`expand`], KEP-1790) and changing the class of attributes ([`modify`], KEP-3751): what to do is decided
//!    without I/O, the status says so, the driver is called, the volume and the status are written ([`mod@write`]).
//! 5. What fails is told in the status and in an event; the pace decides when to try again, a restart of the driver
//!    ([`new_connections`]) at once.
//!
//! Not guaranteed: a call that the driver accepted from an earlier leader may still be running when the next one calls; CSI
//! requires drivers to be idempotent.

mod args;
mod caches;
mod claim;
mod conditions;
mod error;
mod expand;
mod metrics;
mod modify;
mod new_connections;
mod records;
mod run;
mod settings;
mod subscriptions;
mod term;
mod term_context;
mod volume;
mod write;

pub use run::run;

#[cfg(test)]
mod tests;
