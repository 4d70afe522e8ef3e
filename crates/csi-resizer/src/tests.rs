//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod flags;
mod objects;
mod scene;
