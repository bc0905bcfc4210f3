//! Attributes of a name. Each field is present if it was requested and is known.

use super::super::codec::{INTEGER_MAX, Reader, WireError, Writer};
use super::super::times::{read_time, write_time};
use super::{mode, number};
use crate::base::Timestamp;
use crate::limits;

/// The type of a file.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum FileType {
    /// A regular file.
    Regular = 1,
    /// A directory.
    Directory = 2,
    /// A type without a number here.
    Other = 3,
    /// A symbolic link.
    Symlink = 4,
    /// A named pipe.
    Fifo = 5,
    /// A socket.
    Socket = 6,
    /// A character device.
    CharacterDevice = 7,
    /// A block device.
    BlockDevice = 8,
}

impl FileType {
    /// Every type.
    pub const ALL: [Self; 8] = [
        Self::Regular,
        Self::Directory,
        Self::Other,
        Self::Symlink,
        Self::Fifo,
        Self::Socket,
        Self::CharacterDevice,
        Self::BlockDevice,
    ];

    pub(in super::super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        let code = reader.byte()?;
        Self::ALL.into_iter().find(|kind| *kind as u8 == code).ok_or(WireError::Invalid("file type"))
    }
}

/// A set of attributes: requested or present ones.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Wanted(pub u32);

impl Wanted {
    /// The type alone, which is always present.
    pub const NOTHING: Self = Self(0);
    /// Permission bits.
    pub const MODE: Self = Self(1);
    /// Size in bytes.
    pub const SIZE: Self = Self(2);
    /// Modification time.
    pub const MODIFIED: Self = Self(4);
    /// Time of the last access.
    pub const ACCESSED: Self = Self(8);
    /// Number of hard links.
    pub const LINKS: Self = Self(16);
    /// Which file it is, for hard links.
    pub const INODE: Self = Self(32);
    /// Numbers of owner and group.
    pub const OWNER: Self = Self(64);
    /// Names of owner and group.
    pub const NAMES: Self = Self(128);
    /// Numbers of a device.
    pub const DEVICE: Self = Self(256);
    /// Bytes allocated on disk.
    pub const ALLOCATED: Self = Self(512);
    /// Change counter.
    pub const CHANGE: Self = Self(1024);
    /// Version, as a transfer names it.
    pub const VERSION: Self = Self(2048);
    /// Target of a symbolic link.
    pub const TARGET: Self = Self(4096);
    /// Whether there are extended attributes.
    pub const XATTRS: Self = Self(8192);
    /// What may be set at the server besides content, plain permissions and times.
    pub const KEPT: Self = Self(16_384);
    /// Everything.
    pub const ALL: Self = Self(32_767);

    /// Both sets.
    pub const fn and(self, other: Self) -> Self {
        Self(self.0 | other.0)
    }

    /// All that is not in `other`.
    pub const fn without(self, other: Self) -> Self {
        Self(self.0 & !other.0)
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    /// Upper bound on the encoded size of attributes with at most these fields.
    pub const fn bytes_max(self) -> usize {
        const fn of(wanted: Wanted, bit: Wanted, bytes: usize) -> usize {
            if wanted.has(bit) { bytes } else { 0 }
        }
        // An integer takes at most 8 bytes, the length in front of the strings here at most 2.
        let text = of(self, Self::NAMES, 2 * (2 + limits::USER_BYTES_MAX))
            + of(self, Self::VERSION, 2 + limits::VERSION_BYTES_MAX)
            + of(self, Self::TARGET, 2 + limits::LINK_BYTES_MAX);
        let pairs = [Self::MODIFIED, Self::ACCESSED, Self::INODE, Self::OWNER, Self::DEVICE];
        let single = [Self::MODE, Self::SIZE, Self::LINKS, Self::ALLOCATED, Self::CHANGE];
        let (mut numbers, mut at) = (0, 0);
        while at < pairs.len() {
            numbers += of(self, pairs[at], 16) + of(self, single[at], 8);
            at += 1;
        }
        // The kind, and what is told.
        1 + 8 + numbers + text + of(self, Self::XATTRS, 1) + of(self, Self::KEPT, 8)
    }

    pub(in super::super) fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        // Known bits only: fits.
        reader.flags(Self::ALL.0.into(), "attributes").map(|bits| Self(bits as u32))
    }
}

