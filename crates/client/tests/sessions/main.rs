//! Sessions between a real client and a real server in one process: what is moved arrives whole, whatever is lost on the
//! way, and nothing stays behind.
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

mod calls;
mod cancel;
mod errors;
mod life;
mod logins;
mod loss;
mod pipes;
mod rates;
mod rekey;
mod rights;
mod staged_trees;
mod stores;
#[path = "../support/mod.rs"]
mod support;
mod transfers;
