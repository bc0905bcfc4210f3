//! End-to-end verification: what was sent is compared with what arrived before the target is
//! renamed to its final name, and what differs is sent again, a limited number of times (P-62 to
//! P-66). Hashes are opaque here; the driver of the session computes and compares them.

use super::announcements::Pending;
use super::block_receiver::BlockReceiver;
use super::block_sender::BlockSender;
use super::content_digest::{Comparison, ContentDigest, Mismatch};
use super::operation::{Operation, State};
use super::output::Output;
use super::receiving_half::{GrantedReceiver, ReceiveProgress, ReceivingHalf};
use super::sending_half::SendingHalf;
use super::{Committed, Fault, Session};
use crate::base::{Error, ErrorKind, Extent, OperationId, Safety};
use crate::wire::control::Grant;
use crate::{limits, plan};
use alloc::format;
use alloc::vec::Vec;

impl Session {
    /// The digest of what this end sent, set before `on_checked`. (Of a transfer with a hash.)
    pub fn set_digest(&mut self, id: OperationId, digest: ContentDigest) {
        let operation = self.operations.get_mut(&id).filter(|operation| operation.terms.hash);
        // Otherwise it ended while its content was hashed.
        if let Some(State::Sending(SendingHalf::Granted(granted))) = operation.map(|operation| &mut operation.state) {
            granted.digest = digest;
        }
    }

    /// The blocks of this pipeline are hashed, from the first one.
    pub(super) fn begin_hash(&mut self, id: OperationId, grant: &Grant) {
        if !grant.hash {
            return;
        }
        let Grant { length, level, unverified, blinded, .. } = *grant;
        let (range, kept) = (grant.ranges.first().copied(), grant.kept.clone());
        self.outputs.push_back(Output::Hash { operation: id, length, range, kept, unverified, blinded, level });
    }

    /// Everything is written: compares it if that was negotiated, otherwise commits.
    pub(super) fn verify_now(&mut self, id: OperationId) {
        // Cannot fail: the caller has found it.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let (hash, reread) = (operation.terms.hash, operation.terms.reread);
        let State::Receiving(ReceivingHalf::Granted(GrantedReceiver { progress, .. })) = &mut operation.state else {
            // Cannot be: the caller has checked the half.
            return;
        };
        // Cannot fail: the caller has found FINISH.
        let ReceiveProgress::Moving { finish: Some(finish) } = progress else { return };
        let (length, finish) = (finish.length, finish.clone());
        if !hash {
            return self.commit_now(id, length, None);
        }
        let sent = finish.digest.clone();
        if progress.on_complete(finish).is_ok() {
            self.outputs.push_back(Output::Verify { operation: id, length, reread, sent });
        }
    }

    /// The result of the comparison, or why it failed.
    pub fn on_verified(&mut self, id: OperationId, result: Result<Comparison, Error>) {
        // Ended while its content was compared.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        // Given up meanwhile: the outcome is another one.
        let State::Receiving(ReceivingHalf::Granted(GrantedReceiver {
            progress: ReceiveProgress::Verifying { finish },
            ..
        })) = &operation.state
        else {
            return;
        };
        let found = match result {
            Ok(found) => found,
            Err(error) => return self.abandon(id, error),
        };
        if found.agrees_with(&finish.digest) {
            let length = finish.length;
            return self.commit_now(id, length, found.root);
        }
        self.ask_again(id, &found);
    }

    /// Makes the sender send again what differs, unless that was requested too often or is
    /// impossible.
    fn ask_again(&mut self, id: OperationId, found: &Comparison) {
        // Cannot fail: the caller has found it, and that it receives.
        let Some(operation) = self.operations.get_mut(&id) else { return };
        let State::Receiving(ReceivingHalf::Granted(granted)) = &mut operation.state else { return };
        let (known, round, block) = (granted.granted_length(), granted.round, operation.terms.block);
        let bad = blocks_of(&found.bad, known.unwrap_or(0), block);
        let repeatable = !granted.ordered && round < limits::AGAIN_MAX && !bad.is_empty();
        if !repeatable {
            return self.abandon(id, differs(found, round));
        }
        // Cannot fail: what was compared is being verified.
        if granted.progress.on_again().is_err() {
            return;
        }
        // The granted edge stays valid: what is requested lies below it.
        let receiver = BlockReceiver::new(0, known, block, EVERYTHING);
        granted.receiver = receiver.keeping(without(&bad, known.unwrap_or(0)));
        granted.round = round + 1;
        granted.again = bad.clone();
        operation.announcements.postpone(Pending::ACK);
        operation.announcements.owe(Pending::AGAIN);
        self.outputs.push_back(Output::Again { operation: id, ranges: bad });
    }

    /// The receiver requests some of it once more. (Sending half.)
    pub(super) fn on_again(&mut self, id: OperationId, round: u16, ranges: Vec<Extent>) -> Result<(), Fault> {
        let limits = self.limits.clone();
        // Cannot fail: the caller has found it, and that it sends.
        let Some(operation) = self.operations.get_mut(&id) else { return Ok(()) };
        let (block, hash) = (operation.terms.block, operation.terms.hash);
        // Over: nothing is sent any more.
        let State::Sending(half) = &mut operation.state else { return Ok(()) };
        let now = half.round();
        // A late copy, or the receiver is about to hear that nothing comes.
        if round <= now || half.given_up().is_some() {
            return Ok(());
        }
        // Nothing was sent before it was granted.
        let SendingHalf::Granted(granted) = half else { return Err(Fault::Again) };
        let known = granted.granted_length();
        let length = known.filter(|_| hash && round == now + 1 && round <= limits::AGAIN_MAX).ok_or(Fault::Again)?;
        if ranges.is_empty() || !plan::are_whole_blocks(&ranges, Some(length), block) {
            return Err(Fault::Again);
        }
        granted.progress.on_again().map_err(|_| Fault::Again)?;
        let sender = BlockSender::new(0, Some(length), block, u64::MAX).with_send_window(limits.flow_window_for(block));
        granted.sender = sender.keeping(without(&ranges, length));
        granted.everywhere = true;
        granted.round = round;
        operation.announcements.withdraw(Pending::FINISH);
        self.outputs.push_back(Output::Again { operation: id, ranges });
        Ok(())
    }
}

