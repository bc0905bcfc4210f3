//! Connections come and go, threads wake each other, deadlines pass, and callers make mistakes.

use crate::harness::{Member, Scene, head, next, pattern};
use rustix::io::Errno;
use std::collections::BTreeMap;
use std::panic::{AssertUnwindSafe, catch_unwind};
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::sim::Random;
use xdfs_io::dispatch::{Body, Completion, Dispatch, End, Op, Side, SocketId, Wake};
use xdfs_proto::base::Duration;

pub(crate) fn connections_are_accepted_and_carry_bytes<M: Member>() {
    const COUNT: usize = 5;
    let mut scene = Scene::<M>::new();
    let listener = scene.implementation.listen();
    let calling: Vec<_> = (0..COUNT).map(|_| scene.implementation.connect(&listener)).collect();
    let calling: Vec<_> = calling.into_iter().map(|link| scene.dispatcher.attach(link, &[]).unwrap()).collect();
    let listener = scene.dispatcher.attach(listener, &[]).unwrap();
    for socket in &calling {
        scene.submit(Op::Connect { socket: *socket });
    }
    scene.submit(Op::Accept { socket: listener });
    let (mut connected, mut answering) = (0, Vec::new());
    while connected < COUNT || answering.len() < COUNT {
        match scene.next() {
            Completion::Connected { .. } => connected += 1,
            Completion::Accepted { socket, link } => {
                assert_eq!(socket, listener);
                let link = scene.implementation.accepted(link);
                answering.push(scene.dispatcher.attach(link, &[]).unwrap());
                scene.submit(Op::Accept { socket: listener });
            }
            other => panic!("{other:?}"),
        }
    }
    for socket in calling {
        scene.send(socket, Some(head(8)), Body::None);
    }
    for socket in answering {
        assert_eq!(scene.head(socket), head(8));
    }
}

pub(crate) fn a_refused_connection_ends_the_connect<M: Member>() {
    let mut scene = Scene::<M>::new();
    let link = scene.implementation.connect_to_nobody();
    let socket = scene.dispatcher.attach(link, &[]).unwrap();
    scene.submit(Op::Connect { socket });
    match scene.next() {
        Completion::Ended { side: Side::Send, cause, buffer: None, .. } => {
            assert_eq!(cause, End::Failed(Errno::CONNREFUSED.raw_os_error()));
        }
        other => panic!("{other:?}"),
    }
}

fn panics<M: Member>(mut scene: Scene<M>, op: Op) -> String {
    let failed = catch_unwind(AssertUnwindSafe(|| scene.submit(op))).unwrap_err();
    failed.downcast_ref::<String>().cloned().unwrap_or_default()
}

pub(crate) fn a_second_receiving_operation_panics<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (socket, _other) = scene.pair();
    scene.submit(Op::Head { socket });
    assert!(panics(scene, Op::Some { socket, limit: 1 }).contains("a second receiving operation"));
}

pub(crate) fn a_second_sending_operation_panics<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (socket, _other) = scene.pair();
    scene.submit(Op::Send { socket, head: None, body: Body::Zero { length: 1 << 30 } });
    assert!(panics(scene, Op::Connect { socket }).contains("a second sending operation"));
}

pub(crate) fn detach_drops_operations_and_frees_the_name<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.send(from, Some(head(1)), Body::None);
    scene.submit(Op::Head { socket: to });
    let detached = scene.dispatcher.detach(to, &mut Vec::new());
    scene.quiet();
    let again = scene.dispatcher.attach(detached.link, &detached.unread).unwrap();
    assert_eq!(again, to, "the name is used again");
    scene.quiet();
    assert_eq!(scene.head(again), head(1), "no byte was lost");
}

pub(crate) fn the_waker_ends_a_wait_once_for_any_number_of_calls<M: Member>() {
    let mut scene = Scene::<M>::new();
    let waker = scene.dispatcher.waker();
    // Before the wait, several at once.
    for _ in 0..3 {
        waker.wake();
    }
    assert!(matches!(scene.next(), Completion::Woken));
    scene.quiet();
    // From another thread, while it waits or before: both must end it. A simulated wait does not block, so there the
    // call has to come first.
    for _ in 0..50 {
        let other = waker.clone();
        let thread = std::thread::spawn(move || other.wake());
        if std::any::type_name::<M>().contains("Simulated") {
            thread.join().unwrap();
            assert!(matches!(scene.next(), Completion::Woken));
        } else {
            assert!(matches!(scene.next(), Completion::Woken));
            thread.join().unwrap();
        }
    }
    scene.quiet();
}

pub(crate) fn a_deadline_passes<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (_from, to) = scene.pair();
    scene.submit(Op::Head { socket: to });
    let before = scene.dispatcher.now();
    let deadline = before.after(Duration::from_millis(20));
    assert!(matches!(scene.dispatcher.next(Some(deadline)).unwrap(), Completion::Deadline));
    assert!(scene.dispatcher.now() >= deadline, "not before its time");
    // One that has passed already does not wait at all.
    assert!(matches!(scene.dispatcher.next(Some(before)).unwrap(), Completion::Deadline));
}

