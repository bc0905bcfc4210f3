//! How important an event is, and what it is about: what a reader of the log filters by.

use crate::log::LogEvent;
use xdfs_engine::pump::PEER_CLOSED;
use xdfs_proto::base::{Error, ErrorKind};

/// How important an event is.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Severity {
    /// The server cannot do what it is there for.
    Error,
    /// Somebody was refused, something failed, or needs a look.
    Warning,
    /// What happens in normal operation.
    Info,
    /// Each step of it.
    Debug,
}

impl Severity {
    /// All of them, the most important one first.
    pub const ALL: [Self; 4] = [Self::Error, Self::Warning, Self::Info, Self::Debug];

    /// Its name in the log and in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Error => "error",
            Self::Warning => "warn",
            Self::Info => "info",
            Self::Debug => "debug",
        }
    }
}

/// What an event is about.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Debug)]
pub enum Area {
    /// The server itself: start, reload, limits, certificate.
    Server,
    /// Connections that are not a session yet.
    Login,
    /// Sessions.
    Session,
    /// Uploads and downloads.
    Transfer,
    /// Batches of calls on names and open files.
    Calls,
}

impl Area {
    /// All of them.
    pub const ALL: [Self; 5] = [Self::Server, Self::Login, Self::Session, Self::Transfer, Self::Calls];

    /// Its name in the log and in a filter.
    pub const fn name(self) -> &'static str {
        match self {
            Self::Server => "server",
            Self::Login => "login",
            Self::Session => "session",
            Self::Transfer => "transfer",
            Self::Calls => "calls",
        }
    }
}

/// Whether an error of a session or channel says that its client left: it dropped the session, or closed
/// the connection.
pub(crate) fn has_left(error: &Error) -> bool {
    // In the words of the kernel, which may begin with a capital and have a number behind them.
    let closed = || [PEER_CLOSED, "onnection reset by peer", "roken pipe"];
    match error.kind {
        ErrorKind::Cancelled => true,
        ErrorKind::ConnectionLost => closed().iter().any(|words| error.message.contains(words)),
        _ => false,
    }
}

impl LogEvent {
    /// What it is about.
    pub const fn area(&self) -> Area {
        match self {
            Self::LoginFailed { .. } | Self::GuestRefused { .. } => Area::Login,
            Self::SessionOpened { .. } | Self::SessionEnded { .. } | Self::ChannelLost { .. } => Area::Session,
            Self::Transfer { .. } => Area::Transfer,
            Self::Calls { .. } => Area::Calls,
            _ => Area::Server,
        }
    }

    /// How important it is. The end of a session sums its batches of calls up, so that each alone is
    /// worth a line only to those who look for a fault.
    pub const fn severity(&self) -> Severity {
        match self {
            Self::GuestRefused { left: true, .. } | Self::Calls { error: None, .. } => Severity::Debug,
            Self::ChannelLost { closing: true, .. } => Severity::Debug,
            Self::Recovered { parts: 0, others: 0, expired: 0, .. } => Severity::Debug,
            Self::SessionEnded { error: None, .. } | Self::Transfer { error: None, .. } => Severity::Info,
            // Whoever leaves has their reasons, and no administrator can mend them.
            Self::SessionEnded { left: true, .. } | Self::ChannelLost { left: true, .. } => Severity::Info,
            Self::SessionOpened { .. } | Self::Draining { .. } | Self::Recovered { .. } => Severity::Info,
            Self::Started { .. } | Self::Retired { .. } | Self::Reloaded { error: None } => Severity::Info,
            Self::Certificate { out: true, .. } => Severity::Error,
            Self::Status { .. } => Severity::Info,
            _ => Severity::Warning,
        }
    }
}
