//! Peers that break the rules, against a real server: each is told why, or its cause is logged, within its deadline, and
//! a transfer of somebody else beside it arrives whole. The raw peers speak through the protocol's own encoders.
#![allow(clippy::disallowed_methods, reason = "tests set their scenes with the standard library")]
#![allow(clippy::unwrap_used, clippy::expect_used, reason = "in a test a panic is the finding")]

mod claims;
mod downgrade;
mod fences;
mod flights;
mod joins;
mod liar;
mod never_sent;
mod noise;
mod openings;
mod parting;
mod raw;
mod records;
mod replay;
mod rooms;
mod sealed;
mod stalling;
mod strangers;
#[path = "../support/mod.rs"]
mod support;
mod timing;
mod truncation;
