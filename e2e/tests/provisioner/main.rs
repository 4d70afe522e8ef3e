//! `csi-provisioner` and `local-driver` on a real control plane. Every provisioner here authenticates as the service
//! account of its upstream deployment files, with the rights these give it and no others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod capacities;
mod clones;
mod input;
mod leadership;
mod migration;
mod nodes;
mod restarts;
mod topology;
mod volumes;
