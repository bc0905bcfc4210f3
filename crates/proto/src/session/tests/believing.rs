//! What a receiver may claim, and which claims the sender accepts.

use super::pair::{BLOCK, CLIENT, Pair, SERVER, Side, Step, request};
use crate::base::{ChannelId, Error, ErrorKind, Extent, OperationId, Safety};
use crate::session::{Comparison, ContentDigest, Fault};
use crate::wire::control::{Finish, Grant};
use crate::wire::request::{Request, Resume};
use crate::wire::{Control, Event, Flags, Head, WireError};
use alloc::vec;
use alloc::vec::Vec;

const OURS: [u8; 32] = [3; 32];

fn committed(length: u64, root: Option<[u8; 32]>) -> Control {
    Control::Committed { length, safety: Safety::Durable, version: vec![1], root }
}

impl Pair {
    /// The server sends this on channel 1, whatever its machine does; returns how the client
    /// handles it.
    fn server_says(&mut self, id: OperationId, control: &Control) -> Result<(), Fault> {
        self.says(SERVER, id, control)
    }

    fn says(&mut self, side: Side, id: OperationId, control: &Control) -> Result<(), Fault> {
        let sealed = self.epochs.entry((side, ChannelId(1))).or_default();
        let payload = control.encode();
        let head = Head {
            event: control.event() as u8,
            level: crate::base::Level::Private,
            epoch: sealed.epoch,
            operation: id,
            sequence: sealed.records,
            offset: 0,
            length: payload.len() as u32,
            flags: Flags::NONE,
        };
        sealed.records += 1;
        let now = self.now;
        let other = if side == SERVER { self.client() } else { self.server() };
        other.on_head(ChannelId(1), &head, now)?;
        other.on_control(ChannelId(1), &payload, now)
    }

    /// The outcome at the client, after the message has been processed.
    fn outcome(&mut self, id: OperationId) -> Option<Result<Option<[u8; 32]>, ErrorKind>> {
        self.drain();
        let outcome = self.story(CLIENT, id).outcome.clone();
        outcome.map(|outcome| outcome.map(|committed| committed.root).map_err(|error| error.kind))
    }
}

/// An upload whose last acknowledgement has arrived; FINISH was sent if `finished`, and its server
/// does not reply.
fn uploading(hash: bool, finished: bool) -> (Pair, OperationId) {
    let mut pair = Pair::new(1, 1);
    pair.hash = hash;
    pair.hold(CLIENT, Step::Check);
    pair.hold(SERVER, Step::Verify);
    pair.hold(SERVER, Step::Commit);
    let id = pair.upload(Some(2 * BLOCK));
    pair.run();
    if finished {
        pair.client().set_digest(id, ContentDigest { root: Some(OURS), subtrees: Vec::new() });
        pair.release(CLIENT, Step::Check);
        pair.turn();
        assert_eq!(pair.sent[&Event::Finish], 1);
    }
    (pair, id)
}

#[test]
fn a_finish_before_the_grant_that_states_another_length_commits_nothing() {
    let mut pair = Pair::new(1, 1);
    pair.hold(SERVER, Step::Stage);
    let id = pair.upload(Some(0));
    pair.turn();
    let finish = Finish { length: 1, ..Finish::default() };
    assert_eq!(pair.says(CLIENT, id, &Control::Finish(finish)), Ok(()));
    pair.release(SERVER, Step::Stage);
    pair.drain();
    assert_eq!(pair.story(SERVER, id).committed, None);
    let outcome = pair.story(SERVER, id).outcome.clone().unwrap();
    assert_eq!(outcome.map_err(|error| error.kind), Err(ErrorKind::Protocol));
}

#[test]
fn committed_before_finish_is_a_fault() {
    for hash in [false, true] {
        let (mut pair, id) = uploading(hash, false);
        assert_eq!(pair.server_says(id, &committed(2 * BLOCK, hash.then_some(OURS))), Err(Fault::Committed));
        // A sender that gave up before FINISH accepts no COMMITTED either.
        let (mut pair, id) = uploading(hash, false);
        pair.client().fail(id, Error::new(ErrorKind::Cancelled, "no more"));
        assert_eq!(pair.server_says(id, &committed(2 * BLOCK, hash.then_some(OURS))), Err(Fault::Committed));
    }
    // Nor before any byte was sent.
    let mut pair = Pair::new(1, 1);
    pair.hold(SERVER, Step::Stage);
    let id = pair.upload(Some(2 * BLOCK));
    pair.turn();
    assert_eq!(pair.server_says(id, &committed(2 * BLOCK, None)), Err(Fault::Committed));
}

