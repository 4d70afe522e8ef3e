//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod attach_rows;
mod attaching;
mod backlog;
mod calls_in_flight;
mod detach_rows;
mod detaching;
mod flags;
mod full_nodes;
mod leadership;
mod left_behind;
mod listings;
mod lost_answers;
mod memory;
mod migration;
mod new_connections;
mod nodes;
mod objects;
mod patches;
mod predicates;
mod records;
mod scene;
mod secrets;
mod statuses;
mod trivial;
mod volume_rows;
