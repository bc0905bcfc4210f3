//! Outputs of the session, in the order in which they must be carried out.

use super::content_digest::ContentDigest;
use super::coordination::PipelineMessage;
use super::operation::Committed;
use crate::base::{ChannelId, Error, Extent, Level, OperationId, PipelineId};
use crate::wire::Head;
use crate::wire::control::{ChannelGrant, Grant};
use crate::wire::notice::Notice;
use crate::wire::request::Request;
use alloc::vec::Vec;

/// The payload that follows a head.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Payload {
    /// A control message or a request.
    Control(Vec<u8>),
    /// The operation's batch (with REQUEST) or reply, which the driver holds.
    Calls,
    /// A range of the operation's source, counted from byte 0 of the transfer.
    Block(Extent),
}

/// One output of the session. See [`super::Session::poll`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum Output {
    /// Seal the record and send it; then call `on_sent`.
    Send { channel: ChannelId, head: Head, payload: Payload },
    /// A download was requested: open the source; then call `on_opened`. (Server.)
    Open { operation: OperationId, request: Request },
    /// Prepare the target, which is named by the request of an upload or by this end's own request
    /// for a download; then call `on_staged`.
    Stage { operation: OperationId, request: Option<Request>, grant: Option<Grant> },
    /// Every block was sent: check whether the source is unchanged; then call `on_checked`.
    Check { operation: OperationId },
    /// The content is hashed: of what this pipeline moves, `range` (open-ended if it is none),
    /// except what is `kept`; that too if it is `unverified`. The hash is `blinded` on both sides
    /// if that was negotiated, which only the coordinator's output states. The coordinator gets
    /// `kept` for the whole transfer. Emitted before the first block.
    Hash {
        operation: OperationId,
        length: Option<u64>,
        range: Option<Extent>,
        kept: Vec<Extent>,
        unverified: bool,
        blinded: bool,
        level: Level,
    },
    /// Everything is written: compare it with what was sent, from the bytes that arrived or from
    /// what storage reads back; then call `on_verified`.
    Verify { operation: OperationId, length: u64, reread: bool, sent: ContentDigest },
    /// These ranges are sent again: their hashes are void. The sender reads and hashes them itself,
    /// whatever the route was.
    Again { operation: OperationId, ranges: Vec<Extent> },
    /// Rename the target to its final name according to the plan of [`crate::base::commit`]; then
    /// call `on_committed`.
    Commit { operation: OperationId, length: u64, durable: bool },
    /// A batch arrived on this channel, after those that arrived on it before: execute its calls;
    /// then call `on_answered`. (Server.)
    Execute { operation: OperationId, channel: ChannelId },
    /// These calls will not be sent or answered again: whatever is held for them may be released.
    Forget { operation: OperationId },
    /// Drop the stage or source: the operation failed here. `keep` preserves what arrived for the
    /// next attempt if storage can. For an operation of calls: start none of the calls that have
    /// not started; `on_answered` is still called.
    Abort { operation: OperationId, keep: bool },
    /// Stop using the channel and close its socket. `error` is none after an orderly end.
    Close { channel: ChannelId, error: Option<Error> },
    /// A head that was parked can be evaluated now.
    Resume { channel: ChannelId },
    /// Pass this to another pipeline of this side.
    ToPipeline { to: PipelineId, message: PipelineMessage },
    /// Notify the application.
    Event(SessionEvent),
}

/// Events for the application.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum SessionEvent {
    /// The other end answered the request.
    Granted { operation: OperationId, grant: Grant },
    /// The outcome is known here. Nothing more will be sent or received about the operation.
    Settled { operation: OperationId, outcome: Result<Committed, Error> },
    /// The other end has all blocks below this offset: a source that is read in order may discard
    /// them.
    Acknowledged { operation: OperationId, below: u64 },
    /// The peer requests more channels. (Server: reply with `give_channels`.)
    ChannelsWanted { count: u16 },
    /// More channels may join. (Client.)
    ChannelsGranted(ChannelGrant),
    /// A channel was lost; the others continue.
    ChannelLost { channel: ChannelId, error: Error },
    /// The server shuts down. A session of several pipelines must be closed when all its operations
    /// are over.
    Draining { retry_after_ms: u32 },
    /// Somebody waits for the end of the leases of these handles. (Client.)
    Recalled { handles: Vec<u64> },
    /// Names that this client watches have changed. (Client.)
    Noticed { notices: Vec<Notice> },
    /// No channel is left. None after an orderly end.
    Over { error: Option<Error> },
}
