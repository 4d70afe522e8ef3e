//! `csi-resizer` on a real control plane. Every resizer here authenticates as the service account of its upstream deployment
//! files, with the rights these give it and no others; some have one right less. What a kubelet does is done by the tests.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic, reason = "tests")]

mod attributes;
mod growth;
mod interruptions;
mod leadership;
mod recovery;
mod rights;
