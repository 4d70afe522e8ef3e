//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod construction;
mod expanding;
mod flags;
mod growth;
mod in_use;
mod late_writes;
mod modify_statuses;
mod modify_turns;
mod modifying;
mod new_connections;
mod objects;
mod pace;
mod pre_resize;
mod recovery;
mod scene;
mod size_rows;
mod status_rows;
