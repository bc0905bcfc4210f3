//! Numbers of the kernel's FUSE protocol, version 7 (`linux/fuse.h`).

pub(crate) const MAJOR: u32 = 7;
/// What is answered: bits of later versions have no meaning here.
pub(crate) const MINOR: u32 = 36;
/// Linux 5.4: older kernels are not served.
pub(crate) const MINOR_MIN: u32 = 31;

/// A request's header, and an answer's.
pub(crate) const REQUEST_HEAD: usize = 40;
pub(crate) const ANSWER_HEAD: usize = 16;

/// What a request has besides the data of a write, at most: the kernel asks for this much.
pub(crate) const REQUEST_REST: usize = 4096;

/// Most bytes of one read or write.
pub(crate) const DATA_MAX: usize = 1 << 20;

/// Bytes of a page, of which the kernel counts the data of a request.
pub(crate) const PAGE: usize = 4096;

/// What is agreed at the start, bits of `flags`.
pub(crate) mod init {
    pub(crate) const ASYNC_READ: u64 = 1;
    pub(crate) const POSIX_LOCKS: u64 = 1 << 1;
    pub(crate) const ATOMIC_O_TRUNC: u64 = 1 << 3;
    pub(crate) const BIG_WRITES: u64 = 1 << 5;
    /// The umask of programs is left to the file system, and told with what they make.
    pub(crate) const DONT_MASK: u64 = 1 << 6;
    pub(crate) const FLOCK_LOCKS: u64 = 1 << 10;
    pub(crate) const AUTO_INVAL_DATA: u64 = 1 << 12;
    pub(crate) const DO_READDIRPLUS: u64 = 1 << 13;
    pub(crate) const READDIRPLUS_AUTO: u64 = 1 << 14;
    pub(crate) const PARALLEL_DIROPS: u64 = 1 << 18;
    pub(crate) const MAX_PAGES: u64 = 1 << 22;
    pub(crate) const HANDLE_KILLPRIV_V2: u64 = 1 << 28;
    pub(crate) const INIT_EXT: u64 = 1 << 30;
    /// Names can be made to be asked for again without being dropped.
    pub(crate) const HAS_EXPIRE_ONLY: u64 = 1 << 35;
    /// Files that bypass the page cache may be mapped.
    pub(crate) const DIRECT_IO_ALLOW_MMAP: u64 = 1 << 36;
}

/// How a file was opened, bits of the answer.
pub(crate) mod opened {
    /// Nothing of it is in the page cache.
    pub(crate) const DIRECT_IO: u32 = 1;
    /// What is in the page cache stays.
    pub(crate) const KEEP_CACHE: u32 = 2;
}

/// Told without a request: the kernel drops what it keeps of an inode.
pub(crate) const NOTIFY_INVALIDATE_INODE: i32 = 2;
/// The same: it asks what a name leads to before it uses it again.
pub(crate) const NOTIFY_INVALIDATE_ENTRY: i32 = 3;
/// A flag of that: who is in a directory stays in it.
pub(crate) const EXPIRE_ONLY: u32 = 1;

/// A write comes from the page cache, not from a program.
pub(crate) const WRITE_CACHE: u32 = 1;
/// A write takes the set-user-id and set-group-id bits.
pub(crate) const WRITE_KILL_PRIVILEGE: u32 = 4;

/// Length of the kernel's form of attributes, and of an entry.
pub(crate) const ATTRIBUTES: usize = 88;
pub(crate) const ENTRY: usize = 40 + ATTRIBUTES;
