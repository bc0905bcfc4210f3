//! How a remote file is opened.

use xdfs_proto::wire::file::{OpenFile, OpenedBefore, OpenedFile};

/// How a remote file is opened; as [`std::fs::OpenOptions`], with what it denies to others.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub struct OpenOptions {
    read: bool,
    write: bool,
    append: bool,
    create: bool,
    create_new: bool,
    truncate: bool,
    deny_read: bool,
    deny_write: bool,
    mode: u32,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self::new()
    }
}

impl OpenOptions {
    /// Nothing is allowed yet.
    pub const fn new() -> Self {
        Self {
            read: false,
            write: false,
            append: false,
            create: false,
            create_new: false,
            truncate: false,
            deny_read: false,
            deny_write: false,
            mode: 0o666,
        }
    }

    /// Open to read.
    pub const fn read(mut self, read: bool) -> Self {
        self.read = read;
        self
    }

    /// Open to write.
    pub const fn write(mut self, write: bool) -> Self {
        self.write = write;
        self
    }

    /// Open to write, and each write goes to the end of the file, wherever that is then.
    pub const fn append(mut self, append: bool) -> Self {
        self.append = append;
        self
    }

    /// Create the file if it is missing.
    pub const fn create(mut self, create: bool) -> Self {
        self.create = create;
        self
    }

    /// Create the file, and fail if it exists.
    pub const fn create_new(mut self, create_new: bool) -> Self {
        self.create_new = create_new;
        self
    }

    /// Cut the file to length 0.
    pub const fn truncate(mut self, truncate: bool) -> Self {
        self.truncate = truncate;
        self
    }

    /// As long as it is open, no other client reads the file, or writes it.
    pub const fn deny(mut self, read: bool, write: bool) -> Self {
        self.deny_read = read;
        self.deny_write = write;
        self
    }

    /// Permission bits of a new file; the server's umask takes some of them.
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode;
        self
    }

    /// What the papers' `FileStream` says in three words: see [the table](super#modes).
    pub const fn stream(mode: FileMode, access: FileAccess, share: FileShare) -> Self {
        let mut options = Self::new();
        (options.read, options.write) = match access {
            FileAccess::Read => (true, false),
            FileAccess::Write => (false, true),
            FileAccess::ReadWrite => (true, true),
        };
        (options.deny_read, options.deny_write) = match share {
            FileShare::None => (true, true),
            FileShare::Read => (false, true),
            FileShare::Write => (true, false),
            FileShare::ReadWrite => (false, false),
        };
        match mode {
            FileMode::Open => options,
            FileMode::OpenOrCreate => options.create(true),
            FileMode::Create => options.create(true).truncate(true),
            FileMode::CreateNew => options.create_new(true),
            FileMode::Truncate => options.truncate(true),
            FileMode::Append => options.create(true).append(true),
        }
    }

    /// Whether each write goes to the end.
    pub(super) const fn appends(&self) -> bool {
        self.append
    }

    /// Whether opening it twice is not the same as opening it once.
    pub(super) const fn is_once(&self) -> bool {
        self.create_new || self.truncate
    }

    /// Whether no other client writes the file meanwhile.
    pub(super) const fn denies_writing(&self) -> bool {
        self.deny_write
    }

    pub(super) fn call<'a>(&self, path: &'a [u8]) -> OpenFile<'a> {
        OpenFile {
            path,
            read: self.read,
            write: self.write || self.append,
            create: self.create || self.create_new,
            exclusive: self.create_new,
            truncate: self.truncate && !self.create_new,
            deny_read: self.deny_read,
            deny_write: self.deny_write,
            mode: self.mode & 0o7777,
            again: None,
            pipe: false,
        }
    }

    /// The same for a file that is opened again.
    pub(super) fn again<'a>(&self, path: &'a [u8], opened: &OpenedFile) -> OpenFile<'a> {
        let (create, exclusive, truncate) = (false, false, false);
        let again = Some(OpenedBefore { identity: opened.identity, handle: opened.handle });
        OpenFile { create, exclusive, truncate, again, ..self.call(path) }
    }
}

/// The papers' `FileMode`: what is done with an existing or missing file.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileMode {
    /// It must be missing.
    CreateNew,
    /// A missing one is created, an existing one cut to length 0.
    Create,
    /// It must exist.
    Open,
    /// A missing one is created.
    OpenOrCreate,
    /// It must exist, and is cut to length 0.
    Truncate,
    /// A missing one is created; everything is written at its end.
    Append,
}

/// The papers' `FileAccess`.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileAccess {
    /// Reading.
    Read,
    /// Writing.
    Write,
    /// Both.
    ReadWrite,
}

/// The papers' `FileShare`: what others may do with it meanwhile.
#[derive(Clone, Copy, PartialEq, Eq, Hash, Debug)]
pub enum FileShare {
    /// Nothing.
    None,
    /// Read it.
    Read,
    /// Write it.
    Write,
    /// Both.
    ReadWrite,
}
