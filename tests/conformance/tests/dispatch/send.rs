//! Sending: the kinds of bodies, sources that fail, and the pipe that no socket may hold.

use crate::harness::{Member, Scene, file, head, pattern};
use rustix::io::Errno;
use std::os::fd::OwnedFd;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{Body, Completion, Dispatch, End, Op, Side, SocketId};

/// Receives exactly `length` bytes while whatever else completes is counted as sent.
fn drain<M: Member>(scene: &mut Scene<M>, to: SocketId, length: usize) -> (Vec<u8>, Vec<(SocketId, u64)>) {
    let (mut received, mut sent) = (Vec::new(), Vec::new());
    scene.submit(Op::Some { socket: to, limit: length });
    loop {
        match scene.next() {
            Completion::Some { .. } => received.extend_from_slice(scene.dispatcher.scratch()),
            Completion::Sent { socket, short_by, .. } => {
                sent.push((socket, short_by));
                continue;
            }
            other => panic!("{other:?}"),
        }
        match length - received.len() {
            0 => return (received, sent),
            left => scene.submit(Op::Some { socket: to, limit: left }),
        }
    }
}

/// As `drain`, and the one send that was under way is complete, with what it lacked.
fn drain_one<M: Member>(scene: &mut Scene<M>, to: SocketId, length: usize) -> (Vec<u8>, u64) {
    let (received, mut sent) = drain(scene, to, length);
    if sent.is_empty() {
        match scene.next() {
            Completion::Sent { socket, short_by, .. } => sent.push((socket, short_by)),
            other => panic!("{other:?}"),
        }
    }
    assert_eq!(sent.len(), 1);
    (received, sent[0].1)
}

pub(crate) fn every_kind_of_body_arrives_exactly<M: Member>() {
    const LENGTH: usize = 300_001;
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    let source = scene.dispatcher.open_file(file(&pattern(0, 500_000)));
    let mut buffer = Buffer::new(LENGTH + 10).unwrap();
    buffer.payload_mut()[10..10 + LENGTH].copy_from_slice(&pattern(77, LENGTH));
    let bodies = [
        (Body::None, Vec::new()),
        (Body::Bytes(pattern(5, LENGTH)), pattern(5, LENGTH)),
        (Body::Bytes(Vec::new()), Vec::new()),
        (Body::Buffer { buffer, from: 10, to: 10 + LENGTH }, pattern(77, LENGTH)),
        (Body::File { file: source, offset: 12_345, length: LENGTH as u64 }, pattern(12_345, LENGTH)),
        (Body::File { file: source, offset: 0, length: 0 }, Vec::new()),
        (Body::Zero { length: 3 * LENGTH as u64 }, vec![0; 3 * LENGTH]),
        (Body::Lead(pattern(5, LENGTH)), pattern(5, LENGTH)),
    ];
    for (place, (body, expected)) in bodies.into_iter().enumerate() {
        let (with_head, front) = match place % 2 {
            0 => (Some(head(9)), head(9).to_vec()),
            _ => (None, Vec::new()),
        };
        let expected = [front, expected].concat();
        scene.submit(Op::Send { socket: from, head: with_head, body });
        if expected.is_empty() {
            assert!(matches!(scene.next(), Completion::Sent { short_by: 0, .. }));
            continue;
        }
        let (received, short_by) = drain_one(&mut scene, to, expected.len());
        assert!(received == expected, "body {place}");
        assert_eq!(short_by, 0);
    }
    scene.dispatcher.close_file(source);
}

pub(crate) fn a_source_that_shrank_goes_out_as_zeros_and_is_reported<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, to) = scene.pair();
    let source = scene.dispatcher.open_file(file(&pattern(0, 200_000)));
    let body = Body::File { file: source, offset: 50_000, length: 400_000 };
    scene.submit(Op::Send { socket: from, head: Some(head(2)), body });
    let (received, short_by) = drain_one(&mut scene, to, 48 + 400_000);
    assert_eq!(short_by, 250_000);
    let expected = [head(2).to_vec(), pattern(50_000, 150_000), vec![0; 250_000]].concat();
    assert!(received == expected, "what there was, then zeros");
    // The record behind it is in its place.
    scene.send(from, Some(head(3)), Body::None);
    assert_eq!(scene.head(to), head(3));
}

pub(crate) fn a_source_that_cannot_be_read_ends_the_send<M: Member>() {
    let mut scene = Scene::<M>::new();
    let (from, _to) = scene.pair();
    let directory: OwnedFd = std::fs::File::open("/").unwrap().into();
    let source = scene.dispatcher.open_file(directory);
    let body = Body::File { file: source, offset: 0, length: 10 };
    scene.submit(Op::Send { socket: from, head: Some(head(2)), body });
    match scene.next() {
        Completion::Ended { side: Side::Send, cause, .. } => {
            assert_eq!(cause, End::Source(Errno::ISDIR.raw_os_error()));
        }
        other => panic!("{other:?}"),
    }
}

