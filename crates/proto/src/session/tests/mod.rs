//! Two sessions that talk to each other: the plain course of things, and each way of failing once. The orders in which
//! things can happen are the model checker's.

mod asserting;
mod believing;
mod calls;
mod failures;
mod fencing;
mod losses;
mod pair;
mod rekeying;
mod resuming;
mod transfers;
mod verifying;
