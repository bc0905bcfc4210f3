//! Kinds of failure, as both ends name them. The code travels in EXCEPTION; the text is for a person.

use alloc::string::String;
use core::fmt;

/// Whether trying again can help.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Retry {
    /// The same request will fail again.
    Permanent = 0,
    /// It may pass a little later (overload, a lost connection).
    Temporary = 1,
    /// It was retried already and kept failing.
    Persistent = 2,
}

impl Retry {
    /// The retry kind of a wire code; an unknown one is permanent.
    pub const fn from_code(code: u8) -> Self {
        match code {
            1 => Self::Temporary,
            2 => Self::Persistent,
            _ => Self::Permanent,
        }
    }
}

macro_rules! kinds {
    ($($(#[$doc:meta])* $name:ident = $code:literal, $retry:ident, $text:literal;)*) => {
        /// What went wrong, independent of who noticed it. The numbers are part of the protocol.
        #[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
        #[repr(u16)]
        #[non_exhaustive]
        pub enum ErrorKind { $($(#[$doc])* $name = $code,)* }

        impl ErrorKind {
            /// Every kind, in the order of its code.
            pub const ALL: &'static [ErrorKind] = &[$(Self::$name,)*];

            /// The kind of a wire code; none for a code of a later version.
            pub const fn from_code(code: u16) -> Option<Self> {
                match code { $($code => Some(Self::$name),)* _ => None }
            }

            /// Whether trying again can help, unless the sender of the error says otherwise.
            pub const fn retry(self) -> Retry {
                match self { $(Self::$name => Retry::$retry,)* }
            }

            /// The words for a person.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// The peer broke the protocol.
    Protocol = 1, Permanent, "protocol error";
    /// The service, call, level or option is not offered.
    Unsupported = 2, Permanent, "not offered by the peer";
    /// A negotiated limit would be passed.
    LimitExceeded = 3, Permanent, "limit exceeded";
    /// No room now (sessions, channels, buffers).
    Busy = 4, Temporary, "busy";
    /// The server is going down.
    Draining = 5, Temporary, "server is shutting down";
    /// The session id or grant is not known here.
    SessionUnknown = 6, Permanent, "unknown session or grant";
    /// Both prefaces, repeated inside the handshake, differ from those received.
    Downgrade = 7, Permanent, "the opening bytes were altered on the way";
    /// All channels were lost.
    ConnectionLost = 8, Temporary, "connection lost";
    /// A deadline passed.
    TimedOut = 9, Temporary, "timed out";
    /// Somebody asked for it.
    Cancelled = 10, Permanent, "cancelled";
    /// An export, user or level policy forbids it.
    Refused = 11, Permanent, "refused by policy";
    /// None of the logins that were offered was taken.
    LoginRefused = 12, Permanent, "login refused";
    /// No such file, directory or export.
    NotFound = 20, Permanent, "no such file or directory";
    /// The file system refuses.
    PermissionDenied = 21, Permanent, "permission denied";
    /// The target exists and may not be replaced.
    AlreadyExists = 22, Permanent, "already exists";
    /// A directory stands where a file is needed.
    IsDirectory = 23, Permanent, "is a directory";
    /// A parent is no directory.
    NotDirectory = 24, Permanent, "not a directory";
    /// A FIFO, device, socket or symbolic link where a regular file is needed.
    NotRegular = 25, Permanent, "not a regular file";
    /// The path is malformed.
    InvalidPath = 26, Permanent, "invalid path";
    /// Disk full.
    NoSpace = 27, Permanent, "no space left on device";
    /// Quota used up.
    QuotaExceeded = 28, Permanent, "disk quota exceeded";
    /// Larger than the file system or the export allows.
    TooLarge = 29, Permanent, "file too large";
    /// Mounted or exported read-only.
    ReadOnly = 30, Permanent, "read-only";
    /// The source grew, shrank or was replaced while it was read.
    SourceChanged = 31, Permanent, "source changed while it was read";
    /// The requested range lies outside the source.
    OutOfRange = 32, Permanent, "range outside the file";
    /// Any other error of the storage.
    Storage = 33, Permanent, "storage error";
    /// Too many open files or no memory.
    Resources = 34, Temporary, "out of descriptors or memory";
    /// Another session goes on with this transfer: what this one still wrote would be in its way.
    Superseded = 35, Permanent, "another session took the transfer over";
    /// What arrived, or what was read back, is not what was sent, and sending it again did not help.
    Corrupted = 36, Permanent, "content differs";
    /// Somebody else put something under the target's name since the copy began.
    TargetChanged = 37, Permanent, "target changed since the copy began";
    /// The directory is to go and is not empty.
    NotEmpty = 38, Permanent, "directory not empty";
    /// A call before it in its batch failed, or the batch was cancelled.
    NotTried = 39, Permanent, "not tried";
    /// The calls may have been done: the server does not remember the batch, and it came before the server can.
    UnknownOutcome = 40, Permanent, "outcome unknown; look before you repeat it";
}

impl ErrorKind {
    /// Whether a transfer that ends so leaves what arrived for the next attempt. Not where the bytes may be wrong: a source
    /// that changed, storage that failed, a peer that misbehaves.
    pub const fn leaves_part(self) -> bool {
        matches!(
            self,
            Self::ConnectionLost
                | Self::TimedOut
                | Self::Cancelled
                | Self::Busy
                | Self::Draining
                | Self::NoSpace
                | Self::QuotaExceeded
                | Self::Resources
        )
    }
}

/// One error, as it is shown, logged and sent: kind, whether to try again, and what happened to what.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Whether trying again can help.
    pub retry: Retry,
    /// The operating system's number, 0 when there is none. Informative: numbers differ between systems.
    pub errno: u16,
    /// What happened, to which thing; escaped, at most [`Error::MESSAGE_BYTES_MAX`] bytes on the wire.
    pub message: String,
}

impl Error {
    /// Longest message that is sent or accepted, in bytes.
    pub const MESSAGE_BYTES_MAX: usize = 1024;

    /// An error of `kind` that says `message`.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, retry: kind.retry(), errno: 0, message: message.into() }
    }

    /// As much of the message as is sent.
    pub fn short_message(&self) -> &str {
        let mut cut = self.message.len().min(Self::MESSAGE_BYTES_MAX);
        while !self.message.is_char_boundary(cut) {
            cut -= 1;
        }
        &self.message[..cut]
    }

    /// Keeps no more of the message than is sent.
    pub fn shorten(&mut self) {
        if self.message.len() > Self::MESSAGE_BYTES_MAX {
            self.message = self.short_message().into();
        }
    }

    /// The same error with the operating system's number.
    pub fn with_errno(mut self, errno: u16) -> Self {
        self.errno = errno;
        self
    }
}

impl fmt::Display for Error {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.message.is_empty() { f.write_str(self.kind.text()) } else { f.write_str(&self.message) }
    }
}

impl core::error::Error for Error {}
