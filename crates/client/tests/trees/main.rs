//! Trees against a server that lies, and trees that are larger than anybody's patience.
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

mod deep;
mod evil;
mod growing;
mod heard;
mod large;
mod lost;
mod manifests;
mod rooms;
#[path = "../support/mod.rs"]
mod support;