/// Processor time of this thread, nanoseconds.
fn processor_time() -> u64 {
    let time = rustix::time::clock_gettime(rustix::time::ClockId::ThreadCPUTime);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

pub(crate) fn sockets_that_nobody_asks_about_cost_no_processor_time<M: Member>() {
    let mut scene = Scene::<M>::new();
    // One whose peer hung up, one with unread bytes, one with room to send: each is ready for good, and was asked
    // about once.
    let (gone, peer) = scene.pair();
    scene.submit(Op::Head { socket: gone });
    drop(scene.dispatcher.detach(peer, &mut Vec::new()));
    assert!(matches!(scene.next(), Completion::Ended { .. }));
    let (from, full) = scene.pair();
    scene.submit(Op::Head { socket: full });
    scene.quiet();
    scene.send(from, None, Body::Bytes(pattern(0, 60_000)));
    assert!(matches!(scene.next(), Completion::Head { .. }));
    let (blocked, reader) = scene.pair();
    scene.submit(Op::Send { socket: blocked, head: None, body: Body::Zero { length: 4 << 20 } });
    let mut left = 4 << 20;
    while left > 0 {
        scene.submit(Op::Some { socket: reader, limit: left });
        loop {
            match scene.next() {
                Completion::Some { length, .. } => {
                    left -= length;
                    break;
                }
                Completion::Sent { .. } => {}
                other => panic!("{other:?}"),
            }
        }
    }
    let (before, deadline) = (processor_time(), scene.dispatcher.now().after(Duration::from_millis(200)));
    while scene.dispatcher.now() < deadline {
        match scene.dispatcher.next(Some(deadline)).unwrap() {
            Completion::Deadline | Completion::Sent { .. } => {}
            other => panic!("{other:?}"),
        }
    }
    let spent = processor_time() - before;
    assert!(spent < 50_000_000, "{} ms of processor time in 200 ms of waiting", spent / 1_000_000);
}

/// Eight connections exchange records of random sizes both ways at once, some are closed in the middle: the number of
/// completions of each kind is that of the operations, and every byte is where it belongs.
pub(crate) fn every_operation_completes_exactly_once<M: Member>() {
    const PAIRS: usize = 8;
    const RECORDS: usize = 40;
    let mut scene = Scene::<M>::new();
    let mut random = Random::new(11);
    // Per socket: what it is going to send and receive, and how far it came.
    let mut traffic: BTreeMap<SocketId, Traffic> = BTreeMap::new();
    for pair in 0..PAIRS {
        let (one, other) = scene.pair();
        let closes_early = pair % 4 == 3;
        for (socket, peer) in [(one, other), (other, one)] {
            let sizes: Vec<usize> = (0..RECORDS).map(|_| random.below(70_000) as usize).collect();
            let stop = if closes_early && socket == one { RECORDS / 2 } else { RECORDS };
            traffic.insert(socket, Traffic { peer, sizes, stop, ..Traffic::default() });
        }
    }
    let (mut submitted, mut completed) = (0, 0);
    let sockets: Vec<_> = traffic.keys().copied().collect();
    for socket in &sockets {
        scene.submit(traffic[socket].record(*socket));
        scene.submit(Op::Head { socket: *socket });
        submitted += 2;
    }
    while completed < submitted {
        let completion = scene.next();
        completed += 1;
        let op = match completion {
            Completion::Sent { socket, .. } => {
                let own = traffic.get_mut(&socket).unwrap();
                own.sent += 1;
                let more = own.sent < own.stop;
                more.then(|| own.record(socket))
            }
            Completion::Head { socket, head: found } => {
                let peer = &traffic[&traffic[&socket].peer];
                let record = traffic[&socket].received;
                assert_eq!(found, head(record as u8));
                let to = peer.sizes[record];
                Some(Op::Fill { socket, buffer: Buffer::new(to).unwrap(), from: 0, to })
            }
            Completion::Filled { socket, buffer } => {
                let peer = &traffic[&traffic[&socket].peer];
                let size = peer.sizes[traffic[&socket].received];
                assert!(buffer.payload()[..size] == pattern(size as u64, size));
                let (stop, own) = (peer.stop, traffic.get_mut(&socket).unwrap());
                own.received += 1;
                (own.received < stop).then_some(Op::Head { socket })
            }
            other => panic!("{other:?}"),
        };
        if let Some(op) = op {
            submitted += 1;
            scene.submit(op);
        }
    }
    assert!(traffic.values().all(|own| own.sent == own.stop && own.received == traffic[&own.peer].stop));
    scene.quiet();
    // Then everybody leaves, and whoever still listens learns it once.
    for socket in sockets.iter().step_by(2) {
        scene.submit(Op::Head { socket: traffic[socket].peer });
        drop(scene.dispatcher.detach(*socket, &mut Vec::new()));
        let Completion::Ended { cause, .. } = next(&mut scene.dispatcher) else { panic!("no end") };
        assert!(cause == End::Closed || !M::TELLS_THE_END);
    }
    scene.quiet();
}

struct Traffic {
    peer: SocketId,
    sizes: Vec<usize>,
    /// Records that it sends.
    stop: usize,
    sent: usize,
    received: usize,
}

impl Default for Traffic {
    fn default() -> Self {
        Self { peer: SocketId(0), sizes: Vec::new(), stop: 0, sent: 0, received: 0 }
    }
}

impl Traffic {
    fn record(&self, socket: SocketId) -> Op {
        let size = self.sizes[self.sent];
        let bytes = pattern(size as u64, size);
        let body = match self.sent % 2 {
            0 => Body::Bytes(bytes),
            _ => {
                let mut buffer = Buffer::new(size).unwrap();
                buffer.payload_mut()[..size].copy_from_slice(&bytes);
                Body::Buffer { buffer, from: 0, to: size }
            }
        };
        Op::Send { socket, head: Some(head(self.sent as u8)), body }
    }
}
