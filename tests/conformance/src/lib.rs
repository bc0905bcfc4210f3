//! Conformance suites: one for each exchangeable part of `io`.
//!
//! That of stores is a library ([`store`]), so that an implementation in a crate of its own runs it. Those of
//! transports and dispatchers are in `tests/`, each with its own harness, since what an implementation is
//! differs.

#![allow(clippy::unwrap_used, reason = "a test that cannot go on stops")]
#![allow(clippy::missing_panics_doc, reason = "a rule that is broken panics")]

pub mod store;
