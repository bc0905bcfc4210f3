//! Hashes of transferred content: how they are computed, what waits for them, what is compared
//! (P-62 to P-67).
//!
//! A transfer without a hash costs nothing here except one comparison per block.

use super::storage::busy;
use super::{Host, Pump};
use crate::blocking::Slice;
use crate::bounds;
use crate::host::{Opened, StorageJob};
use crate::mailbox::Message;
use crate::transfer::hashed::{Beside, Hashed, Waiting};
use crate::transfer::hashing::{Hashing, between, leaf, piece_bytes};
use crate::transfer::parallel::{From, ParallelHash, Ranges};
use crate::transfer::stored::StoredCheck;
use crate::transfer::sum::RangeHash;
use crate::transfer::{LongRead, Phase, ReadMode, Reading, Transfer};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::task::Poll;
use xdfs_io::dispatch::Dispatch;
use xdfs_proto::base::{Digest, Error, ErrorKind, Extent, Level, OperationId, PipelineId};
use xdfs_proto::plan;
use xdfs_proto::session::{Comparison, ContentDigest, PipelineMessage, SourceFacts};
use xdfs_proto::wire::request::Request;
use xdfs_secure::content::Leaf;

/// The machine's request to hash the content of an operation.
pub(super) struct HashRequest {
    pub(super) operation: OperationId,
    pub(super) length: Option<u64>,
    /// The range that this pipeline moves; none for a stream.
    pub(super) range: Option<Extent>,
    pub(super) kept: Vec<Extent>,
    pub(super) doubt: bool,
    /// Hashes of unverified ranges are sent blinded.
    pub(super) blinded: bool,
    pub(super) level: Level,
}