/// What an export keeps of a file besides its content, its plain permissions and its times.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug, Default)]
pub struct Kept(u32);

impl Kept {
    /// The bits that change whose rights a file runs with, and the sticky bit.
    pub const MODES: Self = Self(1);
    /// Owner and group.
    pub const OWNER: Self = Self(2);
    /// Access control lists.
    pub const ACL: Self = Self(4);
    /// Extended attributes.
    pub const XATTR: Self = Self(8);
    /// Pipes, sockets and devices.
    pub const SPECIAL: Self = Self(16);

    /// With `other` too, if that is so.
    pub const fn with(self, other: Self, is_so: bool) -> Self {
        if is_so { Self(self.0 | other.0) } else { self }
    }

    /// Whether all of `other` is in it.
    pub const fn has(self, other: Self) -> bool {
        self.0 & other.0 == other.0
    }

    fn read(reader: &mut Reader<'_>) -> Result<Self, WireError> {
        // A later version may keep more: that is no reason to understand nothing.
        number(reader, "what is kept").map(Self)
    }
}

/// Attributes of a name. A field that was not requested, is unknown or does not apply is `None`.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub struct Attributes<'a> {
    /// What it is.
    pub kind: FileType,
    /// Permission bits, at most 0o7777.
    pub mode: Option<u32>,
    /// Size in bytes.
    pub size: Option<u64>,
    /// Modification time: seconds and nanoseconds since 1970.
    pub modified: Option<Timestamp>,
    /// Time of the last access.
    pub accessed: Option<Timestamp>,
    /// Number of hard links.
    pub links: Option<u64>,
    /// Equal for two names of one file, and for nothing else at one time.
    pub inode: Option<[u8; 16]>,
    /// Numbers of owner and group.
    pub owner: Option<(u32, u32)>,
    /// Names of owner and group; empty where a number has none.
    pub names: Option<(&'a [u8], &'a [u8])>,
    /// Major and minor number of a device.
    pub device: Option<(u32, u32)>,
    /// Bytes that it takes on its disk.
    pub allocated: Option<u64>,
    /// Another number whenever content or attributes changed.
    pub change: Option<u64>,
    /// The version that GRANT would name.
    pub version: Option<&'a [u8]>,
    /// Where a symbolic link points.
    pub target: Option<&'a [u8]>,
    /// Whether it has extended attributes.
    pub xattrs: Option<bool>,
    /// What may be set there.
    pub kept: Option<Kept>,
}

impl<'a> Attributes<'a> {
    /// Attributes with nothing but the type.
    pub const fn of(kind: FileType) -> Self {
        Self {
            kind,
            mode: None,
            size: None,
            modified: None,
            accessed: None,
            links: None,
            inode: None,
            owner: None,
            names: None,
            device: None,
            allocated: None,
            change: None,
            version: None,
            target: None,
            xattrs: None,
            kept: None,
        }
    }

    /// The set of present fields.
    pub const fn told(&self) -> Wanted {
        const fn bit(there: bool, bit: Wanted) -> u32 {
            if there { bit.0 } else { 0 }
        }
        Wanted(
            bit(self.mode.is_some(), Wanted::MODE)
                | bit(self.size.is_some(), Wanted::SIZE)
                | bit(self.modified.is_some(), Wanted::MODIFIED)
                | bit(self.accessed.is_some(), Wanted::ACCESSED)
                | bit(self.links.is_some(), Wanted::LINKS)
                | bit(self.inode.is_some(), Wanted::INODE)
                | bit(self.owner.is_some(), Wanted::OWNER)
                | bit(self.names.is_some(), Wanted::NAMES)
                | bit(self.device.is_some(), Wanted::DEVICE)
                | bit(self.allocated.is_some(), Wanted::ALLOCATED)
                | bit(self.change.is_some(), Wanted::CHANGE)
                | bit(self.version.is_some(), Wanted::VERSION)
                | bit(self.target.is_some(), Wanted::TARGET)
                | bit(self.xattrs.is_some(), Wanted::XATTRS)
                | bit(self.kept.is_some(), Wanted::KEPT),
        )
    }

