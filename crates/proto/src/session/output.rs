//! What the session wants done, in the order in which it wants it.

use super::group::PipelineMessage;
use super::operation::Committed;
use super::verify::ContentDigest;
use crate::base::{ChannelId, Error, Extent, Level, OperationId, PipelineId};
use crate::wire::Head;
use crate::wire::control::{ChannelGrant, Grant};
use crate::wire::request::Request;
use alloc::vec::Vec;

/// What follows a head.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
pub enum Payload {
    /// A control message or a request.
    Control(Vec<u8>),
    /// The operation's batch (with REQUEST) or reply, which the driver holds.
    Calls,
    /// A range of the operation's source, counted from byte 0 of the transfer.
    Block(Extent),
}

/// One wish of the session. See [`super::Session::poll`].
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum Output {
    /// Seal the record and send it; then call `on_sent`.
    Send { channel: ChannelId, head: Head, payload: Payload },
    /// A download was asked for: open the source; then call `on_opened`. (Server.)
    Open { operation: OperationId, request: Request },
    /// Prepare the target; then call `on_staged`. An upload names it by its request, a download was asked for by us.
    Stage { operation: OperationId, request: Option<Request>, grant: Option<Grant> },
    /// Every block went out: look whether the source is still what it was; then call `on_checked`.
    Check { operation: OperationId },
    /// The content is hashed: of what this pipeline moves, `range` (open-ended where it is none), all but what is `kept`, and that
    /// too where it is in `doubt`, `blinded` on both sides where that was agreed on, which the coordinator hears. `kept` is told to the coordinator for the whole transfer. Said before the first block.
    Hash {
        operation: OperationId,
        length: Option<u64>,
        range: Option<Extent>,
        kept: Vec<Extent>,
        unverified: bool,
        blinded: bool,
        level: Level,
    },
    /// Everything is written: compare it with what was sent, from what arrived or from what storage gives back; then call
    /// `on_verified`.
    Verify { operation: OperationId, length: u64, reread: bool, sent: ContentDigest },
    /// These ranges go once more: their hashes are void. The sender reads and hashes them itself, whatever the route was.
    Again { operation: OperationId, ranges: Vec<Extent> },
    /// Give the target its name, by the plan of [`crate::base::commit`]; then call `on_committed`.
    Commit { operation: OperationId, length: u64, durable: bool },
    /// A batch came on this channel, behind those that came on it before: do its calls; then call `on_answered`. (Server.)
    Execute { operation: OperationId, channel: ChannelId },
    /// Nothing will be told about these calls again: what is held of them may go.
    Forget { operation: OperationId },
    /// Drop stage or source: the operation failed here. `keep` leaves what arrived for the next attempt, where storage can. Of an
    /// operation of calls: begin none of those that were not begun; `on_answered` is still called.
    Abort { operation: OperationId, keep: bool },
    /// Stop using the channel and close its socket. `error` is none after an orderly end.
    Close { channel: ChannelId, error: Option<Error> },
    /// A head that was parked can be judged now.
    Resume { channel: ChannelId },
    /// Hand this to another pipeline of this side.
    Group { to: PipelineId, message: PipelineMessage },
    /// Tell the application.
    Event(SessionEvent),
}

/// What an application wants to know.
#[derive(Clone, PartialEq, Eq, Hash, Debug)]
#[allow(missing_docs, reason = "the variant's line names its fields")]
pub enum SessionEvent {
    /// The other end answered the request.
    Granted { operation: OperationId, grant: Grant },
    /// The outcome is known here. Nothing will be asked or told about the operation after this.
    Settled { operation: OperationId, outcome: Result<Committed, Error> },
    /// The other end has all blocks below this offset: a source that is read in order may forget them.
    Acknowledged { operation: OperationId, below: u64 },
    /// The peer wants more channels. (Server: answer with `give_channels`.)
    ChannelsWanted { count: u16 },
    /// More channels may join. (Client.)
    ChannelsGranted(ChannelGrant),
    /// A channel was lost; the others go on.
    ChannelLost { channel: ChannelId, error: Error },
    /// The server goes down. A session of several pipelines is to be closed when all its operations are over.
    Draining { retry_after_ms: u32 },
    /// No channel is left. None after an orderly end.
    Over { error: Option<Error> },
}
