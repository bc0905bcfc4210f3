//! Two sessions that talk to each other: the normal sequences, and each kind of failure once. The
//! model checker covers the orders of events.

mod asserting;
mod believing;
mod calls;
mod failures;
mod fencing;
mod losses;
mod noticing;
mod pair;
mod recalling;
mod rekeying;
mod resuming;
mod transfers;
mod verifying;