    /// Appends them.
    pub fn write(&self, writer: &mut Writer) {
        writer.byte(self.kind as u8).integer(self.told().0.into());
        if let Some(mode) = self.mode {
            writer.integer(mode.into());
        }
        if let Some(size) = self.size {
            // Longer ones cannot be said.
            writer.integer(size.min(INTEGER_MAX));
        }
        for time in [self.modified, self.accessed].into_iter().flatten() {
            write_time(writer, time);
        }
        if let Some(links) = self.links {
            writer.integer(links);
        }
        if let Some(inode) = self.inode {
            writer.raw(&inode);
        }
        if let Some((user, group)) = self.owner {
            writer.integer(user.into()).integer(group.into());
        }
        if let Some((user, group)) = self.names {
            writer.bytes(user).bytes(group);
        }
        if let Some((major, minor)) = self.device {
            writer.integer(major.into()).integer(minor.into());
        }
        if let Some(allocated) = self.allocated {
            writer.integer(allocated);
        }
        if let Some(change) = self.change {
            writer.raw(&change.to_be_bytes());
        }
        for bytes in [self.version, self.target].into_iter().flatten() {
            writer.bytes(bytes);
        }
        if let Some(any) = self.xattrs {
            writer.byte(any.into());
        }
        if let Some(kept) = self.kept {
            writer.integer(kept.0.into());
        }
    }

    /// The inverse of [`Attributes::write`].
    pub fn read(reader: &mut Reader<'a>) -> Result<Self, WireError> {
        let kind = FileType::read(reader)?;
        let told = Wanted::read(reader)?;
        let mut read = Self::of(kind);
        if told.has(Wanted::MODE) {
            read.mode = Some(mode(reader)?);
        }
        if told.has(Wanted::SIZE) {
            read.size = Some(reader.integer()?);
        }
        if told.has(Wanted::MODIFIED) {
            read.modified = Some(read_time(reader)?);
        }
        if told.has(Wanted::ACCESSED) {
            read.accessed = Some(read_time(reader)?);
        }
        if told.has(Wanted::LINKS) {
            read.links = Some(reader.integer()?);
        }
        if told.has(Wanted::INODE) {
            read.inode = Some(reader.array()?);
        }
        if told.has(Wanted::OWNER) {
            read.owner = Some((number(reader, "owner")?, number(reader, "group")?));
        }
        if told.has(Wanted::NAMES) {
            let name = |reader: &mut Reader<'a>| reader.bytes(limits::USER_BYTES_MAX, "name of an owner");
            read.names = Some((name(reader)?, name(reader)?));
        }
        if told.has(Wanted::DEVICE) {
            read.device = Some((number(reader, "device")?, number(reader, "device")?));
        }
        if told.has(Wanted::ALLOCATED) {
            read.allocated = Some(reader.integer()?);
        }
        if told.has(Wanted::CHANGE) {
            read.change = Some(u64::from_be_bytes(reader.array()?));
        }
        if told.has(Wanted::VERSION) {
            read.version = Some(reader.bytes(limits::VERSION_BYTES_MAX, "version")?);
        }
        if told.has(Wanted::TARGET) {
            read.target = Some(reader.bytes(limits::LINK_BYTES_MAX, "target of a link")?);
        }
        if told.has(Wanted::XATTRS) {
            read.xattrs = Some(match reader.byte()? {
                0 => false,
                1 => true,
                _ => return Err(WireError::Invalid("whether there are extended attributes")),
            });
        }
        if told.has(Wanted::KEPT) {
            read.kept = Some(Kept::read(reader)?);
        }
        Ok(read)
    }
}
