//! Turns: many busy sockets share one thread, and none gets far ahead of the others.
//!
//! The sockets are full before the first byte is received and nobody fills them again meanwhile, so what is seen is the
//! dispatcher's order alone, not the scheduler's or the transport's.

use crate::harness::Member;
use std::collections::BTreeMap;
use std::fmt::Debug;
use xdfs_io::dispatch::{Body, Completion, Dispatch, Op, SocketId};
use xdfs_proto::base::Duration;

pub(crate) fn eight_full_sockets_are_served_in_turns<M: Member>() {
    served_in_turns::<M>(8);
}

pub(crate) fn sixty_four_full_sockets_are_served_in_turns<M: Member>() {
    served_in_turns::<M>(64);
}

/// When half of all bytes that wait are received, no socket is far ahead, and none has less than half of its share.
fn served_in_turns<M: Member>(count: usize) {
    let implementation = M::roomy();
    let (mut sending, mut receiving) = (implementation.dispatcher(), implementation.dispatcher());
    let mut received: BTreeMap<SocketId, u64> = BTreeMap::new();
    let mut senders = Vec::new();
    for _ in 0..count {
        let (from, to) = implementation.pair();
        let from = sending.attach(from, &[]).unwrap();
        sending.submit(Op::Send { socket: from, head: None, body: Body::Zero { length: 1 << 30 } });
        senders.push(from);
        received.insert(receiving.attach(to, &[]).unwrap(), 0);
    }
    let waiting = fill_up(&mut sending, &senders);
    assert!(waiting > count as u64 * (1 << 20), "several turns' worth for each: {waiting}");
    for socket in received.keys() {
        receiving.submit(Op::Some { socket: *socket, limit: 1 << 20 });
    }
    let mut total = 0;
    while total < waiting / 2 {
        match receiving.next(None).unwrap() {
            Completion::Some { socket, length } => {
                total += length as u64;
                *received.get_mut(&socket).unwrap() += length as u64;
                receiving.submit(Op::Some { socket, limit: 1 << 20 });
            }
            other => panic!("{other:?}"),
        }
    }
    let sum = total as f64;
    let squares: f64 = received.values().map(|bytes| (*bytes as f64).powi(2)).sum();
    let jain = sum * sum / (count as f64 * squares);
    assert!(jain >= 0.95, "Jain index {jain:.3} at half of the bytes: {:?}", received.values());
    let least = *received.values().min().unwrap() as f64;
    assert!(least >= sum / count as f64 / 2.0, "one has less than half of its share: {:?}", received.values());
}

/// Sends until no socket takes more; the bytes that were taken.
fn fill_up<D: Dispatch<Link: Debug>>(sending: &mut D, senders: &[SocketId]) -> u64 {
    let mut before = None;
    loop {
        let soon = sending.now().after(Duration::from_millis(20));
        assert!(matches!(sending.next(Some(soon)).unwrap(), Completion::Deadline), "it never completes");
        let sent: u64 = senders.iter().map(|socket| sending.progress(*socket).sent).sum();
        if before.replace(sent) == Some(sent) {
            return sent;
        }
    }
}
