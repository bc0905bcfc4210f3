//! Channel events: the first byte of every record (the papers' Table 3, WIRE-36..44, and later
//! additions).

macro_rules! events {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $text:literal;)*) => {
        /// What a record is. Codes below 128 must be understood; those above may be skipped by
        /// their length.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u8)]
        pub enum Event { $($(#[$doc])* $name = $code,)* }

        impl Event {
            /// Every event, in the order of its code.
            pub const ALL: &'static [Event] = &[$(Self::$name,)*];

            /// The event of a code; none where this version has no such event.
            pub const fn from_code(code: u8) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// The name in the papers and the documents.
            pub const fn name(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

events! {
    /// Continue: a block of the operation and mode that this channel and direction last carried
    /// (WIRE-42).
    Continue = 1, "CONM";
    /// Upload: the request for one, or a block of one (WIRE-38).
    Upload = 2, "xFTSMU";
    /// Download: the request for one, or a block of one (WIRE-39).
    Download = 3, "xFTSMD";
    /// Path calls: a batch of them, or its reply (WIRE-40).
    Path = 4, "xPathM";
    /// Calls on an open file: a batch of them, or its reply (WIRE-44).
    File = 5, "xDFSM";
    /// This operation ends on this channel and direction, which stays for others (WIRE-37).
    EndOfRange = 6, "EOFR";
    /// The session ends on this channel and direction (WIRE-36).
    EndOfTransfer = 7, "EOFT";
    /// No operation: keeps a channel alive, or requests a reply (WIRE-41).
    Nothing = 8, "NOOP";
    /// A block of a transfer at level clear, head and payload apart (WIRE-43).
    ZeroCopy = 9, "ZxDFS";
    /// The papers' Exception Header: why an operation, or the session, fails (WIRE-48..51).
    Exception = 10, "EXCEPTION";
    /// What arrived, was written or is durable, and how far the sender may advance.
    Ack = 16, "ACK";
    /// The reply to a request: what was granted.
    Grant = 17, "GRANT";
    /// How far the sender may advance.
    Credit = 18, "CREDIT";
    /// More channels: the request and the grant.
    Channels = 19, "CHANNELS";
    /// A channel is lost: how many of its records were processed here.
    Fence = 20, "FENCE";
    /// The sender requests to cancel an operation.
    Cancel = 21, "CANCEL";
    /// Every block was sent: the length is final.
    Finish = 22, "FINISH";
    /// The target has its final name and all its bytes.
    Committed = 23, "COMMITTED";
    /// A range of zeros that is not sent. Reserved in version 1.
    Hole = 24, "HOLE";
    /// The server shuts down: no new operation.
    Drain = 25, "DRAIN";
    /// Last record of a key epoch: what follows on this channel and direction is sealed with the
    /// next key.
    Rekey = 26, "REKEY";
    /// What arrived is not what was sent: these ranges are requested again.
    Again = 27, "AGAIN";
    /// Leases on open files that the server recalls.
    Recall = 28, "RECALL";
    /// Changes of names that the client watches.
    Notice = 29, "NOTICE";
}

impl Event {
    /// First code that a receiver may skip.
    pub const SKIPPABLE_FROM: u8 = 128;

    /// Whether the record may carry file bytes (with [`super::Flags::REQUEST`] clear).
    pub const fn carries_block(self) -> bool {
        matches!(self, Self::Continue | Self::Upload | Self::Download | Self::ZeroCopy)
    }
}
