//! A channel: its life cycle as a transition table, and what its two directions currently carry.

pub mod direction;
pub mod life;

pub use direction::DirectionState;
pub use life::Life;
