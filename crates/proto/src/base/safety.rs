//! How safe bytes are, in the words of the acknowledgements (`docs/durability.md`).

/// How safe acknowledged bytes are.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Safety {
    /// In the receiver's memory.
    Received = 1,
    /// Handed to the file system: they survive the end of the program, not that of the machine.
    Written = 2,
    /// On stable storage: they survive a power cut where the device keeps its word.
    Durable = 3,
}

impl Safety {
    /// The word for a person and for JSON.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Received => "received",
            Self::Written => "written",
            Self::Durable => "durable",
        }
    }
}
