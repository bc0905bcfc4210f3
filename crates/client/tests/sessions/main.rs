//! Sessions between a real client and a real server in one process: what is moved arrives whole, whatever is lost on the
//! way, and nothing stays behind.
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]

mod cancel;
mod errors;
mod life;
mod loss;
mod pipes;
#[path = "../support/mod.rs"]
mod support;
mod transfers;
