//! Error kinds that both ends share. The code is sent in EXCEPTION; the text is for people.

use alloc::string::String;
use core::fmt;

/// Whether a retry can help.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
#[repr(u8)]
pub enum Retry {
    /// The same request will fail again.
    Permanent = 0,
    /// It may succeed a little later (overload, a lost connection).
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
        /// What went wrong, independent of which end noticed it. The numbers are part of the
        /// protocol.
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

            /// Whether a retry can help, unless the sender of the error says otherwise.
            pub const fn retry(self) -> Retry {
                match self { $(Self::$name => Retry::$retry,)* }
            }

            /// The text for people.
            pub const fn text(self) -> &'static str {
                match self { $(Self::$name => $text,)* }
            }
        }
    };
}

kinds! {
    /// The peer violated the protocol.
    Protocol = 1, Permanent, "protocol error";
    /// The service, call, level or option is not offered.
    Unsupported = 2, Permanent, "not offered by the peer";
    /// A negotiated limit would be exceeded.
    LimitExceeded = 3, Permanent, "limit exceeded";
    /// No capacity now (sessions, channels, buffers).
    Busy = 4, Temporary, "busy";
    /// The server is shutting down.
    Draining = 5, Temporary, "server is shutting down";
    /// The session id or grant is not known here.
    SessionUnknown = 6, Permanent, "unknown session or grant";
    /// Both prefaces, repeated inside the handshake, differ from those received.
    Downgrade = 7, Permanent, "the opening bytes were altered on the way";
    /// All channels were lost.
    ConnectionLost = 8, Temporary, "connection lost";
    /// A deadline passed.
    TimedOut = 9, Temporary, "timed out";
    /// It was cancelled on request.
    Cancelled = 10, Permanent, "cancelled";
    /// An export, user or level policy forbids it.
    Refused = 11, Permanent, "refused by policy";
    /// None of the offered logins was accepted.
    LoginRefused = 12, Permanent, "login refused";
    /// No such file, directory or export.
    NotFound = 20, Permanent, "no such file or directory";
    /// The file system denies access.
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
    /// Another session continues this transfer: further writes of this one would conflict with it.
    Superseded = 35, Permanent, "another session took the transfer over";
    /// What arrived, or what was read back, is not what was sent, and sending it again did not
    /// help.
    Corrupted = 36, Permanent, "content differs";
    /// Another writer created or replaced the target since the copy began.
    TargetChanged = 37, Permanent, "target changed since the copy began";
    /// The directory to be removed is not empty.
    NotEmpty = 38, Permanent, "directory not empty";
    /// A call before it in its batch failed, or the batch was cancelled.
    NotTried = 39, Permanent, "not tried";
    /// The calls may have been executed: the server does not remember the batch, which was sent
    /// before the server's memory begins.
    UnknownOutcome = 40, Permanent, "outcome unknown; look before you repeat it";
    /// The handle is not open here, or its file was removed, replaced or renamed.
    Stale = 41, Permanent, "stale file handle";
    /// Another handle or lock excludes it.
    Locked = 42, Temporary, "locked by somebody else";
    /// A bug of the program that reports it, or of what calls its functions; never a fault of the other end.
    Internal = 43, Permanent, "internal error";
}

impl ErrorKind {
    /// Whether a transfer that ends with this error leaves what arrived for the next attempt. Not
    /// if the bytes may be wrong: a source that changed, storage that failed, a peer that
    /// misbehaves.
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

/// An error as it is displayed, logged and sent: its kind, whether to retry, and what happened to
/// which object.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub struct Error {
    /// What went wrong.
    pub kind: ErrorKind,
    /// Whether a retry can help.
    pub retry: Retry,
    /// The operating system's errno, 0 if there is none. Informative: numbers differ between
    /// systems.
    pub errno: u16,
    /// An [`ErrorKind::Internal`] that the other end said of itself. The other kinds are independent of which end
    /// noticed them.
    pub of_peer: bool,
    /// What happened to which object; escaped, at most [`Error::MESSAGE_BYTES_MAX`] bytes on the
    /// wire.
    pub message: String,
}

impl Error {
    /// Longest message that is sent or accepted, in bytes.
    pub const MESSAGE_BYTES_MAX: usize = 1024;

    /// An error of `kind` with this message.
    pub fn new(kind: ErrorKind, message: impl Into<String>) -> Self {
        Self { kind, retry: kind.retry(), errno: 0, of_peer: false, message: message.into() }
    }

    /// An error that this program is to blame for: a state that it never reaches, whatever its peer and the world do. Where
    /// assertions are checked it stops there; elsewhere the operation fails and nothing else does.
    #[track_caller]
    pub fn internal(message: impl Into<String>) -> Self {
        let message = message.into();
        debug_assert!(false, "internal error: {message}");
        Self::new(ErrorKind::Internal, message)
    }

    /// The part of the message that is sent.
    pub fn short_message(&self) -> &str {
        let mut cut = self.message.len().min(Self::MESSAGE_BYTES_MAX);
        while !self.message.is_char_boundary(cut) {
            cut -= 1;
        }
        &self.message[..cut]
    }

    /// Truncates the message to the part that is sent.
    pub fn shorten(&mut self) {
        if self.message.len() > Self::MESSAGE_BYTES_MAX {
            self.message = self.short_message().into();
        }
    }

    /// The same error, as the other end reported it.
    pub fn reported(mut self) -> Self {
        self.of_peer = self.kind == ErrorKind::Internal;
        self
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