impl<D, H> Pump<D, H>
where
    D: Dispatch,
    D::Link: Send + 'static,
    H: Host,
{
    /// The blocks of an operation are hashed from now on.
    pub(super) fn on_hash(&mut self, wish: HashRequest) {
        let block = self.session.limits().block;
        let helpers = self.transfers.values().filter(|one| one.hashed.as_ref().is_some_and(|it| it.beside.runs()));
        let room = helpers.count() < bounds::HASHERS_MAX;
        // It has ended meanwhile, and moves nothing that could be hashed.
        let Some(transfer) = self.transfers.get_mut(&wish.operation) else { return };
        let shared = transfer.hashed.take().map(|hashed| hashed.hashing);
        let coordinates = shared.is_none();
        let own = wish.range.map_or_else(Vec::new, |range| plan::within(&wish.kept, range));
        // An uploading side trusts no claim of the peer (P-63); a side that requests a download
        // made the claim itself.
        let apart = self.session.is_client();
        let hashing = shared.unwrap_or_else(|| {
            let fresh = Hashing::new(piece_bytes(wish.length, block));
            let protected = wish.level > Level::Clear;
            let fresh = if wish.blinded { fresh.blinding() } else { fresh };
            Arc::new(match transfer.writing() {
                Some(writing) => {
                    fresh.receiving(writing.mode.stage().kept(), &wish.kept, wish.doubt, protected, wish.length)
                }
                None if apart => fresh.sending(&wish.kept),
                None => fresh,
            })
        });
        let (from, ranges, paced) = match &mut transfer.phase {
            Phase::Writing(writing) => {
                let stage = writing.mode.stage();
                if coordinates {
                    stage.hashed_by(Arc::<Hashing>::clone(&hashing));
                }
                // Data of an earlier attempt that was not hashed is read back and hashed.
                let unread = hashing.unread(&own);
                // Opened only if there is something to read: most transfers have no earlier
                // attempt.
                match (!unread.is_empty()).then(|| stage.read_back(false)).transpose() {
                    Ok(back) => (back.map(From::Stage), unread, false),
                    Err(error) => return self.session.fail(wish.operation, error),
                }
            }
            Phase::Reading(reading) => beside_sending(reading, &wish, &own, apart, room),
            // It has ended, as above.
            _ => return,
        };
        let inline = transfer.reading().is_some_and(|reading| reading.buffered);
        transfer.hashed = Some(Hashed { hashing, length: wish.length, inline, beside: Beside::Idle });
        if let Some(from) = from {
            self.hash_beside(wish.operation, from, ranges, paced);
        }
    }

    /// Hashes these ranges of an operation in parallel, if there are any.
    fn hash_beside(&mut self, operation: OperationId, from: From, ranges: Vec<Extent>, paced: bool) {
        let (post, share) = (self.mail.own.clone(), self.share_of(operation));
        let hashed = self.transfers.get_mut(&operation).and_then(|transfer| transfer.hashed.as_mut());
        // There is nothing to read.
        let Some(hashed) = hashed.filter(|_| !ranges.is_empty()) else { return };
        let tell = move |result| drop(post.send(Message::Hashed(operation, result)));
        let what = Ranges { from, ranges, into: Arc::clone(&hashed.hashing), paced };
        match ParallelHash::start(&self.storage.blocking, share, what, Box::new(tell)) {
            Some(job) => hashed.beside.begin(job),
            None => return self.session.fail(operation, busy()),
        }
        self.storage.pending += 1;
    }

    /// The parallel job has hashed everything, or failed.
    pub(super) fn on_hashed(&mut self, operation: OperationId, result: Result<(), Error>) {
        self.storage.pending -= 1;
        let hashed = self.transfers.get_mut(&operation).and_then(|transfer| transfer.hashed.as_mut());
        // The transfer has ended.
        let Some(hashed) = hashed else { return };
        let ended = std::mem::take(&mut hashed.beside);
        if let Err(error) = result {
            return self.session.fail(operation, error);
        }
        // Nothing has to wait for it yet.
        let Beside::Awaited(_, step) = ended else { return };
        match step {
            Waiting::Check => self.on_check(operation),
            Waiting::ToPipeline(to, message) => self.forward(to, message),
            Waiting::Verify { length, reread, sent } => self.on_verify(operation, length, reread, sent),
        }
    }

    /// Defers a step that needs all hashes until the parallel job has them. Returns whether it did.
    fn waits(&mut self, operation: OperationId, step: Waiting) -> bool {
        let hashed = self.transfers.get_mut(&operation).and_then(|transfer| transfer.hashed.as_mut());
        hashed.is_some_and(|hashed| hashed.beside.put_off(step))
    }

    /// Whether the end of a participant's range waits for its hashes.
    pub(super) fn pipeline_message_waits(&mut self, to: PipelineId, message: &PipelineMessage) -> bool {
        match message {
            PipelineMessage::Sent(operation) => self.waits(*operation, Waiting::ToPipeline(to, message.clone())),
            _ => false,
        }
    }

    /// Reports the digest of what was sent to the machine. Returns false if that has to wait, or
    /// failed.
    pub(super) fn report_digest(&mut self, operation: OperationId) -> bool {
        if self.waits(operation, Waiting::Check) {
            return false;
        }
        // It has ended, or its content is not hashed.
        let Some(transfer) = self.transfers.get(&operation) else { return true };
        let Some(hashed) = &transfer.hashed else { return true };
        let length = match (transfer.reading(), hashed.length) {
            (Some(Reading { mode: ReadMode::Stream(stream), .. }), None) => stream.available,
            (_, length) => length.unwrap_or(0),
        };
        let proof = hashed.hashing.proof(length);
        // The server compares the committed content with it (P-66).
        let unknown = self.session.is_client() && proof.as_ref().is_ok_and(|proof| proof.root.is_none());
        let proof =
            if unknown { Err(Error::new(ErrorKind::Protocol, "the peer confirmed what was not sent")) } else { proof };
        match proof {
            Ok(proof) => {
                self.session.set_digest(operation, proof);
                true
            }
            Err(error) => {
                self.session.on_checked(operation, Err(error));
                false
            }
        }
    }

    pub(super) fn on_verify(&mut self, operation: OperationId, length: u64, reread: bool, sent: ContentDigest) {
        if self.waits(operation, Waiting::Verify { length, reread, sent: sent.clone() }) {
            return;
        }
        let transfer = self.transfers.get(&operation);
        let Some(Transfer { hashed: Some(hashed), phase: Phase::Writing(writing), share, .. }) = transfer else {
            let error = Error::internal("a transfer lost its hashes");
            return self.session.on_verified(operation, Err(error));
        };
        let arrived = hashed.hashing.compare(length, &sent);
        if !reread && arrived.agrees_with(&sent) {
            return self.session.on_verified(operation, Ok(arrived));
        }
        let (hashing, stage) = (Arc::clone(&hashed.hashing), Arc::clone(writing.mode.stage()));
        let (read, share) = (arrived.agrees_with(&sent), share.clone());
        let (mut stored, mut found) = (StoredCheck::new(Arc::clone(&hashing), Arc::clone(&stage), length), arrived);
        // Cannot fail: it was found above, and is being written.
        let Some(stop) = self.transfers.get_mut(&operation).and_then(Transfer::begin_comparing) else { return };
        let mut step = move |slice: &Slice| {
            if read {
                must_go_on(&stop)?;
                match stored.advance(slice)? {
                    Poll::Ready(given_back) => found = given_back,
                    Poll::Pending => return Ok(Poll::Pending),
                }
            }
            if !found.agrees_with(&sent) {
                // Retransmitted ranges overwrite data recorded in the journal: the journal must not
                // list them any more.
                hashing.forget_differing(&found, length);
                stage.checkpoint()?;
            }
            Ok(Poll::Ready(std::mem::take(&mut found)))
        };
        let job = move |slice: &Slice| flat(step(slice));
        self.call_sliced(&share, job, move |result| Message::Verified(operation, result));
    }

    pub(super) fn on_verified(&mut self, operation: OperationId, result: Result<Comparison, Error>) {
        self.storage.pending -= 1;
        // Else it has ended meanwhile.
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            transfer.on_compared();
        }
        self.session.on_verified(operation, result);
    }

    /// Some ranges are sent again: their hashes are void, and from now on the bytes that leave are
    /// hashed, not the file's.
    pub(super) fn on_again(&mut self, operation: OperationId, ranges: &[Extent]) {
        // It has ended, and moves nothing any more.
        let Some(transfer) = self.transfers.get_mut(&operation) else { return };
        if let Some(reading) = transfer.reading_mut() {
            reading.buffered = true;
        }
        // Without hashes there is nothing that is void.
        let Some(hashed) = &mut transfer.hashed else { return };
        hashed.inline = true;
        hashed.hashing.forget(ranges);
        let rest = hashed.hashing.unread_claims(ranges);
        if let Some(from) = transfer.reading().and_then(readable) {
            self.hash_beside(operation, from, rest, false);
        }
    }

    /// The peer requests the hash of a file instead of its bytes.
    pub(super) fn on_open_sum(&mut self, operation: OperationId, request: &Request) {
        let job = self.host.open(operation, request);
        self.session.raise_level(operation, self.host.floor(operation));
        let long_read = LongRead::default();
        let (stop, mut sum) = (long_read.stop(), FileDigest::Asked(job, request.length));
        let share = self.begin_opening(operation, Phase::Digesting(long_read));
        let job = move |slice: &Slice| flat(must_go_on(&stop).and_then(|()| sum.advance(slice)));
        self.call_sliced(&share, job, move |result| Message::Summed(operation, Box::new(result)));
    }

    pub(super) fn on_summed(&mut self, operation: OperationId, result: Result<(SourceFacts, Digest), Error>) {
        self.storage.pending -= 1;
        if let Some(transfer) = self.transfers.get_mut(&operation) {
            transfer.phase = Phase::Done;
        }
        let facts = result.map(|(facts, digest)| SourceFacts { sum: Some(digest), ..facts });
        self.session.on_opened(operation, facts);
    }
}

