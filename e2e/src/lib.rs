//! Real clusters for tests and the demo, as plain processes on this machine.
//!
//! [`programs`] builds etcd and Kubernetes from Go modules, once per machine. [`Cluster::start`] makes certificates and
//! ports, starts etcd, kube-apiserver and kube-controller-manager and waits until they serve. [`Driver`] and
//! [`Provisioner`] run beside it, the latter as a service account under its upstream RBAC, and so does the Go provisioner
//! ([`peer`]). [`eventually()`] waits for what they do, with a bound and a reason; [`audit`] tells what they asked of the API
//! server, [`journal`] checks when they called the driver. A [`proxy`] makes the way to the API server faulty. [`scene`] puts
//! together what one test needs.
//!
//! Every process hangs on a `supervise` process that ends it when the owner goes away, whether dropped or killed, so
//! nothing outlives a test. Several clusters may run at once.

pub mod audit;
pub mod binary;
pub mod cluster;
pub mod driver;
pub mod eventually;
pub mod footprint;
pub mod journal;
pub mod kubeconfig;
pub mod peer;
pub mod population;
pub mod ports;
pub mod process;
pub mod programs;
pub mod provisioner;
pub mod proxy;
pub mod scene;

pub use crate::{
    cluster::Cluster,
    driver::Driver,
    eventually::eventually,
    footprint::Footprint,
    population::Population,
    process::{Process, Program},
    provisioner::Provisioner,
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
