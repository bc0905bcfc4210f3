//! Answers to the kernel, encoded.

use super::abi;
use super::request::lifetime;
use bytes::Bytes;
use std::time::Duration;
use xdfs_client::Timestamp;

/// What a file is, as `stat` shows it.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Attributes {
    pub(crate) inode: u64,
    pub(crate) size: u64,
    pub(crate) allocated: u64,
    pub(crate) accessed: Timestamp,
    pub(crate) modified: Timestamp,
    pub(crate) changed: Timestamp,
    /// With the type.
    pub(crate) mode: u32,
    pub(crate) links: u32,
    pub(crate) owner: (u32, u32),
    pub(crate) device: u32,
}

/// An inode that was looked up.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Entry {
    pub(crate) id: u64,
    pub(crate) attributes: Attributes,
    /// How long name and attributes may be used.
    pub(crate) valid: Duration,
}

/// Space of a file system.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct FileSystemFacts {
    pub(crate) block: u32,
    pub(crate) blocks: u64,
    pub(crate) free: u64,
    pub(crate) available: u64,
    pub(crate) files: u64,
    pub(crate) files_free: u64,
}

/// The bytes that were read of a file are newer than attributes of it may be that were told before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Newer {
    pub(crate) inode: u64,
    pub(crate) handle: u64,
    /// The change number that came with the bytes.
    pub(crate) change: u64,
}

/// What a call answers.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Answer {
    Done,
    Entry(Entry),
    Attributes(Attributes, Duration),
    Opened {
        handle: u64,
        flags: u32,
        /// The inode, if the kernel may have attributes of it that are old.
        changed: Option<u64>,
    },
    /// Directories have numbers of their own.
    OpenedDirectory {
        handle: u64,
    },
    Created {
        entry: Entry,
        handle: u64,
        flags: u32,
    },
    Data(Bytes),
    /// Bytes of a file.
    Read {
        bytes: Bytes,
        /// If the kernel may have attributes that are older than the bytes.
        newer: Option<Newer>,
    },
    /// Entries, and the inodes that were looked up for them.
    Directory(DirectoryBuffer),
    Written(u32),
    /// The length of an attribute.
    Size(u32),
    Offset(u64),
    /// A lock that is in the way: its first and last byte, and its kind.
    Lock {
        start: u64,
        end: u64,
        kind: u32,
    },
    FileSystem(FileSystemFacts),
    /// A lock was gained: what the kernel keeps of this inode may be older than what the last one who had
    /// it wrote.
    Locked {
        inode: u64,
    },
}

/// Fields in the order of the structures.
#[derive(Default)]
struct Fields(Vec<u8>);

impl Fields {
    fn u32(&mut self, value: u32) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn u64(&mut self, value: u64) -> &mut Self {
        self.0.extend(value.to_ne_bytes());
        self
    }

    fn attributes(&mut self, told: &Attributes) -> &mut Self {
        let times = [told.accessed, told.modified, told.changed];
        self.u64(told.inode).u64(told.size).u64(told.allocated.div_ceil(512));
        for time in times {
            self.u64(time.seconds.cast_unsigned());
        }
        for time in times {
            self.u32(time.nanoseconds);
        }
        self.u32(told.mode).u32(told.links).u32(told.owner.0).u32(told.owner.1).u32(told.device);
        // The preferred length of a read, and no flags.
        self.u32(128 << 10).u32(0)
    }

    fn entry(&mut self, entry: &Entry) -> &mut Self {
        let (seconds, nanoseconds) = lifetime(entry.valid);
        // No number is given twice: generation 0.
        self.u64(entry.id).u64(0).u64(seconds).u64(seconds).u32(nanoseconds).u32(nanoseconds);
        self.attributes(&entry.attributes)
    }
}

