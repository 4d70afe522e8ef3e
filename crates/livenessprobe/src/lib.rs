//! `livenessprobe`: answers the kubelet's HTTP probe of a CSI driver's container by asking the driver. A drop-in for the Go
//! `livenessprobe` 2.19.
//!
//! The flow of the process: flags ([`args`]) → HTTP listens at once ([`mod@run`]) → the driver is asked its name until it tells it, for the
//! metrics ([`driver_name`]).
//!
//! The flow of a request: `/healthz` ([`healthz`]) → it joins the probe in flight or starts one ([`shared_probe`]) → name known? →
//! a fresh connection, dialled again until it stands → `Probe` ([`check`]) → one outcome for all who wait → code and text.
//!
//! The connection is fresh every time because kubelet and workloads reach the driver through the socket's path: a driver that lives
//! behind a removed socket is as good as dead.
//!
//! Not guaranteed: that a request sees a `Probe` that was sent after it; it may share one that began up to `--probe-timeout` before.

mod args;
mod check;
mod driver_name;
mod healthz;
mod run;
mod shared_probe;

pub use args::{Config, LivenessArgs, MetricsPlace};
pub use run::{Program, run};
