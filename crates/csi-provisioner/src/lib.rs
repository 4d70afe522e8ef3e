//! `csi-provisioner`: creates a volume for each PersistentVolumeClaim of one CSI driver, and deletes it when its claim
//! has let go of it. A drop-in for the Go `csi-provisioner` 6.3.
//!
//! The flow of a claim, a file per step:
//!
//! 1. A claim changes: its packed record enters the cache ([`records`]), a handler puts its UID into the queue
//!    ([`subscriptions`]).
//! 2. A worker takes the UID ([`term`]) and loads what is known of the claim ([`claim`]).
//! 3. What to do is decided without I/O ([`claim::eligibility`]).
//! 4. Claim and class become a request that stays the same over all retries ([`create_volume::request`]).
//! 5. What fills the volume is read, checked and protected ([`data_source`], [`content_source`], [`source_protection`]).
//!    Where the volume may be, by the nodes of the cluster, is made part of the request ([`claim::placement`], [`topology`]).
//!    Then come the Secret and the attributes class ([`attributes_class`]): all that may keep the first call from being made.
//! 6. One call to the driver; its outcome is a volume, final, or unknown ([`create_volume`], [`error`]).
//! 7. The volume becomes a PersistentVolume object ([`persistent_volume`]), written with a retry of its own ([`save_volume`]).
//!
//! A claim whose node cannot have the volume goes back to the scheduler ([`claim::reschedule`]). Sources are released when
//! nothing is made from them any more ([`source_protection`]).
//!
//! Reclaim reads the same way: [`records::volume`] → [`subscriptions`] → [`volume`] → [`volume::decision`] → [`delete_volume`] →
//! [`persistent_volume::write`].
//!
//! With `--node-deployment` every node has such a process, and they agree through the claims on who does what
//! ([`node_deployment`]). A volume that is attached waits for its detach ([`attachments`]), and one that is deleted too early
//! waits for its claim ([`volume::decision`]). With `--enable-capacity` CSIStorageCapacity objects are published beside all
//! that ([`capacity`]).
//!
//! Not guaranteed: a crash between a driver's `CreateVolume` and the write of the object, followed by the deletion of the
//! claim before the next start, leaks the volume at the driver. `docs/differences.md` lists what is not supported yet.

mod args;
mod attachments;
mod attributes_class;
mod caches;
mod capacity;
mod claim;
mod content_source;
mod create_volume;
mod data_source;
mod delete_volume;
mod error;
mod metrics;
mod migration;
mod new_connections;
mod node_deployment;
mod persistent_volume;
mod random;
mod records;
mod run;
mod save_volume;
mod settings;
mod source_protection;
mod still_wanted;
mod subscriptions;
mod term;
mod term_context;
mod topology;
mod volume;
mod whole_object;

pub use run::run;

#[cfg(test)]
mod tests;
