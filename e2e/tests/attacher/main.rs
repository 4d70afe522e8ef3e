//! `csi-attacher` on a real control plane. Every attacher here authenticates as the service account of its upstream deployment
//! files, with the rights these give it and no others.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attach_detach_controller;
mod attachments;
mod foreign_driver;
mod interruptions;
mod leadership;