#[test]
fn committed_behind_finish_is_believed_also_by_who_gave_up_meanwhile() {
    for gives_up in [false, true] {
        let (mut pair, id) = uploading(true, true);
        if gives_up {
            pair.client().fail(id, Error::new(ErrorKind::Cancelled, "no more"));
        }
        assert_eq!(pair.server_says(id, &committed(2 * BLOCK, Some(OURS))), Ok(()));
        assert_eq!(pair.outcome(id), Some(Ok(Some(OURS))));
        // Sent again, it changes nothing.
        assert_eq!(pair.server_says(id, &committed(2 * BLOCK, Some(OURS))), Ok(()));
    }
}

#[test]
fn committed_says_the_length_that_was_sent() {
    let (mut pair, id) = uploading(false, true);
    assert_eq!(pair.server_says(id, &committed(2 * BLOCK + 1, None)), Err(Fault::Committed));
}

#[test]
fn where_a_hash_was_asked_for_committed_carries_that_of_the_senders_bytes() {
    let (mut pair, id) = uploading(true, true);
    assert_eq!(pair.server_says(id, &committed(2 * BLOCK, None)), Err(Fault::Committed));
    let (mut pair, id) = uploading(true, true);
    assert_eq!(pair.server_says(id, &committed(2 * BLOCK, Some([4; 32]))), Ok(()));
    assert_eq!(pair.outcome(id), Some(Err(ErrorKind::Corrupted)));
}

#[test]
fn behind_again_committed_waits_for_the_next_finish() {
    let (mut pair, id) = uploading(true, true);
    pair.found.push_back(Comparison { bad: vec![Extent::new(0, BLOCK).unwrap()], ..Comparison::default() });
    pair.hold(CLIENT, Step::Check);
    pair.release(SERVER, Step::Verify);
    pair.turn();
    assert_eq!(pair.story(CLIENT, id).again.len(), 1);
    assert_eq!(pair.server_says(id, &committed(2 * BLOCK, Some(OURS))), Err(Fault::Committed));
}

#[test]
fn of_bytes_that_the_receiver_claims_to_have_finish_tells_nothing() {
    // It has to compute the hash of all of them by itself.
    for (claims, doubts) in [(false, false), (true, false), (true, true)] {
        let mut pair = Pair::new(1, 1);
        (pair.hash, pair.doubts) = (true, doubts);
        pair.kept = if claims { vec![Extent::new(0, BLOCK).unwrap()] } else { Vec::new() };
        pair.hold(CLIENT, Step::Check);
        pair.hold(SERVER, Step::Verify);
        let resume = Some(Resume { source: vec![5], kept: Vec::new() });
        let asked = Request { length: Some(2 * BLOCK), hash: true, resume, ..request() };
        let id = pair.client().open(true, asked).unwrap();
        pair.run();
        pair.client().set_digest(id, ContentDigest { root: Some(OURS), subtrees: Vec::new() });
        pair.release(CLIENT, Step::Check);
        let mut told = None;
        while let Some(output) = pair.client().poll(crate::base::Instant(2_000_000)) {
            if let crate::session::Output::Send { head, payload: crate::session::Payload::Control(bytes), .. } = output
                && head.event == Event::Finish as u8
                && let Some(Control::Finish(finish)) = Control::decode(Event::Finish, &bytes).unwrap()
            {
                told = Some(finish.root);
            }
        }
        assert_eq!(told, Some((!claims).then_some(OURS)), "claims {claims}, doubts {doubts}");
        let grant = pair.story(CLIENT, id).grant.as_ref().unwrap();
        assert_eq!((grant.unverified, grant.blinded), (doubts, doubts), "both know that the hashes are blinded");
    }
}

#[test]
fn only_who_can_blind_hashes_is_asked_to() {
    for (upload, resume) in [(true, false), (false, true)] {
        let mut pair = Pair::new(1, 1);
        pair.hash = true;
        pair.hold(SERVER, Step::Open);
        pair.hold(SERVER, Step::Stage);
        let resume = resume.then(|| Resume { source: vec![5], kept: Vec::new() });
        let asked = Request { length: Some(2 * BLOCK), hash: true, resume, ..request() };
        let id = pair.client().open(upload, asked).unwrap();
        pair.turn();
        let grant = Grant {
            block: BLOCK as u32,
            length: Some(2 * BLOCK),
            ranges: vec![Extent::new(0, 2 * BLOCK).unwrap()],
            hash: true,
            unverified: true,
            blinded: true,
            ..Grant::default()
        };
        let refused = pair.server_says(id, &Control::Grant(grant));
        assert_eq!(refused, Err(Fault::Wire(WireError::Invalid("blinded hashes of GRANT"))), "upload {upload}");
    }
}
