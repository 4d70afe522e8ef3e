//! The process around a controller: what makes a binary a sidecar, whichever sidecar it is.
//!
//! The flow of a start: [`main`] makes the runtime → [`parse`] or [`parse_go_flags`] reads the command line →
//! [`StandardArgs::logging`] and [`logging::init`] → [`feature_gates`] → [`StandardArgs::validate`] gives a [`Standard`]
//! in which nothing has to be checked again → [`kube_config::load`], [`metrics::Metrics`], [`http::bind`],
//! [`shutdown::Shutdown::listen`] → the controller, for those that lead through [`leading::Boot`]. Each step ends the process with an [`Exit`] where upstream ends it, with upstream's code.
//!
//! It knows no object of Kubernetes and no rule of storage.

pub mod admission;
pub mod args;
pub mod exit;
pub mod feature_gates;
pub mod flag_value;
pub mod go_duration;
pub mod http;
pub mod kube_config;
pub mod kube_limiter;
pub mod leader_election;
pub mod leading;
pub mod logging;
pub mod metrics;
pub mod shutdown;
pub mod termination_log;

mod allocator;
mod command_line;
mod quote;
mod runtime;

pub use admission::TermAdmission;
pub use args::{LoggingArgs, Standard, StandardArgs};
pub use command_line::{parse, parse_go_flags};
pub use exit::Exit;
pub use feature_gates::{FeatureGate, FeatureGates, Stage};
pub use go_duration::GoDuration;
pub use kube_limiter::{AdjustableLimit, RequestLimit};
pub use leader_election::LeaderElection;
pub use leading::{Boot, Started};
pub use metrics::Metrics;
pub use runtime::main;
pub use shutdown::Shutdown;

/// How a part of the start reads the environment: [`process_env`], or a table in tests.
pub type EnvLookup<'a> = &'a dyn Fn(&str) -> Option<String>;

/// A variable of the process's environment. One that is empty or no text counts as not set.
pub fn process_env(name: &str) -> Option<String> {
    std::env::var(name).ok().filter(|value| !value.is_empty())
}