/// Hashes a block that leaves from a buffer, unless it was sent before.
pub(super) fn hash_outgoing(hashed: Option<&Hashed>, extent: Extent, bytes: &[u8]) -> Result<(), Error> {
    match hashed {
        Some(hashed) if hashed.inline && !hashed.hashing.touches(extent) => {
            hashed.hashing.add(leaf(bytes, extent.offset())?);
            Ok(())
        }
        _ => Ok(()),
    }
}

/// A block is with the kernel, which does not expose its bytes: it is hashed in parallel.
pub(super) fn passed(hashed: Option<&Hashed>, extent: Extent) {
    if let Some(hashed) = hashed {
        hashed.beside.sent(extent.end());
    }
}

/// Hashes a block that arrived, if its content is hashed.
pub(super) fn hash_arriving(hashed: Option<&Hashed>, extent: Extent, bytes: &[u8]) -> Result<Option<Leaf>, Error> {
    hashed.map(|_| leaf(bytes, extent.offset())).transpose()
}

/// The hash of a file that the peer requests.
enum FileDigest {
    /// The file is not open yet: this many bytes of it, or all.
    Asked(StorageJob<Opened>, Option<u64>),
    Hashing(SourceFacts, Box<RangeHash>),
    Told,
}

impl FileDigest {
    fn advance(&mut self, slice: &Slice) -> Result<Poll<(SourceFacts, Digest)>, Error> {
        if let Self::Asked(..) = self
            && let Self::Asked(open, wanted) = std::mem::replace(self, Self::Told)
        {
            let Opened { source, offset, facts } = open()?;
            *self = Self::Hashing(facts, Box::new(RangeHash::asked_for(source, offset, wanted)?));
        }
        let Self::Hashing(facts, hash) = self else { return Err(cancelled()) };
        Ok(hash.advance(slice)?.map(|digest| (facts.clone(), digest)))
    }
}

