//! A channel: its life cycle as a transition table, and what its two directions currently carry.

pub mod flow;
pub mod life;

pub use flow::Flow;
pub use life::Life;
