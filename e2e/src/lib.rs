//! Real clusters for tests and the demo, as plain processes on this machine.
//!
//! [`programs`] builds etcd and Kubernetes from Go modules, once per machine. [`Cluster::start`] makes certificates and
//! ports, starts etcd, kube-apiserver and kube-controller-manager and waits until they serve. [`Driver`] and
//! [`Sidecar`]s run beside it, the latter as service accounts under their upstream RBAC, and so do the Go sidecars
//! ([`peer`]). [`eventually()`] waits for what they do, with a bound and a reason; [`audit`] tells what they asked of the API
//! server, [`journal`] checks when they called the driver. A [`proxy`] makes the way to the API server faulty. [`scene`] puts
//! together what one test needs. A [`Node`] runs [`Pod`]s, and [`Site`] is a scene on it.
//!
//! Every process hangs on a `supervise` process that ends it when the owner goes away, whether dropped or killed, so
//! nothing outlives a test. Several clusters may run at once.

pub mod attach_scene;
pub mod audit;
pub mod binary;
pub mod cluster;
pub mod controller_calls;
pub mod driver;
pub mod eventually;
pub mod footprint;
pub mod http_get;
pub mod image;
pub mod journal;
pub mod kubeconfig;
pub mod memory_limit;
pub mod mock_driver;
pub mod node;
pub mod peer;
pub mod pod;
pub mod population;
pub mod ports;
pub mod process;
pub mod programs;
pub mod proxy;
pub mod resize_scene;
pub mod scene;
pub mod sidecar;
pub mod site;

pub use crate::{
    cluster::{Cluster, OptionalRule},
    driver::Driver,
    eventually::eventually,
    footprint::Footprint,
    memory_limit::MemoryLimit,
    node::Node,
    pod::Pod,
    population::Population,
    process::{Process, Program},
    sidecar::Sidecar,
    site::Site,
};

/// Tells the person in front of the terminal what takes so long.
#[expect(clippy::print_stderr, reason = "the harness talks to a person, not to a log")]
fn say(line: &str) {
    eprintln!("{line}");
}

/// A new directory that is removed when dropped; kept when `OUTRIGGER_KEEP` is set, for looking at the logs.
///
/// # Errors
/// When the temporary directory of the system cannot be written.
fn temporary_directory(purpose: &str) -> anyhow::Result<tempfile::TempDir> {
    let mut directory = tempfile::Builder::new().prefix(&format!("outrigger-{purpose}-")).tempdir()?;
    if std::env::var_os("OUTRIGGER_KEEP").is_some() {
        directory.disable_cleanup(true);
        say(&format!("keeping {}", directory.path().display()));
    }
    Ok(directory)
}
