//! What the pipelines of a session share: its user, what it has open, and what it has moved.

use crate::audit::Pace;
use crate::authorise::CurrentAuthority;
use crate::files::{OpenFiles, SessionFiles};
use crate::log::{FirstFailure, Log};
use crate::mailbox::ListenerSender;
use crate::rates::{SessionRates, UserRates};
use crate::reply_cache::{ReplyCache, ReplyCaches};
use crate::traffic::Traffic;
use crate::transfer_slots::TransferSlots;
use crate::watches::SessionWatches;
use std::sync::atomic::AtomicU64;
use std::sync::{Arc, OnceLock};
use xdfs_proto::base::{Level, SessionId, Timestamp};
use xdfs_secure::policy::Principal;

/// What all sessions of a server share.
pub(crate) struct Services {
    /// The access rules: the only way to a file.
    pub authority: CurrentAuthority,
    /// The receiver of log events.
    pub log: Log,
    /// What users have added to the audit log.
    pub audit_pace: Pace,
    /// The open files of all sessions.
    pub files: Arc<OpenFiles>,
    /// The transfers of all sessions.
    pub transfers: Arc<TransferSlots>,
    /// The bandwidth of each user.
    pub rates: UserRates,
    /// Replies of batches that may be repeated in another session.
    pub reply_caches: ReplyCaches,
    /// Sends messages to the listener.
    pub listener: ListenerSender,
}

/// One session, as its pipelines and their batches know it.
pub(crate) struct SessionContext {
    /// Its id.
    pub id: SessionId,
    /// The user of the session.
    pub principal: Arc<Principal>,
    /// When the session was opened, by the clock of files, however often its pipelines restart.
    pub since: Timestamp,
    /// The user whose limits the session counts against: the name of its
    /// [`Budget`](xdfs_secure::policy::Budget).
    pub budget: Arc<str>,
    /// The lowest level of every transfer of the session.
    pub floor: Level,
    /// What it does and did.
    pub metrics: Metrics,
    /// Batches that may be repeated in another session.
    pub reply_cache: Arc<ReplyCache>,
    /// What it has open; closed with the last pipeline.
    pub files: Arc<SessionFiles>,
    /// The names that it watches.
    pub watches: Arc<SessionWatches>,
    /// Its way through the limits of bandwidth.
    pub rates: SessionRates,
    /// What it shares with the other sessions.
    pub services: Arc<Services>,
}

/// What a session does and did.
#[derive(Debug, Default)]
pub(crate) struct Metrics {
    /// What it has moved.
    pub traffic: Traffic,
    /// What failed first.
    pub first_failure: OnceLock<FirstFailure>,
    /// Operations that were completed.
    pub operations: AtomicU64,
    /// Operations in progress.
    pub live: AtomicU64,
    /// Channels that are up, as far as known.
    pub channels: AtomicU64,
}