fn cancelled() -> Error {
    Error::new(ErrorKind::Cancelled, "nobody waits for the hash")
}

fn must_go_on(stop: &AtomicBool) -> Result<(), Error> {
    if stop.load(Ordering::Relaxed) { Err(cancelled()) } else { Ok(()) }
}

/// Makes an error end a job, too.
fn flat<T>(step: Result<Poll<T>, Error>) -> Poll<Result<T, Error>> {
    match step {
        Ok(Poll::Pending) => Poll::Pending,
        Ok(Poll::Ready(value)) => Poll::Ready(Ok(value)),
        Err(error) => Poll::Ready(Err(error)),
    }
}

/// What is hashed in parallel to sending, and whether the job keeps pace with it. If the kernel
/// moves the bytes, that is what is sent, unless it is too small for that: then it is sent from
/// buffers, where it can be hashed.
fn beside_sending(
    reading: &mut Reading,
    wish: &HashRequest,
    kept: &[Extent],
    apart: bool,
    room: bool,
) -> (Option<From>, Vec<Extent>, bool) {
    let from = readable(reading);
    let kernel = matches!(reading.mode, ReadMode::Direct { .. } | ReadMode::Zero);
    let range = wish.range.unwrap_or_default();
    if kernel && wish.level == Level::Clear && room && range.length() >= bounds::HASH_BESIDE_BYTES {
        let mut ranges = if wish.doubt && !apart { vec![range] } else { between(kept, range) };
        if apart {
            ranges.extend(kept);
            ranges.sort_unstable_by_key(|one| one.offset());
        }
        return (from, ranges, true);
    }
    reading.buffered = true;
    (from, if wish.doubt || apart { kept.to_vec() } else { Vec::new() }, false)
}

/// Where a thread reads what is being sent, to hash it in parallel.
fn readable(reading: &Reading) -> Option<From> {
    reading.mode.source().map(|(source, offset)| From::Source { source, offset })
}
