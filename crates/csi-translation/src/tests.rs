//! Tables of what goes in and comes out. Thousands of other inputs go through the Go library too, in
//! `e2e/tests/translation.rs`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod classes;
mod handles;
mod new_volumes;
mod places;
mod volumes;
