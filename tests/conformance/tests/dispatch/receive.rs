//! Receiving: order, heads read ahead, ends and failures.

use crate::harness::{Member, Scene, head, pattern};
use rustix::io::Errno;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::sim::Random;
use xdfs_io::dispatch::{AHEAD_BYTES, Body, Completion, Dispatch, End, HEAD_BYTES, Op, Side};

pub(crate) fn bytes_arrive_in_order_whatever_operation_takes_them<M: Member>() {
    const TOTAL: usize = 700_000;
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    let mut random = Random::new(3);
    scene.submit(Op::Send { socket: from, head: None, body: Body::Bytes(pattern(0, TOTAL)) });
    let mut received = Vec::new();
    let mut sent = 0;
    while received.len() < TOTAL {
        let left = TOTAL - received.len();
        let length = (1 + random.below(9_000) as usize).min(left);
        match random.below(4) {
            0 if left >= HEAD_BYTES => scene.submit(Op::Head { socket: to }),
            1 => scene.submit(Op::Small { socket: to, length }),
            2 => {
                let buffer = Buffer::new(20_000).unwrap();
                scene.submit(Op::Fill { socket: to, buffer, from: 100, to: 100 + length });
            }
            _ => scene.submit(Op::Some { socket: to, limit: length }),
        }
        loop {
            match scene.next() {
                Completion::Sent { .. } => {
                    sent += 1;
                    continue;
                }
                Completion::Head { head, .. } => received.extend(head),
                Completion::Small { bytes, .. } => received.extend(bytes),
                Completion::Filled { buffer, .. } => received.extend(&buffer.payload()[100..100 + length]),
                Completion::Some { length: some, .. } => {
                    assert!((1..=length).contains(&some), "{some} of at most {length}");
                    assert_eq!(scene.dispatcher.scratch().len(), some);
                    received.extend_from_slice(scene.dispatcher.scratch());
                }
                other => panic!("{other:?}"),
            }
            break;
        }
    }
    assert_eq!(received.len(), TOTAL, "nothing beyond what was asked for");
    assert!(received == pattern(0, TOTAL), "the bytes are those that were sent");
    assert!(sent == 1 || matches!(scene.next(), Completion::Sent { .. }));
    assert_eq!(scene.dispatcher.progress(to).received, TOTAL as u64);
    assert_eq!(scene.dispatcher.progress(from).sent, TOTAL as u64);
}

pub(crate) fn the_head_behind_a_fill_is_kept_for_the_next_head<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    for round in 0..5u8 {
        scene.send(from, Some(head(round)), Body::Bytes(pattern(0, 5000)));
        scene.send(from, Some(head(100 + round)), Body::None);
        assert_eq!(scene.head(to), head(round));
        assert_eq!(scene.fill(to, 5000).payload()[..5000], pattern(0, 5000));
        assert_eq!(scene.head(to), head(100 + round));
    }
    // Whatever comes after a fill gets those bytes, not only a head.
    scene.send(from, None, Body::Bytes(pattern(0, 300)));
    assert_eq!(scene.fill(to, 100).payload()[..100], pattern(0, 100));
    assert_eq!(scene.small(to, 70), pattern(100, 70));
    assert_eq!(scene.fill(to, 130).payload()[..130], pattern(170, 130));
}

pub(crate) fn a_head_in_two_parts_survives_detach_and_attach<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.submit(Op::Head { socket: to });
    scene.send(from, None, Body::Bytes(pattern(0, 20)));
    scene.until_received(to, 20);
    let detached = scene.dispatcher.detach(to, &mut Vec::new());
    assert_eq!(detached.unread, pattern(0, 20));
    let to = scene.dispatcher.attach(detached.link, &detached.unread).unwrap();
    scene.send(from, None, Body::Bytes(pattern(20, 100)));
    assert_eq!(scene.head(to).to_vec(), pattern(0, HEAD_BYTES));
    assert_eq!(scene.small(to, 72), pattern(48, 72));
}

pub(crate) fn a_head_read_ahead_survives_detach_and_attach<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.send(from, None, Body::Bytes(pattern(0, 1000 + HEAD_BYTES)));
    scene.fill(to, 1000);
    let detached = scene.dispatcher.detach(to, &mut Vec::new());
    let ahead = detached.unread.len();
    assert!(ahead <= HEAD_BYTES, "at most a head is read ahead");
    assert_eq!(detached.unread, pattern(1000, ahead));
    let to = scene.dispatcher.attach(detached.link, &detached.unread).unwrap();
    assert_eq!(scene.head(to).to_vec(), pattern(1000, HEAD_BYTES));
}

