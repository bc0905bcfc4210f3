//! What is checked before a file gets its name.

mod arrives;
mod wire;
