//! Driver stacks under a dispatcher: a layer is part of the type, and what it says about the direct route holds.

use crate::harness::{Member, file, head, next, pattern};
use std::cell::RefCell;
use std::rc::Rc;
use xdfs_io::buf::Buffer;
use xdfs_io::dispatch::{Body, Completion, Dispatch, Epoll, Op, SocketId};
use xdfs_io::stack::{Count, Trace, TraceEvent};
use xdfs_io::transport::{Address, Link, TransportOptions, registry};

const LENGTH: usize = 1 << 20;

/// Sends one block of a file from `from` to `to` and checks it.
fn one_block<L: std::fmt::Debug, D: Dispatch<Link = L>>(dispatcher: &mut D, from: SocketId, to: SocketId) {
    let source = dispatcher.open_file(file(&pattern(0, LENGTH)));
    let body = Body::File { file: source, offset: 0, length: LENGTH as u64 };
    dispatcher.submit(Op::Send { socket: from, head: Some(head(1)), body });
    dispatcher.submit(Op::Head { socket: to });
    let mut sent = false;
    loop {
        match next(dispatcher) {
            Completion::Sent { short_by: 0, .. } => sent = true,
            Completion::Head { .. } => {
                let buffer = Buffer::new(LENGTH).unwrap();
                dispatcher.submit(Op::Fill { socket: to, buffer, from: 0, to: LENGTH });
            }
            Completion::Filled { buffer, .. } => {
                assert!(buffer.payload() == pattern(0, LENGTH));
                break;
            }
            other => panic!("{other:?}"),
        }
    }
    assert!(sent || matches!(next(dispatcher), Completion::Sent { short_by: 0, .. }));
}

#[test]
fn counting_leaves_the_direct_route_open_and_counts_its_bytes() {
    let (from, to) = crate::KernelEpoll::new().pair();
    let mut dispatcher = Epoll::<Count<Link>>::new().unwrap();
    let from = dispatcher.attach(Count::new(from), &[]).unwrap();
    let to = dispatcher.attach(Count::new(to), &[]).unwrap();
    one_block(&mut dispatcher, from, to);
    let sent = dispatcher.link(from).counts();
    assert_eq!(sent.sent, 48 + LENGTH as u64);
    assert_eq!(sent.sent_directly, LENGTH as u64, "the file went around the layer");
    assert_eq!(sent.send_calls, 1, "the head");
    assert_eq!(dispatcher.link(to).counts().received, 48 + LENGTH as u64);
}

#[test]
fn tracing_sees_every_byte_so_files_go_through_it() {
    type Seen = Rc<RefCell<u64>>;
    let seen = Seen::default();
    let observer = |seen: &Seen| {
        let seen = seen.clone();
        move |event: TraceEvent| {
            if let TraceEvent::Sent(Ok(bytes)) = event {
                *seen.borrow_mut() += bytes as u64;
            }
        }
    };
    let (from, to) = crate::KernelEpoll::new().pair();
    fn dispatcher_of<F: FnMut(TraceEvent) + Clone>(_like: &F) -> Epoll<Trace<Count<Link>, F>> {
        Epoll::new().unwrap()
    }
    let observe = observer(&seen);
    let mut dispatcher = dispatcher_of(&observe);
    let from = dispatcher.attach(Trace::new(Count::new(from), observe.clone()), &[]).unwrap();
    let to = dispatcher.attach(Trace::new(Count::new(to), observe), &[]).unwrap();
    let source = dispatcher.open_file(file(&pattern(0, LENGTH)));
    let body = Body::File { file: source, offset: 0, length: LENGTH as u64 };
    dispatcher.submit(Op::Send { socket: from, head: Some(head(1)), body });
    dispatcher.submit(Op::Small { socket: to, length: 48 });
    let mut received = 0;
    while received < 48 + LENGTH {
        match dispatcher.next(None).unwrap() {
            Completion::Small { bytes, .. } => received += bytes.len(),
            Completion::Some { length, .. } => {
                assert!(dispatcher.scratch() == pattern(received as u64 - 48, length));
                received += length;
            }
            Completion::Sent { .. } => continue,
            _ => panic!("an end"),
        }
        if received < 48 + LENGTH {
            dispatcher.submit(Op::Some { socket: to, limit: 48 + LENGTH - received });
        }
    }
    assert_eq!(*seen.borrow(), 48 + LENGTH as u64);
    assert_eq!(dispatcher.link(from).inner().counts().sent_directly, 0);
}

#[test]
fn a_fill_takes_the_block_and_the_next_head_in_one_call() {
    let (from, to) = crate::KernelEpoll::new().pair();
    let mut dispatcher = Epoll::<Count<Link>>::new().unwrap();
    let from = dispatcher.attach(Count::new(from), &[]).unwrap();
    let to = dispatcher.attach(Count::new(to), &[]).unwrap();
    dispatcher.submit(Op::Send { socket: from, head: None, body: Body::Bytes(pattern(0, 10_000 + 48)) });
    assert!(matches!(next(&mut dispatcher), Completion::Sent { .. }));
    // All of it is in the receiving socket before the first call.
    while rustix::io::ioctl_fionread(dispatcher.link(to)).unwrap() < 10_048 {
        std::thread::yield_now();
    }
    dispatcher.submit(Op::Fill { socket: to, buffer: Buffer::new(10_000).unwrap(), from: 0, to: 10_000 });
    assert!(matches!(next(&mut dispatcher), Completion::Filled { .. }));
    dispatcher.submit(Op::Head { socket: to });
    match next(&mut dispatcher) {
        Completion::Head { head, .. } => assert_eq!(head.to_vec(), pattern(10_000, 48)),
        other => panic!("{other:?}"),
    }
    assert_eq!(dispatcher.link(to).counts().receive_calls, 1);
}

#[test]
fn transports_are_found_by_name() {
    let tcp = registry::transport("tcp").unwrap();
    let any = Address::Tcp("127.0.0.1:0".parse().unwrap());
    let listener = (tcp.listen)(&any, &TransportOptions::default()).unwrap();
    (tcp.connect)(&listener.local().unwrap(), &TransportOptions::default()).unwrap();
    let unix = registry::transport("unix").unwrap();
    let refused = (unix.listen)(&any, &TransportOptions::default()).unwrap_err();
    assert_eq!(refused.to_string(), "127.0.0.1:0 is no address of the transport unix");
    assert!(registry::transport("carrier pigeon").is_none());
}
