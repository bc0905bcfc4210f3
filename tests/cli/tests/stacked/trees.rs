//! Trees, and what is left of them when either side is killed.

#[path = "../trees/judge.rs"]
mod judge;
#[path = "../trees/killed.rs"]
mod killed;
#[path = "../trees/unfinished.rs"]
mod unfinished;
#[path = "../trees/whole.rs"]
mod whole;