pub(crate) fn what_a_small_read_takes_ahead_is_bounded_and_goes_to_whatever_comes_next<M: Member>() {
    const TOTAL: usize = 3 * AHEAD_BYTES;
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.send(from, None, Body::Bytes(pattern(0, TOTAL)));
    assert_eq!(scene.small(to, 5), pattern(0, 5));
    let detached = scene.dispatcher.detach(to, &mut Vec::new());
    assert!(detached.unread.len() <= AHEAD_BYTES, "{} bytes were read ahead", detached.unread.len());
    assert_eq!(detached.unread, pattern(5, detached.unread.len()));
    let to = scene.dispatcher.attach(detached.link, &detached.unread).unwrap();
    assert_eq!(scene.head(to).to_vec(), pattern(5, HEAD_BYTES));
    assert_eq!(scene.fill(to, 1000).payload()[..1000], pattern(53, 1000));
    // In part from what was read ahead, in part from the socket.
    assert_eq!(scene.small(to, AHEAD_BYTES), pattern(1053, AHEAD_BYTES));
    assert_eq!(scene.head(to).to_vec(), pattern((1053 + AHEAD_BYTES) as u64, HEAD_BYTES));
    let rest = 1053 + AHEAD_BYTES + HEAD_BYTES;
    assert_eq!(scene.fill(to, TOTAL - rest).payload()[..TOTAL - rest], pattern(rest as u64, TOTAL - rest));
    assert_eq!(scene.dispatcher.progress(to).received, (TOTAL - 5 - detached.unread.len()) as u64);
}

pub(crate) fn bytes_in_front_of_the_end_come_first<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.send(from, None, Body::Bytes(pattern(0, 60)));
    drop(scene.dispatcher.detach(from, &mut Vec::new()));
    assert_eq!(scene.small(to, 50), pattern(0, 50));
    scene.submit(Op::Small { socket: to, length: 50 });
    match scene.next() {
        Completion::Ended { side: Side::Receive, cause: End::Closed, buffer: None, .. } => {}
        other => panic!("{other:?}"),
    }
}

pub(crate) fn the_end_is_told_once_for_each_operation<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.submit(Op::Head { socket: to });
    drop(scene.dispatcher.detach(from, &mut Vec::new()));
    for _ in 0..2 {
        match scene.next() {
            Completion::Ended { socket, side: Side::Receive, cause: End::Closed, .. } => assert_eq!(socket, to),
            other => panic!("{other:?}"),
        }
        scene.quiet();
        scene.submit(Op::Some { socket: to, limit: 9 });
    }
}

pub(crate) fn a_reset_is_a_failure_and_gives_the_buffer_back<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    scene.submit(Op::Fill { socket: to, buffer: Buffer::new(9000).unwrap(), from: 0, to: 9000 });
    let link = scene.dispatcher.detach(from, &mut Vec::new()).link;
    scene.implementation.break_off(link);
    match scene.next() {
        Completion::Ended { side: Side::Receive, cause, buffer: Some(buffer), .. } => {
            assert_eq!(cause, End::Failed(Errno::CONNRESET.raw_os_error()));
            assert_eq!(buffer.capacity(), 12288);
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn an_empty_fill_and_an_empty_small_complete<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (_from, to) = scene.pair();
    scene.fill(to, 0);
    assert_eq!(scene.small(to, 0), Vec::<u8>::new());
    assert_eq!(scene.dispatcher.progress(to).received, 0);
}

pub(crate) fn a_long_fill_comes_in_whole_over_many_turns<M: Member>() {
    const LENGTH: usize = 4 << 20;
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    let mut source = Buffer::new(LENGTH).unwrap();
    source.payload_mut().copy_from_slice(&pattern(7, LENGTH));
    scene.submit(Op::Send {
        socket: from,
        head: Some(head(1)),
        body: Body::Buffer { buffer: source, from: 0, to: LENGTH },
    });
    assert_eq!(scene.head(to), head(1));
    scene.submit(Op::Fill { socket: to, buffer: Buffer::new(LENGTH).unwrap(), from: 0, to: LENGTH });
    let (mut filled, mut source) = (None, None);
    while filled.is_none() || source.is_none() {
        match scene.next() {
            Completion::Filled { buffer, .. } => filled = Some(buffer),
            Completion::Sent { buffer, short_by: 0, .. } => source = buffer,
            other => panic!("{other:?}"),
        }
    }
    assert!(filled.unwrap().payload() == source.unwrap().payload());
}
