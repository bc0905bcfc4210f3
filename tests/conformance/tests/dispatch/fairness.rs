//! Turns: many busy sockets share one thread, and none gets far ahead of the others.

use crate::harness::{Member, next};
use std::collections::BTreeMap;
use std::fmt::Debug;
use xdfs_xio::dispatch::{Body, Completion, Dispatch, End, Op, SocketId};

pub(crate) fn eight_sockets_share_a_thread_evenly<M: Member>() {
    share_evenly::<M>(8, 16 << 20);
}

pub(crate) fn sixty_four_sockets_share_a_thread_evenly<M: Member>() {
    share_evenly::<M>(64, 4 << 20);
}

/// Each of `count` sockets receives `each` bytes from another thread that never lets them run dry: at half of all bytes
/// no socket is far ahead.
fn share_evenly<M: Member>(count: usize, each: u64) {
    let member = M::new();
    let (mut sending, mut receiving) = (member.dispatcher(), member.dispatcher());
    let mut received: BTreeMap<SocketId, u64> = BTreeMap::new();
    let mut senders = Vec::new();
    for _ in 0..count {
        let (from, to) = member.pair();
        senders.push(from);
        received.insert(receiving.attach(to, &[]).unwrap(), 0);
    }
    let senders: Vec<_> = senders.into_iter().map(|link| sending.attach(link, &[]).unwrap()).collect();
    for socket in &senders {
        sending.submit(Op::Send { socket: *socket, head: None, body: Body::Zero { length: each } });
    }
    for socket in received.keys() {
        receiving.submit(Op::Some { socket: *socket, limit: 1 << 20 });
    }
    let mut left = count;
    let at_half = if std::any::type_name::<M>().contains("Simulated") {
        // Two endpoints in turns.
        receive_until_half(&mut receiving, &mut received, each, || match sending.next(None).unwrap() {
            Completion::Sent { .. } | Completion::Deadline => {}
            other => panic!("{other:?}"),
        })
    } else {
        // The dispatcher stays in its thread, so the sockets move to one that is made there.
        let links: Vec<_> = senders.iter().map(|socket| sending.detach(*socket, &mut Vec::new()).link).collect();
        let member = M::new();
        std::thread::scope(|scope| {
            scope.spawn(move || {
                let mut sending = M::new().dispatcher();
                for link in links {
                    let socket = sending.attach(link, &[]).unwrap();
                    sending.submit(Op::Send { socket, head: None, body: Body::Zero { length: each } });
                }
                while left > 0 {
                    match next(&mut sending) {
                        Completion::Sent { .. } => left -= 1,
                        // The test has seen enough.
                        Completion::Ended { cause: End::Failed(_), .. } => return,
                        other => panic!("{other:?}"),
                    }
                }
            });
            let at_half = receive_until_half(&mut receiving, &mut received, each, || {});
            drop(receiving);
            drop(member);
            at_half
        })
    };
    let sum: f64 = at_half.iter().map(|bytes| *bytes as f64).sum();
    let squares: f64 = at_half.iter().map(|bytes| (*bytes as f64).powi(2)).sum();
    let jain = sum * sum / (count as f64 * squares);
    let least = at_half.iter().min().unwrap();
    assert!(jain >= 0.95, "Jain index {jain:.3} at half of the bytes: {at_half:?}");
    assert!(*least as f64 >= sum / count as f64 / 2.0, "a socket has below half of its share: {at_half:?}");
}

fn receive_until_half<D: Dispatch<Link: Debug>>(
    receiving: &mut D,
    received: &mut BTreeMap<SocketId, u64>,
    each: u64,
    mut other_endpoint: impl FnMut(),
) -> Vec<u64> {
    let half = each * received.len() as u64 / 2;
    let mut total = 0;
    while total < half {
        match receiving.next(None).unwrap() {
            Completion::Some { socket, length } => {
                total += length as u64;
                *received.get_mut(&socket).unwrap() += length as u64;
                receiving.submit(Op::Some { socket, limit: 1 << 20 });
            }
            Completion::Deadline => {}
            other => panic!("{other:?}"),
        }
        other_endpoint();
    }
    received.values().copied().collect()
}
