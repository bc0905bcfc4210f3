//! Model checking of the real protocol machines.

pub mod action;
mod drive;
mod marked;
pub mod oracle;
pub mod search;
pub mod setting;
pub mod settings;
pub mod world;