impl Answer {
    /// The bytes behind the head: fields, and data that follows them.
    pub(super) fn encode(&self) -> (Vec<u8>, Option<&[u8]>) {
        let mut fields = Fields::default();
        match self {
            Self::Done | Self::Locked { .. } => {}
            Self::Entry(entry) => drop(fields.entry(entry)),
            Self::Attributes(attributes, valid) => {
                let (seconds, nanoseconds) = lifetime(*valid);
                fields.u64(seconds).u32(nanoseconds).u32(0).attributes(attributes);
            }
            Self::Opened { handle, flags, .. } => drop(fields.u64(*handle).u32(*flags).u32(0)),
            Self::OpenedDirectory { handle } => drop(fields.u64(*handle).u32(0).u32(0)),
            Self::Created { entry, handle, flags } => drop(fields.entry(entry).u64(*handle).u32(*flags).u32(0)),
            Self::Data(data) | Self::Read { bytes: data, .. } => return (Vec::new(), Some(data)),
            Self::Directory(buffer) => return (Vec::new(), Some(&buffer.bytes)),
            Self::Written(size) | Self::Size(size) => drop(fields.u32(*size).u32(0)),
            Self::Offset(offset) => drop(fields.u64(*offset)),
            // Whose it is nobody knows here.
            Self::Lock { start, end, kind } => drop(fields.u64(*start).u64(*end).u32(*kind).u32(0)),
            Self::FileSystem(told) => {
                fields.u64(told.blocks).u64(told.free).u64(told.available).u64(told.files).u64(told.files_free);
                fields.u32(told.block).u32(255).u32(told.block);
                fields.0.resize(80, 0);
            }
        }
        (fields.0, None)
    }
}

/// Entries of a directory, as long as they fit into what the kernel asked for.
#[derive(Clone, PartialEq, Eq, Debug, Default)]
pub(crate) struct DirectoryBuffer {
    bytes: Vec<u8>,
    most: usize,
    /// Inodes that the kernel is told of, and will forget.
    pub(crate) looked_up: Vec<u64>,
}

impl DirectoryBuffer {
    pub(crate) fn new(most: u32) -> Self {
        Self { bytes: Vec::new(), most: most as usize, looked_up: Vec::new() }
    }

    /// Whether nothing was appended: the end of the directory.
    pub(crate) fn is_empty(&self) -> bool {
        self.bytes.is_empty()
    }

    /// Whether an entry of this name still fits.
    pub(crate) fn fits(&self, name: &[u8], plus: bool) -> bool {
        let head = if plus { abi::ENTRY } else { 0 };
        self.bytes.len() + (head + 24 + name.len()).next_multiple_of(8) <= self.most
    }

    /// Appends an entry; `next` is the offset behind it. With `plus` its attributes come with it,
    /// except where there is no entry.
    pub(crate) fn push(&mut self, name: &[u8], next: u64, inode: u64, kind: u32, plus: Option<Option<&Entry>>) {
        let mut fields = Fields(std::mem::take(&mut self.bytes));
        match plus {
            Some(Some(entry)) => {
                fields.entry(entry);
                self.looked_up.push(entry.id);
            }
            Some(None) => fields.0.extend([0; abi::ENTRY]),
            None => {}
        }
        // At most 255: fits.
        fields.u64(inode).u64(next).u32(name.len() as u32).u32(kind >> 12);
        self.bytes = fields.0;
        self.bytes.extend(name);
        self.bytes.resize(self.bytes.len().next_multiple_of(8), 0);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const ATTRIBUTES: Attributes = Attributes {
        inode: 5,
        size: 1000,
        allocated: 4096,
        accessed: Timestamp::new(1, 2),
        modified: Timestamp::new(-3, 4),
        changed: Timestamp::new(5, 6),
        mode: 0o100_644,
        links: 1,
        owner: (1000, 1000),
        device: 0,
    };

    #[test]
    fn answers_have_the_lengths_of_the_kernels_structures() {
        let entry = Entry { id: 9, attributes: ATTRIBUTES, valid: Duration::from_millis(1500) };
        let length = |answer: &Answer| answer.encode().0.len();
        assert_eq!(length(&Answer::Entry(entry)), abi::ENTRY);
        assert_eq!(length(&Answer::Attributes(ATTRIBUTES, Duration::ZERO)), 16 + abi::ATTRIBUTES);
        assert_eq!(length(&Answer::Created { entry, handle: 1, flags: 0 }), abi::ENTRY + 16);
        assert_eq!(length(&Answer::Written(5)), 8);
        let (block, blocks, free, available, files, files_free) = (4096, 1, 1, 1, 1, 1);
        let space = FileSystemFacts { block, blocks, free, available, files, files_free };
        assert_eq!(length(&Answer::FileSystem(space)), 80);
    }

    #[test]
    fn entries_end_where_the_kernels_buffer_does() {
        let entry = Entry { id: 9, attributes: ATTRIBUTES, valid: Duration::ZERO };
        let mut buffer = DirectoryBuffer::new(400);
        let mut count = 0;
        while buffer.fits(b"name", true) {
            count += 1;
            buffer.push(b"name", count, 5, 0o100_000, Some(Some(&entry)));
        }
        assert_eq!((count, buffer.bytes.len()), (2, 320));
        assert_eq!(buffer.looked_up, [9, 9]);
        assert_eq!(buffer.bytes.len() % 8, 0);
    }
}