pub(crate) fn a_full_socket_does_not_hold_up_another_file<M: Member>() {
    const LENGTH: usize = 8 << 20;
    let mut scene = Scene::<M>::new();
    let ((stalled, unread), (moving, to)) = (scene.pair(), scene.pair());
    let one = scene.dispatcher.open_file(file(&pattern(0, LENGTH)));
    let other = scene.dispatcher.open_file(file(&pattern(99, LENGTH)));
    let send =
        |socket, file| Op::Send { socket, head: None, body: Body::File { file, offset: 0, length: LENGTH as u64 } };
    scene.submit(send(stalled, one));
    scene.quiet();
    let before = scene.dispatcher.progress(stalled).sent;
    assert!(before < LENGTH as u64 / 2, "the socket is full and its bytes are not all gone");
    scene.submit(send(moving, other));
    let (received, short_by) = drain_one(&mut scene, to, LENGTH);
    assert!(received == pattern(99, LENGTH), "the bytes of the other file and no others");
    assert_eq!(short_by, 0);
    assert!(scene.dispatcher.progress(stalled).sent < LENGTH as u64, "still stalled");
    let (received, short_by) = drain_one(&mut scene, unread, LENGTH);
    assert!(received == pattern(0, LENGTH), "what was dropped from the pipe was taken from the file again");
    assert_eq!(short_by, 0);
}

pub(crate) fn two_files_interleave_on_two_sockets<M: Member>() {
    const LENGTH: usize = 1_500_000;
    let mut scene = Scene::<M>::new();
    let pairs = [scene.pair(), scene.pair()];
    let files: Vec<_> = (0..2).map(|n| scene.dispatcher.open_file(file(&pattern(n, LENGTH)))).collect();
    for (n, (from, to)) in pairs.iter().enumerate() {
        let body = Body::File { file: files[n], offset: 1, length: LENGTH as u64 - 1 };
        scene.submit(Op::Send { socket: *from, head: None, body });
        scene.submit(Op::Some { socket: *to, limit: 10_000 });
    }
    let mut received = [Vec::new(), Vec::new()];
    let mut sent = 0;
    while sent < 2 || received.iter().any(|bytes| bytes.len() < LENGTH - 1) {
        match scene.next() {
            Completion::Some { socket, .. } => {
                let n = pairs.iter().position(|(_, to)| *to == socket).unwrap();
                received[n].extend_from_slice(scene.dispatcher.scratch());
                if received[n].len() < LENGTH - 1 {
                    scene.submit(Op::Some { socket, limit: 10_000 });
                }
            }
            Completion::Sent { short_by: 0, .. } => sent += 1,
            other => panic!("{other:?}"),
        }
    }
    for (n, bytes) in received.iter().enumerate() {
        assert!(*bytes == pattern(n as u64 + 1, LENGTH - 1), "file {n}");
    }
}

pub(crate) fn buffers_come_back_when_a_send_fails_or_is_detached<M: Member>() {
    const LENGTH: usize = 16 << 20;
    let mut scene = Scene::<M>::new();
    let endless = |socket| Op::Send {
        socket,
        head: None,
        body: Body::Buffer { buffer: Buffer::new(LENGTH).unwrap(), from: 0, to: LENGTH },
    };
    let (from, to) = scene.pair();
    scene.submit(endless(from));
    scene.quiet();
    let link = scene.dispatcher.detach(to, &mut Vec::new()).link;
    scene.implementation.break_off(link);
    match scene.next() {
        Completion::Ended { side: Side::Send, cause: End::Failed(_), buffer, .. } => {
            assert_eq!(buffer.unwrap().capacity(), LENGTH);
        }
        other => panic!("{other:?}"),
    }
    let (from, to) = scene.pair();
    scene.submit(endless(from));
    scene.submit(Op::Fill { socket: from, buffer: Buffer::new(4096).unwrap(), from: 0, to: 4096 });
    scene.quiet();
    let mut returned = Vec::new();
    let detached = scene.dispatcher.detach(from, &mut returned);
    let mut sizes: Vec<_> = returned.iter().map(Buffer::capacity).collect();
    sizes.sort_unstable();
    assert_eq!(sizes, [4096, LENGTH]);
    drop(detached);
    scene.submit(Op::Some { socket: to, limit: 1 });
    assert!(matches!(scene.next(), Completion::Some { length: 1, .. }), "what was sent before is there");
}

pub(crate) fn a_reset_while_a_file_is_sent_ends_the_send<M: Member>() {
    const LENGTH: usize = 16 << 20;
    let mut scene = Scene::<M>::new();
    let source = scene.dispatcher.open_file(file(&pattern(0, LENGTH)));
    for _ in 0..3 {
        let (from, to) = scene.pair();
        let body = Body::File { file: source, offset: 0, length: LENGTH as u64 };
        scene.submit(Op::Send { socket: from, head: Some(head(1)), body });
        scene.quiet();
        let link = scene.dispatcher.detach(to, &mut Vec::new()).link;
        scene.implementation.break_off(link);
        match scene.next() {
            Completion::Ended { socket, side: Side::Send, cause: End::Failed(_), buffer: None } => {
                assert_eq!(socket, from);
            }
            other => panic!("{other:?}"),
        }
        // Again, on a connection that is known to be broken: no signal ends the process.
        let body = Body::File { file: source, offset: 0, length: 1 };
        scene.submit(Op::Send { socket: from, head: None, body });
        assert!(matches!(scene.next(), Completion::Ended { cause: End::Failed(_), .. }));
    }
    scene.dispatcher.close_file(source);
}
