//! Page-aligned buffers with room for a record's head in front of the payload.

/// Placeholder until the pool lands.
#[derive(Debug)]
pub struct Buffer;
