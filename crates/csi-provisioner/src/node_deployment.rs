//! `--node-deployment`: one provisioner beside the driver on every node, each for the volumes of its node.
//!
//! Which process provisions a claim, the annotation `volume.kubernetes.io/selected-node` says. For pods that wait for
//! their volume the scheduler writes it. Claims of a class with immediate binding have nobody to do so, so the processes
//! compete for them:
//!
//! 1. [`ownership`] decides, without I/O, whether the claim is this node's, another's, or still to be had.
//! 2. A claim whose volume may not be on this node is left to others ([`fit`]).
//! 3. Each process waits for a time of its own ([`competition`]), so that not all ask and write at once. The wait is the
//!    queue's: no worker is kept busy by it, and the event of another process's write ends it at once.
//! 4. The driver is asked whether the volume fits here; if not, the claim is left to others.
//! 5. The annotation is written if the claim still has none: the API server lets one writer pass. The event of that write
//!    starts the provisioning.
//!
//! Volumes are deleted where they are reachable ([`reach`]); those of other nodes are not even kept in memory.
//!
//! Not guaranteed: that a claim which fits on no node is told so. Every process leaves it to the others, as the Go
//! provisioner does, and looks again with the next resync.

pub(crate) mod competition;
pub(crate) mod ownership;
pub(crate) mod reach;
