//! Whole trees: up, down, again, in part, and after every kind of end. rsync is the judge of what a copy kept.

mod changed;
mod deep;
mod holes;
mod judge;
mod killed;
mod kinds;
mod linked;
mod modes;
mod owners;
mod refused;
mod replaced;
mod sync;
mod times;
mod together;
mod unfinished;
mod whole;
mod whole_here;
