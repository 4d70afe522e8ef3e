//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod capacity;
mod claims;
mod counting;
mod deletion_rows;
mod draining;
mod earlier_terms;
mod eligibility;
mod error_codes;
mod flags;
mod leadership;
mod missing_features;
mod objects;
mod overload;
mod plans;
mod provision_rows;
mod provisioning;
mod reclaim;
mod saving;
mod scene;
mod secrecy;
mod slow_retry;
mod uncertain;
mod volumes;
mod waiting_calls;
