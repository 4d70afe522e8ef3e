//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod flags;
mod growing;
mod modifying;
mod objects;
mod scene;
mod sizes;
mod statuses;
