//! What a Kubernetes controller needs around its rules: caches, queues, workers, leadership, events.
//! It knows Kubernetes' API machinery and no storage.
//!
//! The flow: an [`Informer`] keeps packed records of one kind and tells its subscribers which key changed; a subscriber
//! puts the key into a [`WorkQueue`]; [`run_workers`] hands each key to the controller's reconcile function and gives the
//! [`Outcome`] back to the queue, which alone decides when the key is tried again. Informers, queues and workers live
//! inside a leader term: nothing that was learnt outlives it.
//!
//! Not guaranteed: a record read from an informer may be older than what this process wrote itself. Rules must not decide
//! from the cache what they have just written.

pub mod continuity;
pub mod informer;
pub mod metrics;
pub mod rate_limiter;
pub mod tasks;
pub mod work_queue;
pub mod worker;

mod jitter;

pub mod clock;
pub mod discovery;
pub mod events;
pub mod gate;
pub mod kube_client;
pub mod leader_election;
pub mod term;

pub use continuity::{Continuity, Interruption};
pub use informer::{Change, Collection, Informer, Informers, Mention, Projection, Subscription};
pub use metrics::{ElectionMetrics, WorkQueueMetrics};
pub use rate_limiter::Backoff;
pub use tasks::Tasks;
pub use work_queue::{Lane, WorkQueue};
pub use worker::{Outcome, run_lane, run_workers};

pub use events::{EventKind, EventRecorder, EventWriter};
pub use gate::{Gate, GateClosed, gate_closed};
pub use kube_client::ApiServer;
pub use leader_election::{Election, Health, LeadError, LeaseClients, lead, lease_name};
pub use term::Term;
