//! Tables of what goes in and comes out. Thousands of other inputs go through the Go library too, in
//! `e2e/tests/translation`.
#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]
#![expect(clippy::needless_pass_by_value, reason = "objects are written where they are used")]

mod classes;
mod handles;
mod new_volumes;
mod places;
mod volumes;