impl Operation {
    /// Whether the receiver has to compute the hash of the whole by itself (P-63): it claims bytes
    /// of this end that were not sent, and FINISH tells it nothing about them that it did not know
    /// before.
    pub(super) fn keeps_root(&self) -> bool {
        self.kind.is_to_server() && self.grant().is_some_and(|grant| !grant.kept.is_empty())
    }

    /// What COMMITTED means for the sender (P-36, P-66): a receiver cannot have all bytes before
    /// FINISH, and it knows their hash.
    pub(super) fn judge_committed(&mut self, committed: Committed) -> Result<Result<Committed, Error>, Fault> {
        if self.is_settled() {
            // Sent again: its content was checked when it first arrived.
            return Ok(Ok(committed));
        }
        if self.grant().is_some_and(|grant| grant.sum.is_some()) {
            // The reply was the hash alone, in GRANT: there is no FINISH.
            return if committed.length == 0 { Ok(Ok(committed)) } else { Err(Fault::Committed) };
        }
        let State::Sending(SendingHalf::Granted(granted)) = &self.state else { return Err(Fault::Committed) };
        if !granted.progress.may_be_committed() || Some(committed.length) != granted.length() {
            return Err(Fault::Committed);
        }
        // What is only in the receiver's memory is not committed.
        if committed.safety < Safety::Written {
            return Err(Fault::Committed);
        }
        match (granted.digest.root, committed.root) {
            (Some(_), None) => Err(Fault::Committed),
            (Some(own), Some(root)) if own != root => Ok(Err(Error::new(
                ErrorKind::Corrupted,
                "content differs: the hash of what the receiving side committed is not the hash of what was sent",
            ))),
            _ => Ok(Ok(committed)),
        }
    }
}

/// A window that covers every transfer; the resulting edge still fits the number on the wire.
const EVERYTHING: u64 = 1 << 61;

/// The blocks that have a byte in `bad`, merged; all of them if it is empty, since then the
/// location is unknown.
fn blocks_of(bad: &[Extent], length: u64, block: u32) -> Vec<Extent> {
    let block = u64::from(block.max(1));
    let mut blocks: Vec<(u64, u64)> = Vec::new();
    for range in bad {
        let from = range.offset() - range.offset() % block;
        let to = range.end().min(length).div_ceil(block).saturating_mul(block).min(length);
        match blocks.last_mut() {
            Some((_, end)) if *end >= from => *end = to.max(*end),
            _ if from < to => blocks.push((from, to)),
            _ => {}
        }
    }
    if blocks.is_empty() {
        blocks.push((0, length));
    }
    if blocks.len() > limits::LEDGER_ENTRIES_MAX {
        let ends = (blocks[0].0, blocks[blocks.len() - 1].1);
        blocks = alloc::vec![ends];
    }
    let extents = blocks.into_iter().filter(|(from, to)| from < to);
    extents.filter_map(|(from, to)| Extent::new(from, to - from).ok()).collect()
}

/// The rest of the transfer.
fn without(ranges: &[Extent], length: u64) -> Vec<Extent> {
    let (mut rest, mut at) = (Vec::new(), 0);
    for range in ranges {
        rest.extend(Extent::new(at, range.offset() - at).ok());
        at = range.end();
    }
    rest.extend(Extent::new(at, length.saturating_sub(at)).ok());
    rest.retain(|range| !range.is_empty());
    rest
}

/// The error text for content that stays different.
fn differs(found: &Comparison, round: u16) -> Error {
    let place = match found.place {
        Mismatch::OnTheWay => "what arrived at the receiving side is not what was sent",
        Mismatch::InStorage => "what the receiving side's storage gives back is not what was written",
    };
    let range = match found.bad.first() {
        Some(range) => format!("bytes {}..{}", range.offset(), range.end()),
        None => "some bytes".into(),
    };
    let tries = if round == 0 { "and it cannot be sent again".into() } else { format!("after {round} repetitions") };
    Error::new(ErrorKind::Corrupted, format!("content differs in {range}: {place}, {tries}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn extents(list: &[(u64, u64)]) -> Vec<Extent> {
        list.iter().map(|(from, to)| Extent::new(*from, to - from).unwrap()).collect()
    }

    #[test]
    fn whole_blocks_are_asked_for_and_the_rest_is_kept() {
        for (bad, blocks, rest) in [
            (&[(5, 6)][..], &[(0, 10)][..], &[(10, 45)][..]),
            (&[(9, 11), (12, 13)], &[(0, 20)], &[(20, 45)]),
            (&[(20, 30), (41, 45)], &[(20, 30), (40, 45)], &[(0, 20), (30, 40)]),
            (&[], &[(0, 45)], &[]),
            (&[(50, 60)], &[(0, 45)], &[]),
        ] {
            let found = blocks_of(&extents(bad), 45, 10);
            assert_eq!(found, extents(blocks), "{bad:?}");
            assert!(plan::are_whole_blocks(&found, Some(45), 10));
            assert_eq!(without(&found, 45), extents(rest), "{bad:?}");
        }
        assert_eq!(blocks_of(&[], 0, 10), []);
    }
}
