//! The generated code against the Go modules of the specification, and against what must never be printed.
//!
//! `upstream` runs the Go program in `tests/upstream/`; `any_message` fills messages through reflection.

#![allow(clippy::unwrap_used, clippy::expect_used, clippy::panic)]

mod any_message;
mod descriptors;
mod every_type;
mod nested_secrets;
mod sanitizer;
mod secrets;
mod upstream;
