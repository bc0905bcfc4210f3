//! How safe bytes are, in the terms of the acknowledgements (`docs/durability.md`).

/// How safe acknowledged bytes are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Safety {
    /// In the receiver's memory.
    Received = 1,
    /// Handed to the file system: they survive the end of the program, but not of the machine.
    Written = 2,
    /// On stable storage: they survive a power cut if the device honours its flushes.
    Durable = 3,
}

impl Safety {
    /// The name for people and for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Written => "written",
            Self::Durable => "durable",
        }
    }
}
