//! Events for an administrator. Names from the wire are escaped before they get here.

use crate::traffic::Moved;
use std::fmt;
use std::sync::Arc;
use std::time::Duration;
use xdfs_proto::base::{Error, Safety, SessionId};
use xdfs_proto::wire::path::{Call, Code};
use xdfs_secure::policy::{Fingerprint, Method};

/// Receives log events; called from several threads, must not block for long. Returns by how many
/// bytes the log grew if that growth is limited: the user of the event then waits before the next
/// calls if these are many.
pub type Log = Arc<dyn Fn(&LogEvent) -> usize + Send + Sync>;

/// Longest name in a line for people; the audit log has more of it.
const NAME_CHARACTERS_MAX: usize = 256;

/// One event.
#[derive(Clone, PartialEq, Eq, Debug)]
#[allow(missing_docs, reason = "the line above each variant explains its fields")]
pub enum LogEvent {
    /// `user` opened a session from `peer`, with the channels that were granted and requested;
    /// `key` authenticated the user.
    SessionOpened {
        session: SessionId,
        peer: String,
        user: String,
        method: Method,
        key: Option<Fingerprint>,
        channels: u16,
        asked: u16,
        pipelines: u8,
    },
    /// A session ended, cleanly or with an error, what it moved, and what failed first. Its client
    /// `left` by itself where it was dropped, or closed its connections.
    SessionEnded {
        session: SessionId,
        user: String,
        peer: String,
        lasted: Duration,
        moved: Moved,
        first_failure: Option<FirstFailure>,
        error: Option<String>,
        left: bool,
    },
    /// A login failed: the claimed user, the method, and the reason.
    LoginFailed { peer: String, user: String, method: Option<Method>, key: Option<Fingerprint>, error: String },
    /// A connection was refused or disconnected before it belonged to a session; or its client `left`
    /// by itself, as one does whose user does not trust the key, or let its time pass.
    GuestRefused { peer: String, error: String, left: bool },
    /// A channel was lost; its session continues, or is `closing` and needs it no more; or its client
    /// `left` it.
    ChannelLost { session: SessionId, channel: u16, error: String, closing: bool, left: bool },
    /// A transfer ended. For an upload: how durable it is, and whether the target existed already.
    Transfer {
        session: SessionId,
        user: String,
        operation: u32,
        upload: bool,
        name: LoggedName,
        bytes: u64,
        level: &'static str,
        safety: Option<Safety>,
        unchanged: bool,
        error: Option<String>,
    },
    /// A batch of calls ended: the calls that changed something, read a file or were refused and how
    /// durable the changes are, or why none was executed.
    Calls {
        session: SessionId,
        user: String,
        operation: u32,
        base: LoggedName,
        calls: Vec<CallLine>,
        safety: Option<Safety>,
        error: Option<String>,
    },
    /// Limits that took effect since the last report, and refusals that were not logged one by one.
    Limits { drops: Vec<(&'static str, u64)>, untold: u64 },
    /// State of the server, one line each, on request.
    Status { lines: Vec<String> },
    /// The server listens at `address`.
    Started { address: String },
    /// Another process has taken over the listener; this one ends when this many sessions are over.
    Retired { sessions: usize },
    /// The configuration was reloaded and is in effect, or the error if it is not.
    Reloaded { error: Option<String> },
    /// What earlier servers left: part files that can be resumed, their bytes, others, and those
    /// that were removed because they were too old.
    Recovered { parts: u64, bytes: u64, others: u64, expired: u64 },
    /// Something about the directory of an export that an administrator should know.
    Notice { export: String, text: String },
    /// The site's certificate expires soon at `until` (UTC), or has expired (`out`) and is still
    /// presented: clients that verify it refuse.
    Certificate { until: String, out: bool },
    /// The server takes no new connections and waits for this many sessions.
    Draining { sessions: usize },
}

/// The first upload, download or call of a session that failed.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct FirstFailure {
    /// The name of the call, or of the kind of operation.
    pub call: &'static str,
    /// Export and path.
    pub path: LoggedName,
    /// The reason.
    pub error: String,
}

/// One call, as it is logged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct CallLine {
    /// The name of the call.
    pub call: &'static str,
    /// Its path below the base.
    pub path: LoggedName,
    /// The second path, for calls that have one.
    pub to: Option<LoggedName>,
    /// Bytes of a small file.
    pub bytes: Option<u64>,
    /// The file existed already.
    pub unchanged: bool,
    /// The error if it failed.
    pub error: Option<Error>,
}

/// A name as it was sent: most are never displayed, and those that are get escaped.
#[derive(Clone, PartialEq, Eq, Debug)]
pub struct LoggedName(Vec<u8>);

impl From<&[u8]> for LoggedName {
    fn from(name: &[u8]) -> Self {
        Self(name.to_vec())
    }
}

impl LoggedName {
    /// As it was sent.
    pub fn as_bytes(&self) -> &[u8] {
        &self.0
    }

    /// The name of something below this one.
    fn join(&self, path: &Self) -> Self {
        match (self.0.is_empty(), path.0.is_empty()) {
            (_, true) => self.clone(),
            (true, _) => path.clone(),
            _ => Self([&self.0[..], b"/", &path.0].concat()),
        }
    }

    /// For a line for people: a path may have 32 KiB, and the message follows it.
    pub(crate) fn short(&self) -> String {
        let start = self.0.get(..NAME_CHARACTERS_MAX);
        start.map_or_else(|| self.to_string(), |start| format!("{}...", start.escape_ascii()))
    }
}

impl fmt::Display for LoggedName {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{}", self.0.escape_ascii())
    }
}

impl FirstFailure {
    /// That of a batch below `base`: the batch as a whole, or the first of its calls that failed.
    pub(crate) fn of_batch(base: &LoggedName, calls: &[CallLine], error: Option<&Error>) -> Option<Self> {
        let of = |call, path, error: &Error| Self { call, path, error: error.to_string() };
        match error {
            Some(error) => Some(of("batch", base.clone(), error)),
            None => calls.iter().find_map(|call| Some(of(call.call, base.join(&call.path), call.error.as_ref()?))),
        }
    }
}

impl CallLine {
    /// A call and its outcome: on success, whether the target existed already.
    pub(crate) fn of(call: &Call<'_>, outcome: Result<&bool, &Error>) -> Self {
        Self {
            call: Code::from_number(call.code()).map_or("unknown", Code::name),
            path: call.path().into(),
            to: match call {
                Call::Rename { to, .. } | Call::Link { to, .. } | Call::Symlink { target: to, .. } => {
                    Some((*to).into())
                }
                _ => None,
            },
            bytes: match call {
                Call::Put(put) => Some(put.content.len() as u64),
                _ => None,
            },
            unchanged: outcome == Ok(&true),
            error: outcome.err().cloned(),
        }
    }
}
