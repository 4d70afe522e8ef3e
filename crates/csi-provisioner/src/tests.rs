//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod attributes_classes;
mod capacity;
mod claims;
mod clone_rows;
mod cluster;
mod counting;
mod data_sources;
mod deletion_rows;
mod draining;
mod earlier_terms;
mod eligibility;
mod error_codes;
mod flags;
mod grants;
mod leadership;
mod missing_features;
mod node_affinity;
mod node_metadata;
mod objects;
mod overload;
mod plans;
mod provision_rows;
mod provisioning;
mod reclaim;
mod rescheduling;
mod saving;
mod scene;
mod secrecy;
mod secrets;
mod slow_retry;
mod snapshot_rows;
mod snapshot_sweep;
mod source_objects;
mod source_protection;
mod sources_gone;
mod topology_aggregates;
mod topology_claims;
mod topology_rows;
mod uncertain;
mod volumes;
mod waiting_calls;
