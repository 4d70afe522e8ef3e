//! Decisions as tables; behaviour on a fake API server and a fake driver, with the clock paused.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod expanding;
mod flags;
mod growth;
mod objects;
mod pace;
mod pre_resize;
mod recovery;
mod scene;
mod size_rows;
mod status_rows;
