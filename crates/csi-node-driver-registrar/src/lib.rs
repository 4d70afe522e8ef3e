//! `csi-node-driver-registrar`: introduces the CSI driver of a pod to the kubelet of the node. A drop-in for the Go program 2.17.
//!
//! The flow, a file per step:
//!
//! 1. `args` reads the flags, `run` takes the HTTP address and starts everything.
//! 2. `driver_watch` waits for the driver's socket, asks for name and node facts, and asks again on every new connection.
//! 3. `driver_identity` decides (pure) what an answer means: nothing, register, or register anew because the driver is another one.
//! 4. `registration_socket` takes the path `<driver name>-reg.sock` in kubelet's plugin directory, atomically, and knows by inode
//!    whether it is still ours.
//! 5. Kubelet connects: `connections` serves HTTP/2 behind `authority_filter`, which makes kubelet's `:authority` acceptable, and
//!    `registration_service` answers `GetInfo` and `NotifyRegistrationStatus`.
//! 6. `registration` decides (pure) from kubelet's calls, or their absence, when the socket is to be made again.
//! 7. `registrar` is the loop that carries out what 3, 4 and 6 decide; `health` answers `/healthz` by being kubelet for a moment.
//!
//! Not guaranteed:
//! - That a socket which another process puts at the path between our look and our removal, microseconds later, stays.
//! - That kubelet noticed the socket: its directory watch may have lost the event. Then the silence is noticed after a minute.
//! - That a change of the driver is noticed of which only the answers on a connection that lives on tell.

mod args;
mod authority_filter;
mod connections;
mod driver_identity;
mod driver_watch;
mod error;
mod health;
mod registrar;
mod registration;
mod registration_service;
mod registration_socket;
mod run;

pub use run::run;

#[cfg(test)]
mod tests;
