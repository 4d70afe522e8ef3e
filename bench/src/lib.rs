//! The figures of the design, measured beside the Go sidecars on the same machine.
//!
//! One program per figure (`make bench-attach`, `make bench-capacity`, `make bench-handover`, `make bench-idle`,
//! `make bench-memory`): it starts a control plane and a driver ([`e2e`]), then
//! each [`Contender`] with the same flags, and prints what both took with the goal beside it ([`table`]). Nothing here
//! passes or fails; the bounds that must hold are tests of `e2e`.
//!
//! And one that watches them at work for the sake of those figures: `make function-order` ([`functions`]).

pub mod contender;
pub mod functions;
pub mod scene;
pub mod table;

pub use crate::contender::{Contender, Run};
