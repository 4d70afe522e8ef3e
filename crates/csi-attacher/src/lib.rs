//! `csi-attacher`: attaches volumes of one CSI driver to nodes, and detaches them, for the VolumeAttachments that
//! kube-controller-manager makes. A drop-in for the Go `csi-attacher` 4.12.
//!
//! The flow of an attachment, a file per step:
//!
//! 1. An attachment changes: its packed record enters the cache ([`records`]), a handler puts its name into the queue
//!    ([`subscriptions`]).
//! 2. A worker takes the name ([`term`]) and loads the newest that is known of the attachment ([`attachment`]): the cache, or
//!    the API server's answer to an own patch ([`attachment::remembered`]).
//! 3. What to do is decided without I/O ([`attachment::decision`]).
//! 4. To attach: which volume ([`source`]), our finalizer on it ([`volume`]), the request ([`attachment::request`]), room at the
//!    node ([`attachment::node_detaches`]), our finalizer and the node id on the attachment, a slot for the call
//!    ([`call_slots`]), the call, the status ([`attachment::attach`]).
//! 5. To detach: the call, at every id of the node ([`attachment::node_ids`]) where no other attachment has the volume, and our
//!    finalizer goes ([`attachment::detach`]). What was published for an attachment that vanished under way is unpublished
//!    too ([`attachment::left_behind`]).
//! 6. What fails is told in the status; the queue decides when to try again.
//!
//! Beside it, [`reconcile`] compares the statuses with what the driver lists, and [`backlog`] says when work waits for long.
//!
//! Not guaranteed: a call that the driver accepted from an earlier leader may still be running when the next one calls; CSI
//! requires drivers to be idempotent. `docs/differences.md` lists what is not supported yet.

mod args;
mod attachment;
mod backlog;
mod caches;
mod call_slots;
mod error;
mod kept_volumes;
mod metrics;
mod migration;
mod new_connections;
mod reconcile;
mod records;
mod run;
mod settings;
mod source;
mod still_wanted;
mod subscriptions;
mod term;
mod term_context;
mod turns;
mod volume;

pub use run::run;

#[cfg(test)]
mod tests;
