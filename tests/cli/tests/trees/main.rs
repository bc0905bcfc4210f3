//! Whole trees: up, down, again, in part, and after every kind of end. rsync is the judge of what a copy kept.

mod holes;
mod judge;
mod killed;
mod kinds;
mod owners;
mod sync;
