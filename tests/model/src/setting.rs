//! What is searched: how large a session, and which faults are on offer. Every fault has a budget, so every path ends.

/// An operation of the searched session; all of them are opened at the start.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct Plan {
    /// Upload or download.
    pub upload: bool,
    /// Blocks; the last one is short.
    pub blocks: u64,
    /// Whether the length is known at the start (uploads; a download's always is).
    pub known: bool,
    /// Which pipeline's client opens it.
    pub coordinator: u8,
    /// Calls: a batch and its reply, no block. What they do is done once, as a commit is.
    pub calls: bool,
}

impl Plan {
    /// An upload of known length, opened in the first pipeline.
    pub const fn upload(blocks: u64) -> Self {
        Self { upload: true, blocks, known: true, coordinator: 0, calls: false }
    }

    /// A batch of calls, opened in the first pipeline.
    pub const fn calls() -> Self {
        Self { calls: true, ..Self::upload(0) }
    }

    /// A download, opened in the first pipeline.
    pub const fn download(blocks: u64) -> Self {
        Self { upload: false, blocks, known: true, coordinator: 0, calls: false }
    }
}

/// The bounds of the search: the size of a session and its budget of faults.
#[derive(Clone, Debug)]
pub struct Setting {
    /// For reports and for choosing it on the command line.
    pub name: &'static str,
    /// Pipelines; channels are dealt out to them in turns.
    pub pipelines: u8,
    /// Channels of the whole session.
    pub channels: u16,
    /// The operations.
    pub plans: &'static [Plan],
    /// Blocks that a receiver grants ahead of its first gap.
    pub window: u64,
    /// Blocks of a download that may come before the first CREDIT.
    pub credit: u64,
    /// Ends of channels that may break (the other end notices later, at any moment).
    pub breaks: u8,
    /// Whether all channels may break at once.
    pub cut_all: bool,
    /// Storage calls that may fail.
    pub storage_faults: u8,
    /// Ends that may cancel an operation.
    pub cancels: u8,
    /// Times that patience may run out over a block that was not acknowledged.
    pub repeats: u8,
    /// The transport takes records one by one, at its own time, instead of at once.
    pub slow_transport: bool,
    /// Writes complete at their own time instead of at once.
    pub slow_writes: bool,
    /// A block's head and the rest of it arrive apart.
    pub halves: bool,
    /// The client closes the session when everything is settled.
    pub close: bool,
    /// The server may say that it goes down.
    pub drain: bool,
    /// Records of a key epoch, REKEY among them; the largest number is no limit.
    pub epoch: u64,
    /// The content is hashed and compared.
    pub hash: bool,
    /// The target is asked to be durable, and an attempt may go on where an earlier one ended.
    pub resumes: bool,
    /// Blocks that may become others on their way.
    pub flips: u8,
}

impl Setting {
    /// One pipeline, nothing fails, everything at once: what the others are made from.
    pub const fn plain(name: &'static str, plans: &'static [Plan]) -> Self {
        Self {
            name,
            pipelines: 1,
            channels: 2,
            plans,
            window: 4,
            credit: 1,
            breaks: 0,
            cut_all: false,
            storage_faults: 0,
            cancels: 0,
            repeats: 0,
            slow_transport: false,
            slow_writes: false,
            halves: false,
            close: false,
            drain: false,
            epoch: u64::MAX,
            hash: false,
            resumes: false,
            flips: 0,
        }
    }
}
