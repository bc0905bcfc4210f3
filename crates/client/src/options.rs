//! How one transfer is to be made.

/// How to upload.
#[derive(Clone, Debug, Default)]
pub struct PutOptions {
    /// Fail where the target exists.
    pub keep_existing: bool,
    /// Permission bits of the new file; none takes those of the source.
    pub mode: Option<u32>,
    /// The local name, for the server's log.
    pub label: Vec<u8>,
    /// The outcome comes when the file is on stable storage, not when it is written.
    pub durable: bool,
    /// Go on where an earlier upload of the same file to the same name ended, and leave something to go on with.
    pub resume: bool,
}

/// How to download.
#[derive(Clone, Debug, Default)]
pub struct GetOptions {
    /// First byte.
    pub offset: u64,
    /// Bytes; none means up to the end.
    pub length: Option<u64>,
    /// The local name, for the server's log.
    pub label: Vec<u8>,
    /// The outcome comes when the file is on stable storage, not when it is written.
    pub durable: bool,
    /// Go on where an earlier download of the same file to the same place ended, and leave something to go on with.
    pub resume: bool,
}
